"""The emulator's control: JSON over HTTP on a port of its own, for tests in other processes.

`POST /ACTION` with a JSON object of arguments, or `GET /ACTION` without any, answers
`{"result": ...}`; anything wrong with it answers 400 or 404 and `{"error": "..."}`.  The actions
are the public methods of `Actions`, with their arguments by name.  The JobService's own socket
knows nothing of this.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Annotated, Any, Final, Self

from google.cloud.aiplatform_v1.types import JobState
from pydantic import Field, ValidationError, validate_call

from prefect_vertex.emulator.faults import Fault
from prefect_vertex.emulator.quotas import QuotaLimit, QuotaMode
from prefect_vertex.emulator.rates import RateLimits
from prefect_vertex.emulator.record import TERMINAL
from prefect_vertex.emulator.secrets import State as SecretState
from prefect_vertex.emulator.seeds import Seed
from prefect_vertex.emulator.server import Emulator
from prefect_vertex.emulator.verdicts import Verdict
from prefect_vertex.emulator.view import job_view

logger = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
_JSON: Final = "application/json"

AnyFault = Annotated[Fault, Field(discriminator="kind")]


class Actions:
    """What can be asked for; every argument is checked.

    Args:
        emulator: What it is done to.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    @validate_call
    def add_faults(self, faults: Sequence[AnyFault]) -> None:
        """Append to the script."""
        self._emulator.faults.add(*faults)

    @validate_call
    def remaining_faults(self) -> Sequence[Mapping[str, Any]]:
        """What has not happened yet, `times` being what is left of it."""
        return [asdict(fault) for fault in self._emulator.faults.remaining()]

    @validate_call
    def clear_faults(self) -> None:
        """Forget what has not happened yet."""
        self._emulator.faults.clear()

    @validate_call
    def set_rates(
        self,
        *,
        submissions_per_minute: int | None = None,
        calls_per_minute: int | None = None,
        log_reads_per_minute: int | None = None,
        retry_info_seconds: float | None = None,
    ) -> None:
        """Set all of `RateLimits`; null lifts a limit."""
        self._emulator.rates.limits = RateLimits(
            submissions_per_minute=submissions_per_minute,
            calls_per_minute=calls_per_minute,
            log_reads_per_minute=log_reads_per_minute,
            retry_info_seconds=retry_info_seconds,
        )

    @validate_call
    def set_quotas(self, limits: Sequence[QuotaLimit], mode: QuotaMode | None = None) -> None:
        """Replace all limits on what jobs may hold; `mode` as it was where it is null."""
        self._emulator.quotas.set(limits, mode)

    @validate_call
    def set_lag(self, *, created_seconds: float = 0.0, changed_seconds: float = 0.0) -> None:
        """How far lists are behind."""
        self._emulator.lag.created_seconds = created_seconds
        self._emulator.lag.changed_seconds = changed_seconds

    @validate_call
    def set_log_delay(self, *, seconds: float = 0.0) -> None:
        """How late the lines that follow may reach the log."""
        self._emulator.logs.delay_seconds = seconds

    @validate_call
    def seed_jobs(self, seeds: Sequence[Seed]) -> Sequence[str]:
        """Put jobs there that run nothing; their names."""
        return self._emulator.seed_jobs(*seeds)

    @validate_call
    def add_secret_version(self, name: str, payload: str, state: SecretState = "ENABLED") -> str:
        """Add a version to `projects/*/secrets/*`; its name."""
        return self._emulator.secrets.add(name, payload, state)

    @validate_call
    def end_job(self, name: str, state: str, code: int = 0, message: str = "") -> None:
        """End a job so, seeded or not, whatever its replicas do; only two ends have an error."""
        if state not in JobState.__members__:
            raise ValueError(f"state {state!r} is no JobState")
        if JobState.__members__[state] not in TERMINAL:
            raise ValueError(f"state {state!r} is no end")
        verdict = Verdict(state=JobState.__members__[state], code=code, message=message)
        self._emulator.job(name).end(verdict)

    @validate_call
    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """Every job, newest first, then those that were deleted; see `view.job_view`."""
        views = [job_view(job) for job in self._emulator.jobs()]
        return views + [job_view(job, deleted=True) for job in self._emulator.deleted_jobs]

    @validate_call
    def output(self, name: str, replica: str = "workerpool0-0") -> Mapping[str, str]:
        """What a replica has written in all its starts."""
        return asdict(self._emulator.job(name).output(replica))

    @validate_call
    def calls(self) -> Mapping[str, Any]:
        """Every call since the start or the last reset, and how many of which there were."""
        log = self._emulator.calls
        return {
            "counts": log.counts(),
            "per_minute": log.per_minute(),
            "calls": [asdict(call) for call in log.all()],
        }

    @validate_call
    def reset_calls(self) -> None:
        """Count from zero."""
        self._emulator.calls.clear()


class ControlServer:
    """Serves `Actions`; an asynchronous context manager inside that of the emulator.

    Args:
        emulator: What it controls.
        port: Port to listen on; 0 for a free one.
    """

    def __init__(self, emulator: Emulator, port: int = 0) -> None:
        self._actions = Actions(emulator)
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """`http://host:port`."""
        return f"http://{_HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        server = _Server((_HOST, self._port), _Handler)
        server.perform = lambda action, arguments: asyncio.run_coroutine_threadsafe(
            self._perform(action, arguments), loop
        ).result()
        self._port = server.server_port
        self._server = server
        # Looked at a second time only to end: requests come in at once.
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None and self._thread is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()
            await asyncio.to_thread(self._thread.join)

    async def _perform(self, action: str, arguments: Mapping[str, Any]) -> Any:
        """On the emulator's own loop, so that nothing changes under its feet."""
        return getattr(self._actions, action)(**arguments)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    perform: Callable[[str, Mapping[str, Any]], Any]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        # A page in somebody's browser can post a form to this port, but not with this type.
        if self.headers.get_content_type() != _JSON:
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"the content type must be {_JSON}"})
            return
        try:
            arguments = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"the body is no JSON: {error}"})
            return
        if isinstance(arguments, dict):
            self._answer(arguments)
        else:
            self._send(HTTPStatus.BAD_REQUEST, {"error": "the body must be a JSON object"})

    def _answer(self, arguments: Mapping[str, Any]) -> None:
        action = self.path.strip("/")
        if action not in ACTIONS:
            known = ", ".join(ACTIONS)
            self._send(HTTPStatus.NOT_FOUND, {"error": f"no action {action!r}; there are {known}"})
            return
        try:
            result = self.server.perform(action, arguments)
        except ValidationError as error:
            wrong = "; ".join(f"{_path(e['loc'])}: {e['msg']}" for e in error.errors())
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"{action}: {wrong}"})
        except (ValueError, LookupError) as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"{action}: {error}"})
        except CancelledError:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the emulator is being stopped"})
        else:
            self._send(HTTPStatus.OK, {"result": result})

    def _send(self, status: HTTPStatus, content: Mapping[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name for it
        logger.debug(format, *args)


def _path(location: Sequence[Any]) -> str:
    return ".".join(map(str, location))


ACTIONS: Final = tuple(
    name for name, _ in inspect.getmembers(Actions, callable) if not name.startswith("_")
)
"""The names of all actions."""
