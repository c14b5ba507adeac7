"""Secret Manager's REST endpoint for reading, and the secrets that tests put there.

Only `GET /v1/projects/*/secrets/*/versions/*:access` is served, in plain text and to everybody on
this machine: these are the secrets of tests.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal, get_args

import google_crc32c

from prefect_vertex.emulator.names import project_number

logger = logging.getLogger(__name__)

MAX_PAYLOAD_BYTES: Final = 65_536
"""https://cloud.google.com/secret-manager/quotas, read 2026-11."""

State = Literal["ENABLED", "DISABLED", "DESTROYED"]

_HOST: Final = "127.0.0.1"
_SECRET: Final = re.compile(r"projects/([^/]+)/secrets/([A-Za-z0-9_-]{1,255})")
_ACCESS: Final = re.compile(r"/v1/(projects/[^/]+/secrets/[^/]+)/versions/(\d+|latest):access")


@dataclass(frozen=True, slots=True)
class _Version:
    payload: bytes
    state: State


class SecretError(Exception):
    """A refusal, as REST services of Google's word it; the wordings are inferred."""

    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Secrets:
    """Secrets by name, each with its versions from 1.

    Args:
        project_numbers: Numbers of projects by id; others are made up.
    """

    def __init__(self, project_numbers: Mapping[str, str] | None = None) -> None:
        self._project_numbers = dict(project_numbers or {})
        self._versions: dict[str, list[_Version]] = {}

    def add(self, name: str, payload: bytes | str, state: State = "ENABLED") -> str:
        """Add a version to `projects/*/secrets/*`, which comes into being with the first.

        Returns:
            The version's name, with the project's number.

        Raises:
            ValueError: The name, the state, or the size of the payload is not possible.
        """
        content = payload.encode() if isinstance(payload, str) else payload
        key = self._key(name)
        if key is None:
            raise ValueError(f"{name!r} is not projects/PROJECT/secrets/SECRET")
        if state not in get_args(State):
            raise ValueError(f"state {state!r} is none of {', '.join(get_args(State))}")
        if len(content) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"the payload has {len(content)} bytes; {MAX_PAYLOAD_BYTES} are taken")
        versions = self._versions.setdefault(key, [])
        versions.append(_Version(content, state))
        return f"{key}/versions/{len(versions)}"

    def access(self, name: str, version: str) -> tuple[str, bytes]:
        """The full name and the payload of a version; `latest` is the one added last.

        Raises:
            SecretError: There is none, or it is not enabled.
        """
        key = self._key(name) or name
        versions = self._versions.get(key, [])
        if not versions:
            raise SecretError(
                HTTPStatus.NOT_FOUND,
                "NOT_FOUND",
                f"Secret [{key}] not found or has no versions.",
            )
        number = len(versions) if version == "latest" else int(version)
        full = f"{key}/versions/{number}"
        if not 1 <= number <= len(versions):
            raise SecretError(
                HTTPStatus.NOT_FOUND, "NOT_FOUND", f"Secret Version [{full}] not found."
            )
        found = versions[number - 1]
        if found.state != "ENABLED":
            raise SecretError(
                HTTPStatus.BAD_REQUEST,
                "FAILED_PRECONDITION",
                f"Secret Version [{full}] is in {found.state} state.",
            )
        return full, found.payload

    def _key(self, name: str) -> str | None:
        match = _SECRET.fullmatch(name)
        if match is None:
            return None
        return f"projects/{project_number(match[1], self._project_numbers)}/secrets/{match[2]}"


class SecretServer:
    """Serves secrets on a free port of the loopback interface, from `start` to `stop`.

    Args:
        secrets: What it serves.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """`http://host:port`, as SECRET_MANAGER_EMULATOR_HOST wants it; empty when stopped."""
        return f"http://{_HOST}:{self._server.server_port}" if self._server is not None else ""

    def start(self) -> None:
        """Begin to serve."""
        self._server = _Server((_HOST, 0), _Handler)
        self._server.secrets = self._secrets
        # Looked at a second time only to end: requests come in at once.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; harmless when done twice."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    secrets: Secrets


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        match = _ACCESS.fullmatch(self.path.partition("?")[0])
        if match is None:
            error = SecretError(HTTPStatus.NOT_FOUND, "NOT_FOUND", f"No method at {self.path}.")
            self._refuse(error)
            return
        try:
            name, payload = self.server.secrets.access(match[1], match[2])
        except SecretError as refusal:
            self._refuse(refusal)
            return
        content = {
            "data": base64.b64encode(payload).decode(),
            # An int64, which JSON of Google's spells as text.
            "dataCrc32c": str(google_crc32c.value(payload)),
        }
        self._send(HTTPStatus.OK, {"name": name, "payload": content})

    def _refuse(self, error: SecretError) -> None:
        body = {"code": int(error.status), "message": str(error), "status": error.code}
        self._send(error.status, {"error": body})

    def _send(self, status: HTTPStatus, content: Mapping[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name for it
        logger.debug(format, *args)
