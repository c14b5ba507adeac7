"""What the smoke's containers run: `python3 -c <this file> <JSON>`, with the standard library only.

It notes what happens to it, each note as a line of output and as an object in the bucket:

    PREFIX/REPLICA/START/NUMBER-MOMENT-KIND

The JSON says where (`bucket`, `prefix`), how often it beats (`beat`, in seconds), which replica's
beginning it waits for (`after`, none: nobody's), what it does then (`then`: exit, beat, crash) and,
for exit, with which status. While it beats it ignores SIGTERM, so that the last beat tells the
grace. It holds no dollar sign: the platform rewrites those in commands.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

ORDERS: dict[str, Any] = json.loads(sys.argv[1])
STORAGE = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")
METADATA = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
ACCOUNT = f"http://{METADATA}/computeMetadata/v1/instance/service-accounts/default/"
START = os.urandom(4).hex()
MISSING = (OSError, ValueError, KeyError)
"""What asking for something that is not there comes to; urllib's errors are OSErrors."""


def metadata(path: str) -> str:
    """Ask the metadata server about the account that this container runs as."""
    request = urllib.request.Request(ACCOUNT + path, headers={"Metadata-Flavor": "Google"})  # noqa: S310 - Google's own address
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
        return str(answer.read().decode())


def storage(path: str, body: bytes | None = None) -> Any:
    """Ask Cloud Storage."""
    headers = {"Content-Type": "application/json"}
    if "STORAGE_EMULATOR_HOST" not in os.environ:
        headers["Authorization"] = "Bearer " + json.loads(metadata("token"))["access_token"]
    request = urllib.request.Request(STORAGE.rstrip("/") + path, body, headers)  # noqa: S310 - the same
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the same
        return json.loads(answer.read() or b"{}")


def replica() -> str:
    """This replica's pool and index; empty where the platform says nothing of them."""
    try:
        task = json.loads(os.environ["CLUSTER_SPEC"])["task"]
    except MISSING:
        return "unnamed-0"
    return f"{task['type']}-{task['index']}"


NUMBERS = iter(range(1, 100_000))


def note(kind: str, **data: Any) -> None:
    """Say what happened: here, and in the bucket where this account may write to it."""
    text = json.dumps({"kind": kind, **data})
    moment = f"{next(NUMBERS):05}-{time.time():.3f}"
    print("smoke:", text, flush=True)  # noqa: T201 - this is its log
    name = f"{ORDERS['prefix']}/{replica()}/{START}/{moment}-{kind}"
    query = urllib.parse.urlencode({"uploadType": "media", "name": name})
    try:
        storage(f"/upload/storage/v1/b/{ORDERS['bucket']}/o?{query}", text.encode())
    except MISSING as error:
        print("smoke: not kept:", repr(error), flush=True)  # noqa: T201 - the same


def account() -> dict[str, str]:
    """Whom this container runs as, and what its tokens are good for."""
    try:
        return {"email": metadata("email"), "scopes": metadata("scopes")}
    except MISSING as error:
        return {"missing": repr(error)}


def read(path: str) -> str:
    """A small file's text; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - one line, no import
            return file.read().strip()
    except OSError:
        return ""


def surroundings() -> dict[str, Any]:
    """What the platform made of this container."""
    shared = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None  # noqa: PTH112, S108 - the same
    return {
        "cluster_spec": os.environ.get("CLUSTER_SPEC", ""),
        "variables": sorted(os.environ),
        "pid": os.getpid(),
        "uid": os.getuid(),
        "memory_max": read("/sys/fs/cgroup/memory.max"),
        "shared_memory": shared.f_frsize * shared.f_blocks if shared else 0,
        "gcs": os.path.isdir("/gcs"),  # noqa: PTH112 - the same
        **account(),
    }


def has_begun(other: str) -> bool:
    """Whether another replica of this job has begun."""
    query = urllib.parse.urlencode({"prefix": f"{ORDERS['prefix']}/{other}/"})
    return bool(storage(f"/storage/v1/b/{ORDERS['bucket']}/o?{query}").get("items"))


def beat() -> None:
    """Note each moment that passes, and SIGTERM, until the end comes by itself."""
    signal.signal(signal.SIGTERM, lambda *_: note("sigterm"))
    note("ready")
    while True:
        time.sleep(ORDERS["beat"])
        note("beat")


if __name__ == "__main__":
    note("started", **surroundings())
    while ORDERS["after"] and not has_begun(ORDERS["after"]):
        time.sleep(ORDERS["beat"])
    if ORDERS["then"] == "beat":
        beat()
    if ORDERS["then"] == "crash":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        # As PID 1 a process cannot be killed by its own signal: then by an invalid access.
        os.kill(os.getpid(), signal.SIGSEGV)
        import ctypes

        ctypes.string_at(0)
    sys.exit(ORDERS["status"])
