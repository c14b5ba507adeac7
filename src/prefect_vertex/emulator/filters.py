"""The filter of ListCustomJobs: `grammar` over the four fields that the method documents.

Fields: `display_name` (`=`, `!=`, `:` with `*`), `state` (`=`, `!=`), `create_time` (all six
comparisons, RFC 3339), `labels.KEY` (`=` a value, `:` `*`); names in snake_case or camelCase,
values and label keys quoted or not.  Source: the docstring of ListCustomJobsRequest.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from google.cloud.aiplatform_v1.types import JobState

from prefect_vertex.emulator.grammar import Filter, FilterParser, Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a filter can see of a job; `state` by its name."""

    display_name: str
    state: str
    create_time: datetime
    labels: Mapping[str, str]


_COMPARISONS: Final[Mapping[str, Callable[[datetime, datetime], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CANONICAL: Final = {
    "display_name": "display_name",
    "displayName": "display_name",
    "state": "state",
    "create_time": "create_time",
    "createTime": "create_time",
    "labels": "labels",
}
_STATES: Final = frozenset(JobState.__members__)
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_KEY: Final = re.compile(r"[^\s=!<>:()\"'.]+")
_COMPARATOR: Final = re.compile(r"<=|>=|!=|[=<>:]")


def compile_filter(text: str) -> Filter:
    """Make a predicate of a text; an empty one lets everything through.

    Raises:
        ApiError: INVALID_ARGUMENT, saying where the filter is wrong.
    """
    return _JobFilterParser(text).whole()


class _JobFilterParser(FilterParser):
    """The grammar over the four fields of a job."""

    def restriction(self) -> Filter:
        start = self.at
        name = self.match(_FIELD)
        if not name:
            raise self.error("expected a field")
        canonical = _CANONICAL.get(name)
        if canonical is None:
            self.at = start
            raise self.error(f"unknown field {name}")
        key = self._label_key() if canonical == "labels" else ""
        self.skip_space()
        comparator = self.match(_COMPARATOR)
        if not comparator:
            raise self.error("expected one of = != < <= > >= :")
        self.skip_space()
        value = self.value()
        self.skip_space()
        try:
            return _restriction(canonical, key, comparator, value)
        except ValueError as error:
            self.at = start
            raise self.error(str(error)) from error

    def _label_key(self) -> str:
        if not self._text.startswith(".", self.at):
            raise self.error("expected labels.KEY")
        self.at += 1
        quoted = self.quoted()
        key = self.match(_LABEL_KEY) if quoted is None else quoted
        if not key:
            raise self.error("expected a label's key")
        return key


def _restriction(name: str, key: str, comparator: str, value: str) -> Filter:
    if name == "labels":
        return _label(key, comparator, value)
    if name == "display_name":
        return Filter(_display_name(comparator, value))
    if name == "state":
        return _state(comparator, value)
    return Filter(_create_time(comparator, value))


def _label(key: str, comparator: str, value: str) -> Filter:
    if comparator == ":" and value == "*":
        return Filter(lambda row: key in row.labels)
    if comparator == "=":
        return Filter(lambda row: row.labels.get(key) == value, labels={key: value})
    raise ValueError("labels.KEY takes = and :* only")


def _display_name(comparator: str, value: str) -> Predicate:
    if comparator == "=":
        return lambda row: row.display_name == value
    if comparator == "!=":
        return lambda row: row.display_name != value
    if comparator == ":":
        pattern = re.compile(".*".join(map(re.escape, value.split("*"))), re.DOTALL)
        return lambda row: pattern.fullmatch(row.display_name) is not None
    raise ValueError("display_name takes =, != and : only")


def _state(comparator: str, value: str) -> Filter:
    if value not in JobState.__members__:
        raise ValueError(f"unknown state {value}")
    if comparator == "=":
        return Filter(lambda row: row.state == value, excluded=_STATES - {value})
    if comparator == "!=":
        return Filter(lambda row: row.state != value, excluded=frozenset({value}))
    raise ValueError("state takes = and != only")


def _create_time(comparator: str, value: str) -> Predicate:
    compare = _COMPARISONS.get(comparator)
    if compare is None:
        raise ValueError("create_time takes =, !=, <, <=, > and >= only")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"create_time is not RFC 3339: {value}") from error
    if moment.tzinfo is None:
        raise ValueError(f"create_time needs an offset or Z: {value}")
    return lambda row: compare(row.create_time, moment)
