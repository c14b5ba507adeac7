"""The filter of ListLogEntries: the part of the Logging query language that asks for jobs' entries.

The grammar is `grammar`; besides, a comparison takes several values, as in
`resource.labels.job_id=("1" OR "2")`.  Source: Cloud Logging, *Logging query language*.

Fields: `resource.type`, `resource.labels.KEY`, `labels.KEY`, `logName`, `insertId` (`=`, `!=`),
`severity` and `timestamp` (all six comparisons).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from prefect_vertex.emulator.grammar import Filter, FilterParser
from prefect_vertex.emulator.log_book import SEVERITIES, Entry

RESOURCE_TYPE: Final = "ml_job"

_LABELS: Final = re.compile(r"(resource\.labels|labels)\.")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_COMPARATOR: Final = re.compile(r"<=|>=|!=|[=<>]")
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXTS: Final[Mapping[str, Callable[[Entry], str]]] = {
    "resource.type": lambda _entry: RESOURCE_TYPE,
    "logName": lambda entry: entry.log_name,
    "log_name": lambda entry: entry.log_name,
    "insertId": lambda entry: entry.insert_id,
    "insert_id": lambda entry: entry.insert_id,
}


def compile_log_filter(text: str) -> Filter:
    """Make a predicate of a text; an empty one lets everything through.

    Raises:
        ApiError: INVALID_ARGUMENT, saying where the filter is wrong.
    """
    return _LogFilterParser(text).whole()


def resource_labels(entry: Entry) -> dict[str, str]:
    """The labels of an entry's resource."""
    return {
        "project_id": entry.job.place.project_number,
        "job_id": entry.job.job_id,
        "task_name": entry.task_name,
    }


class _LogFilterParser(FilterParser):
    """The grammar over the fields of an entry."""

    def restriction(self) -> Filter:
        start = self.at
        read = self._field()
        self.skip_space()
        comparator = self.match(_COMPARATOR)
        if not comparator:
            raise self.error("expected one of = != < <= > >=")
        self.skip_space()
        values = self._values()
        self.skip_space()
        try:
            return Filter(_comparison(read, comparator, values))
        except ValueError as error:
            self.at = start
            raise self.error(str(error)) from error

    def _field(self) -> str | Callable[[Entry], str]:
        """How to read it; `timestamp` and `severity` are known by their names."""
        owner = self.match(_LABELS)
        if owner:
            key = self.quoted() or self.match(_KEY)
            if owner == "labels.":
                return lambda entry: entry.labels.get(key, "")
            return lambda entry: resource_labels(entry).get(key, "")
        start = self.at
        name = self.match(_FIELD)
        if name in {"timestamp", "severity"}:
            return name
        if name not in _TEXTS:
            self.at = start
            raise self.error(f"unknown field {name}" if name else "expected a field")
        return _TEXTS[name]

    def _values(self) -> list[str]:
        if not self.take("("):
            return [self.value()]
        values = [self.value()]
        self.skip_space()
        while self.keyword("OR"):
            values.append(self.value())
            self.skip_space()
        if not self.take(")"):
            raise self.error("expected OR or a closing parenthesis")
        return values


def _comparison(
    read: str | Callable[[Entry], str], comparator: str, values: Sequence[str]
) -> Callable[[Entry], bool]:
    if not isinstance(read, str):
        return _among(read, comparator, frozenset(values))
    if len(values) > 1:
        raise ValueError(f"{read} takes one value")
    compare = _COMPARISONS[comparator]
    if read == "timestamp":
        moment = _moment(values[0])
        return lambda entry: compare(entry.timestamp, moment)
    if values[0] not in SEVERITIES:
        raise ValueError(f"unknown severity {values[0]}")
    rank = SEVERITIES.index(values[0])
    return lambda entry: compare(SEVERITIES.index(entry.severity), rank)


def _among(
    read: Callable[[Entry], str], comparator: str, values: frozenset[str]
) -> Callable[[Entry], bool]:
    if comparator == "=":
        return lambda entry: read(entry) in values
    if comparator == "!=":
        return lambda entry: read(entry) not in values
    raise ValueError("a text takes = and != only")


def _moment(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"timestamp is not RFC 3339: {value}") from error
    if moment.tzinfo is None:
        raise ValueError(f"timestamp needs an offset or Z: {value}")
    return moment
