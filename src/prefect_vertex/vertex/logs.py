"""Log entries of jobs, through Google's own Cloud Logging client.

`CLOUD_LOGGING_EMULATOR_HOST` is read here and nowhere else: it replaces the address, over plaintext
and without credentials, and changes nothing else.

Fields: google-cloud-logging 3.17.0, `LogEntry`; how Vertex AI fills them: public dumps.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from importlib import import_module
from typing import Any, Final, Protocol

import anyio
import grpc
from google.api_core.client_options import ClientOptions

from prefect_vertex.errors import AccessDeniedError, SetupError
from prefect_vertex.lifecycle.lines import SERVICE_TASK, LogEntry
from prefect_vertex.vertex.channel import CHANNEL_OPTIONS, emulator_address
from prefect_vertex.vertex.credentials import VertexCredentials
from prefect_vertex.vertex.translate import Peer, translated

EMULATOR_VARIABLE: Final = "CLOUD_LOGGING_EMULATOR_HOST"

PAGE_SIZE: Final = 1000
"""The most that one answer holds."""
PAGES: Final = 4
"""Reads that one query may take: at four queries a minute, a quarter of the project's quota."""
EMPTY_PAGES: Final = 4
"""Answers more that may hold nothing and yet say that the search goes on."""
TIMEOUT_SECONDS: Final = 30.0

_SERVICE: Final = "google.cloud.logging_v2.services.logging_service_v2"
_TRANSPORT: Final = f"{_SERVICE}.transports.grpc_asyncio"
# What the log agent makes of a line that a program wrote: the level is the stream's.
_AGENTS_FIELDS: Final = frozenset({"message", "levelname", "attrs"})
_AGENTS_LEVELS: Final = frozenset({"INFO", "ERROR"})
_TEXT_FIELDS: Final = ("message", "msg", "event")
_LEVEL_FIELDS: Final = ("severity", "level", "levelname")
_SEVERITIES: Final[Mapping[str, int]] = {
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARN": 400,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "FATAL": 600,
}

LoadCredentials = Callable[[str], Awaitable[VertexCredentials]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """What one query gave, by timestamp; not complete where there was more.

    It may be empty and not complete: the search did not come to its end.
    """

    entries: tuple[LogEntry, ...] = ()
    is_complete: bool = True


class LogSource(Protocol):
    """Where entries come from."""

    async def read(
        self, project: str, credentials_key: str, query: str, *, newest: bool = False
    ) -> LogReading:
        """The entries of a project that a query asks for, the oldest first.

        Args:
            project: Its id.
            credentials_key: Whose credentials.
            query: The filter.
            newest: Where there are too many, those that are the newest, and of these one answer's.

        Raises:
            PrefectVertexError: They cannot be read.
        """
        ...


@dataclass(slots=True)
class _Client:
    """An open connection, and what signs its requests."""

    client: Any
    credentials: VertexCredentials | None
    loop: asyncio.AbstractEventLoop


class CloudLogs:
    """The Cloud Logging API.

    Args:
        credentials: Loads those of a key; not called where an emulator is named.
        environ: Where the emulator's address is looked up; None: this process's environment.

    Attributes:
        page_size: How many entries one answer may hold.
    """

    def __init__(
        self, credentials: LoadCredentials, environ: Mapping[str, str] | None = None
    ) -> None:
        self._credentials = credentials
        self._environ = os.environ if environ is None else environ
        self._clients: dict[str, _Client] = {}
        self.page_size = PAGE_SIZE

    async def read(
        self, project: str, credentials_key: str, query: str, *, newest: bool = False
    ) -> LogReading:
        """See `LogSource`; at most `PAGES` answers with entries, and `EMPTY_PAGES` without."""
        parent = f"projects/{project}"
        address = emulator_address(
            self._environ, variable=EMULATOR_VARIABLE, service="Cloud Logging"
        )
        await _check_installed()
        credentials = None if address else await self._credentials(credentials_key)
        client = await self._open(address, credentials_key, credentials)
        check = f"Check the worker's network; {EMULATOR_VARIABLE} is {'' if address else 'not '}set"
        peer = Peer(address=address or client.api_endpoint, check=f"{check}.")
        request = {
            "resource_names": [parent],
            "filter": query,
            "order_by": "timestamp desc" if newest else "timestamp asc",
            "page_size": self.page_size,
        }
        try:
            with translated("read log entries", parent, peer=peer):
                reading = await _pages(client, request, 1 if newest else PAGES)
        except AccessDeniedError as error:
            hint = _mend(error, project, credentials)
            raise AccessDeniedError(error.message, verdict=error.verdict, hint=hint) from error
        return replace(reading, entries=reading.entries[::-1]) if newest else reading

    async def _open(self, address: str, key: str, credentials: VertexCredentials | None) -> Any:
        """The connection for those credentials, kept while they are the same."""
        place = address or key
        loop = asyncio.get_running_loop()
        known = self._clients.get(place)
        if known is not None and known.loop is loop and known.credentials is credentials:
            return known.client
        if known is not None and known.loop is loop:
            await known.client.transport.close()
        self._clients[place] = _Client(_connected(address, credentials), credentials, loop)
        return self._clients[place].client

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        loop = asyncio.get_running_loop()
        for place, known in list(self._clients.items()):
            if known.loop is loop:
                del self._clients[place]
                await known.client.transport.close()


def _connected(address: str, credentials: VertexCredentials | None) -> Any:
    transport = import_module(_TRANSPORT).LoggingServiceV2GrpcAsyncIOTransport
    client = import_module(_SERVICE).LoggingServiceV2AsyncClient
    if credentials is None:
        # Never through a proxy: the address is the user's own machine or network.
        options = [*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0)]
        channel = grpc.aio.insecure_channel(address, options=options)
        return client(transport=transport(channel=channel))
    domain = credentials.universe_domain
    return client(
        credentials=credentials.google,
        client_options=ClientOptions(api_endpoint=f"logging.{domain}", universe_domain=domain),
    )


async def _pages(client: Any, request: Mapping[str, Any], most: int) -> LogReading:
    pager = await client.list_log_entries(request=request, timeout=TIMEOUT_SECONDS, retry=None)
    entries: list[LogEntry] = []
    full = empty = 0
    async for page in pager.pages:
        entries += [entry_of(each) for each in page.entries]
        full += bool(page.entries)
        empty += not page.entries
        if full == most or empty == EMPTY_PAGES:
            return LogReading(entries=tuple(entries), is_complete=not page.next_page_token)
    return LogReading(entries=tuple(entries))


def entry_of(entry: Any) -> LogEntry:
    """Our copy of a `LogEntry`."""
    message = type(entry).pb(entry)
    labels = dict(message.resource.labels)
    payload = {name: _python(value) for name, value in message.json_payload.fields.items()}
    task_name = labels.get("task_name") or _tag(payload) or message.log_name.rpartition("/")[2]
    return LogEntry(
        job_id=labels.get("job_id", ""),
        task_name=task_name,
        timestamp=message.timestamp.ToDatetime(tzinfo=UTC),
        nanoseconds=message.timestamp.nanos % 1000,
        insert_id=message.insert_id,
        severity=_severity(payload) or message.severity,
        text=message.text_payload or _text(payload),
        is_plain=task_name != SERVICE_TASK and _is_plain(payload),
    )


def _python(value: Any) -> Any:
    """A value of a payload; `MessageToDict` refuses NaN and infinities, which programs write."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {name: _python(each) for name, each in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_python(each) for each in value.list_value.values]
    return None if kind in {None, "null_value"} else getattr(value, kind)


def _is_plain(payload: Mapping[str, Any]) -> bool:
    """Whether the agent made it; an object with a message alone has no level of the agent's."""
    is_agents = payload.keys() <= _AGENTS_FIELDS and payload.get("levelname") in _AGENTS_LEVELS
    return is_agents or not payload


def _tag(payload: Mapping[str, Any]) -> str:
    attributes = payload.get("attrs")
    return str(attributes.get("tag", "")) if isinstance(attributes, Mapping) else ""


def _severity(payload: Mapping[str, Any]) -> int:
    """The level that a structured line names itself; 0 for none."""
    names = (str(payload.get(field, "")).upper() for field in _LEVEL_FIELDS)
    return next((_SEVERITIES[name] for name in names if name in _SEVERITIES), 0)


def _text(payload: Mapping[str, Any]) -> str:
    for field in _TEXT_FIELDS:
        if isinstance(payload.get(field), str):
            return str(payload[field])
    # Fields come in another order in each process, and a line is known by its text.
    return json.dumps(payload, ensure_ascii=False, sort_keys=True) if payload else ""


def _mend(error: AccessDeniedError, project: str, credentials: VertexCredentials | None) -> str:
    if error.verdict.reason == "SERVICE_DISABLED":
        return f"Enable logging.googleapis.com in {project}."
    account = credentials.service_account_email if credentials is not None else ""
    reader = f"the worker's account, {account}," if account else "the worker's account"
    return (
        f"Give {reader} roles/logging.viewer in {project}, or set stream_output to false; nothing "
        "but the lines is missing."
    )


async def _check_installed() -> None:
    try:
        # Half a second at its first import, which the worker's other tasks do not wait for.
        await anyio.to_thread.run_sync(import_module, _TRANSPORT)
    except ModuleNotFoundError as error:
        raise SetupError(
            "the google-cloud-logging package is not installed.",
            hint="Install it again with prefect-vertex, or set stream_output to false.",
        ) from error
