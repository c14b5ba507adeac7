"""google.logging.v2.LoggingServiceV2: reading entries, as far as a job's reader needs it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import grpc
import grpc.aio

from prefect_vertex.emulator.api_error import ApiError, invalid_argument
from prefect_vertex.emulator.front import Front
from prefect_vertex.emulator.log_book import Entry, LogBook
from prefect_vertex.emulator.log_filter import RESOURCE_TYPE, compile_log_filter, resource_labels
from prefect_vertex.emulator.names import project_number

METHOD: Final = "ListLogEntries"

_SERVICE: Final = "google.logging.v2.LoggingServiceV2"
_PACKAGE: Final = "google.cloud.logging_v2.types"
_RESOURCE: Final = re.compile(r"projects/([^/]+)")
_DEFAULT_PAGE: Final = 50
_LARGEST_PAGE: Final = 1000
_MAX_FILTER_LENGTH: Final = 20_000
# A filter that names no time reads so far back (Cloud Logging, *entries.list*).
_USUAL_REACH: Final = timedelta(hours=24)
_ORDERS: Final = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}

_Place = tuple[datetime, str]


class LogService(grpc.GenericRpcHandler):
    """The servicer.

    Args:
        book: Whose entries.
        front: What every call goes through.
        numbers: Project ids to numbers.
    """

    def __init__(self, book: LogBook, front: Front, numbers: Mapping[str, str]) -> None:
        self._book = book
        self._front = front
        self._numbers = numbers

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Find the method that was called; None for the next servicer to answer."""
        if handler_call_details.method != f"/{_SERVICE}/{METHOD}":
            return None

        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            return await self._front.answer(METHOD, self._list, request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer,
            self._messages.ListLogEntriesRequest.deserialize,
            self._messages.ListLogEntriesResponse.serialize,
        )

    @cached_property
    def _messages(self) -> Any:
        """The package, loaded when somebody asks: it takes half a second."""
        return import_module(_PACKAGE)

    def _list(self, request: Any) -> Any:
        if len(request.filter) > _MAX_FILTER_LENGTH:
            raise invalid_argument(f"A filter has at most {_MAX_FILTER_LENGTH} characters.")
        if request.order_by not in _ORDERS:
            raise invalid_argument(f'Invalid order_by "{request.order_by}".')
        if request.page_size < 0:
            raise invalid_argument("The page size must not be negative.")
        matches = compile_log_filter(request.filter)
        since = datetime.now(UTC) - _USUAL_REACH
        numbers = self._projects(request.resource_names)
        found = [
            entry
            for entry in self._book.arrived()
            if entry.job.place.project_number in numbers
            and matches(entry)
            and ("timestamp" in request.filter or entry.timestamp >= since)
        ]
        is_descending = _ORDERS[request.order_by]
        found.sort(key=_place, reverse=is_descending)
        if request.page_token:
            # From the entry that the last page ended with: one that arrived since changes nothing.
            last = _place_of_token(request.page_token)
            found = [
                entry
                for entry in found
                if (_place(entry) < last if is_descending else _place(entry) > last)
            ]
        size = min(request.page_size or _DEFAULT_PAGE, _LARGEST_PAGE)
        page = found[:size]
        return self._messages.ListLogEntriesResponse(
            entries=[self._message(entry) for entry in page],
            next_page_token=_token(page[-1]) if len(found) > size else "",
        )

    def _projects(self, names: list[str]) -> set[str]:
        numbers = set()
        for name in names:
            match = _RESOURCE.fullmatch(name)
            if match is None:
                raise invalid_argument(f'Invalid resource name "{name}": projects/* is served.')
            numbers.add(project_number(match[1], self._numbers))
        if not numbers:
            raise invalid_argument("At least one resource name is needed.")
        return numbers

    def _message(self, entry: Entry) -> Any:
        message: dict[str, Any] = {
            "log_name": entry.log_name,
            "resource": {"type": RESOURCE_TYPE, "labels": resource_labels(entry)},
            "timestamp": entry.timestamp,
            "receive_timestamp": entry.arrival,
            "insert_id": entry.insert_id,
            "severity": entry.severity,
            "labels": entry.labels,
        }
        if entry.payload is None:
            message["text_payload"] = entry.text
        else:
            message["json_payload"] = entry.payload
        return self._messages.LogEntry(message)


def _place(entry: Entry) -> _Place:
    return (entry.timestamp, entry.insert_id)


def _token(entry: Entry) -> str:
    text = json.dumps([entry.timestamp.isoformat(), entry.insert_id])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _place_of_token(token: str) -> _Place:
    try:
        moment, insert_id = json.loads(base64.urlsafe_b64decode(token))
        return (datetime.fromisoformat(moment), insert_id)
    except (ValueError, TypeError) as error:
        raise _invalid_token() from error


def _invalid_token() -> ApiError:
    return invalid_argument("page_token is not valid")
