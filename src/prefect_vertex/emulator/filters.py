"""The filter of ListCustomJobs: AIP-160 over the four fields that the method documents.

    expression = sequence {"AND" sequence}
    sequence   = factor {factor}                 side by side means AND
    factor     = term {"OR" term}                OR binds tighter than AND
    term       = ["NOT" | "-"] (restriction | "(" expression ")")

Fields: `display_name` (`=`, `!=`, `:` with `*`), `state` (`=`, `!=`), `create_time` (all six
comparisons, RFC 3339), `labels.KEY` (`=` a value, `:` `*`); names in snake_case or camelCase,
values and label keys quoted or not.  Sources: https://google.aip.dev/160 and the docstring of
ListCustomJobsRequest.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from google.cloud.aiplatform_v1.types import JobState

from prefect_vertex.emulator.api_error import ApiError, invalid_argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a filter can see of a job; `state` by its name."""

    display_name: str
    state: str
    create_time: datetime
    labels: Mapping[str, str]


Predicate = Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """A predicate, and what is known of the rows that pass without trying them.

    Attributes:
        matches: Whether a row passes.
        labels: Labels that every row that passes carries.
        excluded: States in which no row passes.
    """

    matches: Predicate
    labels: Mapping[str, str] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()

    def __call__(self, row: Row) -> bool:
        """The same as `matches`."""
        return self.matches(row)


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
_SPACE: Final = re.compile(r"\s*")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_KEY: Final = re.compile(r"[^\s=!<>:()\"'.]+")
_COMPARATOR: Final = re.compile(r"<=|>=|!=|[=<>:]")
_VALUE: Final = re.compile(r"[^\s()\"']+")
_QUOTED: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
# Deeper nesting than anybody writes, and far from the interpreter's own limit.
_MAX_DEPTH: Final = 50


def compile_filter(text: str) -> Filter:
    """Make a predicate of a text; an empty one lets everything through.

    Raises:
        ApiError: INVALID_ARGUMENT, saying where the filter is wrong.
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the text; `_at` is the place that is read next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> Filter:
        self._skip_space()
        if self._at_end():
            return Filter(lambda _row: True)
        predicate = self._expression()
        if not self._at_end():
            raise self._error("expected AND, OR or the end")
        return predicate

    def _expression(self) -> Filter:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error("too deeply nested")
        parts = [self._sequence()]
        while self._keyword("AND"):
            parts.append(self._sequence())
        self._depth -= 1
        return _every(parts)

    def _sequence(self) -> Filter:
        parts = [self._factor()]
        while not (self._at_end() or self._peek(")") or self._sees_keyword("AND")):
            parts.append(self._factor())
        return _every(parts)

    def _factor(self) -> Filter:
        parts = [self._term()]
        while self._keyword("OR"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else _any(parts)

    def _term(self) -> Filter:
        if self._keyword("NOT") or self._take("-"):
            negated = self._simple().matches
            return Filter(lambda row: not negated(row))
        return self._simple()

    def _simple(self) -> Filter:
        if not self._take("("):
            return self._restriction()
        inner = self._expression()
        if not self._take(")"):
            raise self._error("expected a closing parenthesis")
        return inner

    def _restriction(self) -> Filter:
        start = self._at
        name = self._match(_FIELD)
        if not name:
            raise self._error("expected a field")
        canonical = _CANONICAL.get(name)
        if canonical is None:
            self._at = start
            raise self._error(f"unknown field {name}")
        key = self._label_key() if canonical == "labels" else ""
        self._skip_space()
        comparator = self._match(_COMPARATOR)
        if not comparator:
            raise self._error("expected one of = != < <= > >= :")
        self._skip_space()
        value = self._value()
        self._skip_space()
        try:
            return _restriction(canonical, key, comparator, value)
        except ValueError as error:
            self._at = start
            raise self._error(str(error)) from error

    def _label_key(self) -> str:
        if not self._text.startswith(".", self._at):
            raise self._error("expected labels.KEY")
        self._at += 1
        quoted = self._quoted()
        key = self._match(_LABEL_KEY) if quoted is None else quoted
        if not key:
            raise self._error("expected a label's key")
        return key

    def _value(self) -> str:
        quoted = self._quoted()
        if quoted is not None:
            return quoted
        value = self._match(_VALUE)
        if not value:
            raise self._error("expected a value")
        return value

    def _quoted(self) -> str | None:
        match = _QUOTED.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        body = match.group(1) if match.group(1) is not None else match.group(2)
        return re.sub(r"\\(.)", r"\1", body, flags=re.DOTALL)

    def _sees_keyword(self, word: str) -> bool:
        return re.compile(rf"{word}(?![A-Za-z0-9_.])").match(self._text, self._at) is not None

    def _keyword(self, word: str) -> bool:
        if not self._sees_keyword(word):
            return False
        self._at += len(word)
        self._skip_space()
        return True

    def _peek(self, character: str) -> bool:
        return self._text.startswith(character, self._at)

    def _take(self, character: str) -> bool:
        if not self._peek(character):
            return False
        self._at += 1
        self._skip_space()
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _skip_space(self) -> None:
        self._match(_SPACE)

    def _at_end(self) -> bool:
        return self._at >= len(self._text)

    def _error(self, what: str) -> ApiError:
        return invalid_argument(f"Invalid filter at position {self._at}: {what}: {self._text}")


def _every(parts: list[Filter]) -> Filter:
    if len(parts) == 1:
        return parts[0]
    predicates = [part.matches for part in parts]
    return Filter(
        lambda row: all(matches(row) for matches in predicates),
        labels={key: value for part in parts for key, value in part.labels.items()},
        excluded=frozenset().union(*(part.excluded for part in parts)),
    )


def _any(parts: list[Filter]) -> Filter:
    predicates = [part.matches for part in parts]
    return Filter(
        lambda row: any(matches(row) for matches in predicates),
        excluded=frozenset.intersection(*(part.excluded for part in parts)),
    )


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
