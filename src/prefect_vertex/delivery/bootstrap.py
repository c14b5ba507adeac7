"""What a replica runs first: it fetches the code, prepares the environment, starts the command.

It travels in the job's command as `python3 -c <packed> <command...>` (see `packing`), so it needs
only the standard library of Python 3.9, holds no dollar sign (the platform rewrites those in
commands) and stays small. It reads its configuration from the environment:

    PREFECT_VERTEX_CODE_URI, PREFECT_VERTEX_CODE_SHA256   the archive, unpacked and put first on
                                                          PYTHONPATH; unset: the image's code
    PREFECT_VERTEX_SETUP_COMMAND                          JSON list of lines of one `sh -e` script
                                                          whose environment the command inherits
    EXTRA_PIP_PACKAGES                                    installed as Prefect's own image does
    PREFECT_API_URL and Prefect's key, auth string,       where the Prefect API must answer from
    headers and TLS settings                              here; unset: not asked
    PREFECT__FLOW_RUN_ID, PREFECT_VERTEX_ATTEMPT          whose start is claimed, if both are set
    PREFECT_VERTEX_GUARD                                  0: it is not, and may start again
    CLUSTER_SPEC, CLOUD_ML_JOB_ID                         the replica's place and its job, as the
                                                          platform sets them
    PREFECT_VERTEX_RANK, PREFECT_VERTEX_WORLD_SIZE        set from CLUSTER_SPEC unless given; a
                                                          parameter server or evaluator has none
    STORAGE_EMULATOR_HOST, GCE_METADATA_HOST              as Google's clients read them

What goes wrong ends the replica with one line on stderr and one of these codes:

    70   a fault of the bootstrap itself        76        setup_command or EXTRA_PIP_PACKAGES failed
    71   the archive could not be fetched       78        the configuration cannot be read
    72   the archive is not the one expected    126       the command may not be executed
    73   nowhere to write, or no space          127       the command is not there
    74   the Prefect API does not answer, or    128 + n   ended by signal n
         does not know the flow run
    75   this attempt was started before: nothing was run

Status 0 without the command having run means that the flow run needs no start. Otherwise the
command replaces this process. As PID 1 the bootstrap stays instead, as a small init: the kernel
drops a SIGTERM that PID 1 has no handler for, and nobody else would reap orphans.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import http.client
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import Any, Callable, NoReturn  # noqa: UP035 - dropped by `packing`, unlike collections.abc

RETRY_SECONDS = 60
TIMEOUT_SECONDS = 10
REFUSED = (401, 403)
CONFLICT = 409
ABSENT = 404
TRANSIENT = (408, 429, 500, 502, 503, 504)
PRIMARY = ("chief", "master", "workerpool0")
WORKERS = ("worker", "workerpool1")
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.ENOENT)
NETWORK = (OSError, http.client.HTTPException)
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
FORWARDED = (*SIGNALS, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH)

env = os.environ


def say(message: object, file: Any = None) -> None:
    """Print one line; the platform keeps log entries by line."""
    print("prefect-vertex:", " ".join(str(message).split()), file=file or sys.stdout, flush=True)


def die(code: int, message: object) -> NoReturn:
    """End the replica with one line that says why."""
    say(message, sys.stderr)
    sys.exit(code)


def reason(error: BaseException) -> str:
    """Return the shortest text that still says what went wrong."""
    text = str(getattr(error, "reason", "") or error) or type(error).__name__
    return f"HTTP {error.code} {text}" if isinstance(error, urllib.error.HTTPError) else text


def persist(action: Callable[[], Any]) -> Any:
    """Return what `action` returns, repeating it while the network fails: 60 s at most."""
    deadline = time.monotonic() + RETRY_SECONDS
    pause = 0.25
    while True:
        try:
            return action()
        except NETWORK as error:
            permanent = status(error) not in TRANSIENT or is_local(error)
            if permanent or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 5)


def status(error: BaseException) -> int:
    """Return the HTTP status of a refusal, or that of an unavailable server for any other error."""
    return getattr(error, "code", 503)


def is_local(error: BaseException) -> bool:
    """Whether the fault lies with this machine, so that no repetition mends it."""
    return getattr(error, "errno", 0) in LOCAL


def request(url: str, headers: dict[str, str], body: bytes | None, *handlers: Any) -> Any:
    """Open `url`, posting the body if there is one; a redirect gets none of the headers."""
    wanted = urllib.request.Request(url, body)  # noqa: S310 - the job's own addresses
    for name, value in {"User-Agent": "prefect-vertex", **headers}.items():
        wanted.add_unredirected_header(name, value)
    return urllib.request.build_opener(*handlers).open(wanted, timeout=TIMEOUT_SECONDS)


def tls(cafile: str | None = None, verify: bool = True) -> Any:  # noqa: FBT001, FBT002 - packed by position
    """Trust `cafile`, or the system's authorities and certifi's: some images have only those."""
    context = ssl.create_default_context(cafile=cafile)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not cafile and importlib.util.find_spec("certifi"):
        context.load_verify_locations(importlib.import_module("certifi").where())
    return urllib.request.HTTPSHandler(context=context)


# --- where to write ------------------------------------------------------------------------------


def writable(path: Path) -> bool:
    """Whether `path`, or the first of its parents that exists, is a directory to write in."""
    while not os.access(path, os.F_OK) and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | os.X_OK) and path.is_dir()


def prepare_places() -> Path:
    """Point home, Prefect's home and the working directory to where this user may write."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix="prefect-vertex-")).resolve()
    except OSError as error:
        die(73, f"no directory to write in: {error}; set TMPDIR to one")
    home, work = scratch / "home", scratch / "work"
    if not env.get("HOME") or not writable(Path(env["HOME"])):
        home.mkdir()
        env["HOME"] = str(home)
    if not writable(Path(env.get("PREFECT_HOME") or env["HOME"] + "/.prefect")):
        env["PREFECT_HOME"] = str(scratch / "prefect")
    try:
        here = Path.cwd()
    except OSError:
        here = Path("/")
    if not writable(here):
        work.mkdir()
        # The image's own files stay reachable by relative paths: entrypoints are such paths.
        for path in here.iterdir() if here != Path("/") and os.access(here, os.R_OK) else ():
            (work / path.name).symlink_to(path)
        os.chdir(work)
    env.setdefault("PYTHONUNBUFFERED", "1")
    return scratch


# --- the replica's place --------------------------------------------------------------------------


def take_place() -> str:
    """Export rank and world size, and return the replica's name within its attempt.

    Parameter servers and evaluators are not counted, and so have no rank.
    """
    rank, size, name = 0, 1, ""
    text = env.get("CLUSTER_SPEC")
    if text:
        try:
            spec = json.loads(text)
            counts = {pool: len(hosts) for pool, hosts in spec["cluster"].items()}
            pool, rank = spec["task"]["type"], int(spec["task"]["index"])
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            die(78, f"CLUSTER_SPEC cannot be read ({error!r}): {text[:500]}")
        # A job with one replica has several spellings of its pool's name.
        if sum(counts.values()) > 1:
            size = sum(counts.get(counted, 0) for counted in PRIMARY + WORKERS)
            name = "" if pool in PRIMARY + WORKERS else f"{pool}-{rank}"
            rank += pool in WORKERS
    given = env.get("PREFECT_VERTEX_RANK")
    if name and not given:
        return name
    env["PREFECT_VERTEX_RANK"] = given = given or str(rank)
    world = env["PREFECT_VERTEX_WORLD_SIZE"] = env.get("PREFECT_VERTEX_WORLD_SIZE") or str(size)
    if not given.isdecimal() or not world.isdecimal() or int(given) >= int(world):
        die(78, f"rank {given} of {world}: set PREFECT_VERTEX_RANK and PREFECT_VERTEX_WORLD_SIZE")
    return given


# --- the archive ---------------------------------------------------------------------------------


def metadata(path: str) -> str:
    """Ask the metadata server about the account that this replica runs as; never by a proxy."""
    named = "metadata.google.internal"
    host = env.get("GCE_METADATA_HOST") or named
    url = "http://%s/computeMetadata/v1/instance/service-accounts/default/" + path
    direct = urllib.request.ProxyHandler({})
    headers = {"Metadata-Flavor": "Google"}
    try:
        answer = request(url % host, headers, None, direct)
    except urllib.error.URLError as error:
        if host != named or not isinstance(error.reason, socket.gaierror):
            raise
        answer = request(url % "169.254.169.254", headers, None, direct)
    with answer:
        return str(answer.read().decode())


def ask_token() -> str:
    """Return an access token; a metadata server that is not up yet counts as unreachable."""
    try:
        return str(json.loads(metadata("token"))["access_token"])
    except (ValueError, LookupError, urllib.error.HTTPError) as error:
        raise ConnectionError(reason(error)) from error


def identity() -> str:
    """Name account and scopes: with those a refusal can be mended."""
    try:
        return f"account {metadata('email')}, scopes {metadata('scopes')}"
    except NETWORK:
        return "this replica's account"


def save(url: str, path: Path) -> str:
    """Download `url` to `path` and return its SHA-256."""
    if env.get("STORAGE_EMULATOR_HOST"):
        answer = request(url, {}, None)
    else:
        try:
            token = persist(ask_token)
        except NETWORK as error:
            die(71, f"no access token from the metadata server to fetch the code: {reason(error)}")
        answer = request(url, {"Authorization": "Bearer " + token}, None, tls())
    digest = hashlib.sha256()
    with answer, path.open("wb") as file:
        for block in iter(lambda: answer.read(1 << 20), b""):
            file.write(block)
            digest.update(block)
        if file.tell() < int(answer.headers.get("Content-Length") or 0):
            raise ConnectionError(f"the answer ended after {file.tell()} bytes")
    return digest.hexdigest()


def download(uri: str, path: Path) -> str:
    """Fetch `gs://bucket/object` to `path` and return its SHA-256."""
    bucket, _, name = uri[5:].partition("/")
    if not uri.startswith("gs://") or not name:
        die(78, f"PREFECT_VERTEX_CODE_URI is not gs://bucket/object: {uri}")
    base = env.get("STORAGE_EMULATOR_HOST") or "https://storage.googleapis.com"
    base = base.rstrip("/") if "://" in base else "http://" + base
    url = f"{base}/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, '')}?alt=media"
    try:
        return str(persist(lambda: save(url, path)))
    except NETWORK as error:
        if is_local(error):
            die(73, f"cannot store {uri}: {reason(error)}")
        hint = {404: "; stage the code again, or correct code_uri"}.get(code := status(error), "")
        if code in REFUSED:
            hint = f"; {identity()}: it needs storage.objects.get there"
        die(71, f"cannot fetch {uri} from {base}: {reason(error)}{hint}")


def is_safe_name(name: str) -> bool:
    """Whether an archive entry of this name stays inside the directory it is unpacked to."""
    odd = "\\" in name or "\0" in name or re.match("[A-Za-z]:", name)
    return not odd and not {"", ".", ".."} & set(name.split("/"))


def unpack(path: Path, target: Path) -> int:
    """Unpack the archive; nothing is written unless every entry stays inside `target`."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            for entry in entries:
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if not is_safe_name(entry.orig_filename) or kind not in (0, stat.S_IFREG):
                    die(72, f"the code archive holds an entry that is refused: {entry.filename!r}")
            for entry in entries:
                made = Path(archive.extract(entry, target))
                made.chmod((entry.external_attr >> 16 & 0o755) or 0o644)
            return len(entries)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        die(72, f"the code archive cannot be read: {error}")
    except OSError as error:
        die(73, f"cannot unpack the code archive: {error}")


def bring_code(scratch: Path) -> None:
    """Fetch, check and unpack the code; make it the working directory and first on PYTHONPATH."""
    uri = env.get("PREFECT_VERTEX_CODE_URI")
    if not uri:
        return
    want = env.get("PREFECT_VERTEX_CODE_SHA256", "").lower()
    path, code = scratch / "code.zip", scratch / "code"
    found = download(uri, path)
    if found != want:
        die(72, f"{uri} has SHA-256 {found}, but code_sha256 is {want or 'unset'}: nothing was run")
    code.mkdir()
    count = unpack(path, code)
    path.unlink()
    # Prefect copies or walks the working directory: no temporary directory may lie below it.
    os.chdir(code)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(code), env.get("PYTHONPATH")]))
    say(f"{count} files of {uri} are in {code}")


# --- setup_command and packages ------------------------------------------------------------------


def run_setup(scratch: Path) -> None:
    """Run the user's script and take over its environment."""
    lines = env.get("PREFECT_VERTEX_SETUP_COMMAND")
    if not lines:
        return
    dump = scratch / "environment"
    store = f"import json,os;json.dump(dict(os.environ),open({str(dump)!r},'w'))"
    last = shlex.join(["exec", sys.executable, "-I", "-c", store])
    try:
        script = "\n".join([*json.loads(lines), last])
        code = subprocess.call(["sh", "-e", "-c", script])
        if code or not dump.exists():
            die(76, f"setup_command ended with status {code}")
        after = json.loads(dump.read_text())
    except (ValueError, TypeError) as error:
        die(78, f"PREFECT_VERTEX_SETUP_COMMAND is not a JSON list of strings: {error}")
    except OSError as error:
        die(76, f"cannot run setup_command: {error}")
    dump.unlink()
    env.clear()
    env.update(after)


def install_packages() -> None:
    """Install EXTRA_PIP_PACKAGES, by uv if it is there, else by pip."""
    packages = shlex.split(env.get("EXTRA_PIP_PACKAGES", ""))
    if not packages:
        return
    tool = [sys.executable, "-m", "pip", "install"]
    if shutil.which("uv"):
        tool = ["uv", "pip", "install", "--python", sys.executable]
    code = subprocess.call([*tool, *packages])
    if code:
        die(76, f"cannot install EXTRA_PIP_PACKAGES: {shlex.join([*tool, *packages])}: {code}")


# --- the Prefect API -----------------------------------------------------------------------------


def api(path: str, body: Any = None, more: Any = ()) -> Any:
    """Ask the Prefect API, with the credentials and the trust that Prefect itself would use."""
    headers = json.loads(env.get("PREFECT_CLIENT_CUSTOM_HEADERS") or "{}")
    headers.update(more)
    url = urllib.parse.urlsplit(env["PREFECT_API_URL"].rstrip("/") + path)
    # httpx, unlike urllib, takes a name and password from the address, before all else.
    named, _, place = url.netloc.rpartition("@")
    key, auth = env.get("PREFECT_API_KEY"), env.get("PREFECT_API_AUTH_STRING")
    if key and not named:
        headers["Authorization"] = "Bearer " + key
    elif named or auth:
        auth = urllib.parse.unquote(named) or auth or ""
        headers["Authorization"] = "Basic " + base64.b64encode(auth.encode()).decode()
    unsafe = env.get("PREFECT_API_TLS_INSECURE_SKIP_VERIFY", "").lower()
    trust = tls(
        env.get("PREFECT_API_SSL_CERT_FILE"), unsafe not in ("1", "true", "t", "yes", "y", "on")
    )
    if body:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    with request(url._replace(netloc=place).geturl(), headers, body, trust) as answer:
        return answer.read()


def host() -> str:
    """Name the Prefect API in messages: its address may hold a password."""
    return urllib.parse.urlsplit(env["PREFECT_API_URL"]).hostname or env["PREFECT_API_URL"]


def check_api() -> None:
    """See that the Prefect API answers from here: otherwise the run would never leave Pending."""
    if not env.get("PREFECT_API_URL"):
        return
    try:
        persist(lambda: api("/health"))
    except (*NETWORK, ValueError) as error:
        code = status(error)
        if code in REFUSED:
            say(f"the Prefect API at {host()} refuses this container's key or auth string: {code}")
        if code not in TRANSIENT:
            return  # whatever it says, it is there
        if is_local(error) or isinstance(error, ValueError):
            die(78, f"Prefect's API settings are unusable in this container: {reason(error)}")
        try:
            address = f"{host()} is {socket.getaddrinfo(host(), None)[0][4][0]}"
        except OSError as problem:
            address = f"{host()} does not resolve: {problem}"
        die(74, f"the Prefect API does not answer from here: {reason(error)} ({address})")


# --- the claim -----------------------------------------------------------------------------------


def send(path: str, body: Any) -> Any:
    """Ask the Prefect API once; a server that guards against CSRF wants its own token back."""
    try:
        return api(path, body)
    except urllib.error.HTTPError as error:
        if b"CSRF" not in error.read():
            raise
    client = os.urandom(8).hex()
    token = json.loads(api("/csrf-token?client=" + client))["token"]
    return api(path, body, {"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": client})


def ask(path: str, body: Any = None) -> Any:
    """Return what the Prefect API answers; 404 and 409 as numbers, any other refusal is the end."""
    try:
        return json.loads(persist(lambda: send(path, body)) or "null")
    except (*NETWORK, ValueError) as error:
        code = status(error)
        if code in (ABSENT, CONFLICT):
            return code
        hint = "; check its key or auth string" if code in REFUSED else ""
        die(74, f"cannot claim this start from the Prefect API at {host()}: {reason(error)}{hint}")


def claim_path(replica: str) -> str:
    """Return where this replica's start is claimed; empty where starts are not."""
    run, attempt = env.get("PREFECT__FLOW_RUN_ID"), env.get("PREFECT_VERTEX_ATTEMPT")
    guarded = env.get("PREFECT_API_URL") and env.get("PREFECT_VERTEX_GUARD") != "0"
    if not (guarded and run and attempt):
        return ""
    kind = "r" * replica.isdecimal()
    return f"/flow_runs/{run}/input/prefect-vertex-start-a{attempt}-{kind}{replica}"


def look(replica: str) -> None:
    """End before the user's setup runs, if it can be seen already that it ran before."""
    path = claim_path(replica)
    try:
        holder = path and json.loads(api(path))
    except (*NETWORK, ValueError):
        return  # no claim yet, or the way to the API is what the setup prepares
    if holder:
        judge(replica, holder, None)


def claim(replica: str) -> None:
    """Claim this start, or end: a replica runs its command once in an attempt.

    A claim is a flow run input: the server creates it for the first who asks, and refuses the
    others. It outlives the container, whose file system a restart replaces.
    """
    path = claim_path(replica)
    if path:
        # The nonce tells one's own claim, the answer to which was lost, from another's.
        own = {"nonce": os.urandom(16).hex(), "job": env.get("CLOUD_ML_JOB_ID", "")}
        inputs, _, key = path.rpartition("/")
        answer = ask(inputs, {"key": key, "value": json.dumps(own)})
        judge(replica, ask(path) if answer in (ABSENT, CONFLICT) else own, own)


def judge(replica: str, holder: Any, own: Any) -> None:
    """Return if the command is to run; end if another start holds the claim, or the run is over."""
    run = env["PREFECT__FLOW_RUN_ID"]
    seen = ask("/flow_runs/" + run)
    if ABSENT in (holder, seen):
        why = "it was deleted, or PREFECT_API_URL is another server or workspace's"
        die(74, f"the Prefect API at {host()} knows no flow run {run}: {why}; nothing was run")
    state = seen["state_type"]
    if state in FINAL or (holder != own and state in ("SCHEDULED", "PAUSED")):
        say(f"flow run {run} is {state.lower()}: replica {replica} has nothing to run")
        sys.exit(0)
    if holder != own:
        job = holder["job"]
        what = "was started again; the first start ended without a word"
        if job != env.get("CLOUD_ML_JOB_ID", ""):
            what = f"had started in CustomJob {job}; nothing was run"
        die(75, f"replica {replica} of attempt {env['PREFECT_VERTEX_ATTEMPT']} {what}")


# --- the command ---------------------------------------------------------------------------------


def resolve(command: list[str]) -> list[str]:
    """Run Prefect and Python by this interpreter where the image has no such name on PATH."""
    if not command:
        die(78, "there is no command to run")
    name = command[0]
    if name not in ("prefect", "python", "python3") or shutil.which(name):
        return command
    if name != "prefect":
        return [sys.executable, *command[1:]]
    if not importlib.util.find_spec("prefect"):
        die(127, f"this image has neither `prefect` on PATH nor its package for {sys.executable}")
    return [sys.executable, "-m", *command]


def supervise(command: list[str]) -> int:
    """Run the command in a process group of its own, as its init; return its exit code."""
    # Blocked until the handlers know the child, so that no signal falls in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.posix_spawnp(
        command[0], command, env, setpgroup=0, setsigmask=(), setsigdef=FORWARDED
    )

    def forward(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    ended = state = 0
    while ended != child:
        ended, state = os.wait()
    code = os.waitstatus_to_exitcode(state)
    return code if code >= 0 else 128 - code


def run(command: list[str]) -> NoReturn:
    """Become the command, or its init as PID 1; failing that, end as a shell would."""
    try:
        if os.getpid() == 1:
            sys.exit(supervise(command))
        os.execvp(command[0], command)  # noqa: S606 - a shell would rewrite the command
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        die(127 if missing else 126, f"cannot run {command[0]}: {error.strerror}")


def on_signal(number: int, _frame: object) -> NoReturn:
    """End at once: nothing of the user's has begun."""
    die(128 + number, f"ended by signal {number} before the command began")


def main(command: list[str]) -> NoReturn:
    """Prepare the container, then become the command."""
    for number in SIGNALS:
        signal.signal(number, on_signal)
    scratch = prepare_places()
    replica = take_place()
    bring_code(scratch)
    if env.get("PREFECT_VERTEX_SETUP_COMMAND") or env.get("EXTRA_PIP_PACKAGES"):
        look(replica)
    run_setup(scratch)
    install_packages()
    check_api()
    command = resolve(command)
    claim(replica)
    run(command)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - the last line of the log must say what happened
        die(70, f"the bootstrap failed: {type(error).__name__}: {error}")
