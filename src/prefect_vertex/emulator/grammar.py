"""The grammar that Google's filters share (AIP-160), without the fields that they are about.

    expression = sequence {"AND" sequence}
    sequence   = factor {factor}                 side by side means AND
    factor     = term {"OR" term}                OR binds tighter than AND
    term       = ["NOT" | "-"] (restriction | "(" expression ")")

Source: https://google.aip.dev/160.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prefect_vertex.emulator.api_error import ApiError, invalid_argument

# Of a job's row, or of whatever else a filter is about.
Predicate = Callable[[Any], bool]

_SPACE: Final = re.compile(r"\s*")
_VALUE: Final = re.compile(r"[^\s()\"']+")
_QUOTED: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
# Deeper nesting than anybody writes, and far from the interpreter's own limit.
_MAX_DEPTH: Final = 50


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

    def __call__(self, row: Any) -> bool:
        """The same as `matches`."""
        return self.matches(row)


class FilterParser(ABC):
    """Recursive descent over the text; a subclass knows the fields.

    Args:
        text: The filter.

    Attributes:
        at: The place that is read next.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._depth = 0

    def whole(self) -> Filter:
        """All of the text."""
        self.skip_space()
        if self._at_end():
            return Filter(lambda _row: True)
        predicate = self._expression()
        if not self._at_end():
            raise self.error("expected AND, OR or the end")
        return predicate

    def _expression(self) -> Filter:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.error("too deeply nested")
        parts = [self._sequence()]
        while self.keyword("AND"):
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
        while self.keyword("OR"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else _any(parts)

    def _term(self) -> Filter:
        if self.keyword("NOT") or self.take("-"):
            negated = self._simple().matches
            return Filter(lambda row: not negated(row))
        return self._simple()

    def _simple(self) -> Filter:
        if not self.take("("):
            return self.restriction()
        inner = self._expression()
        if not self.take(")"):
            raise self.error("expected a closing parenthesis")
        return inner

    @abstractmethod
    def restriction(self) -> Filter:
        """Read one comparison, with the space behind it."""

    def value(self) -> str:
        """Read a value, quoted or not."""
        quoted = self.quoted()
        if quoted is not None:
            return quoted
        value = self.match(_VALUE)
        if not value:
            raise self.error("expected a value")
        return value

    def quoted(self) -> str | None:
        """Read a quoted text; None where none begins here."""
        match = _QUOTED.match(self._text, self.at)
        if match is None:
            return None
        self.at = match.end()
        body = match.group(1) if match.group(1) is not None else match.group(2)
        return re.sub(r"\\(.)", r"\1", body, flags=re.DOTALL)

    def _sees_keyword(self, word: str) -> bool:
        return re.compile(rf"{word}(?![A-Za-z0-9_.])").match(self._text, self.at) is not None

    def keyword(self, word: str) -> bool:
        """Read a word and the space behind it, if it is there."""
        if not self._sees_keyword(word):
            return False
        self.at += len(word)
        self.skip_space()
        return True

    def _peek(self, character: str) -> bool:
        return self._text.startswith(character, self.at)

    def take(self, character: str) -> bool:
        """Read a character and the space behind it, if it is there."""
        if not self._peek(character):
            return False
        self.at += 1
        self.skip_space()
        return True

    def match(self, pattern: re.Pattern[str]) -> str:
        """Read what fits; empty where nothing does."""
        match = pattern.match(self._text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match.group()

    def skip_space(self) -> None:
        """Go on to what is no space."""
        self.match(_SPACE)

    def _at_end(self) -> bool:
        return self.at >= len(self._text)

    def error(self, what: str) -> ApiError:
        """The refusal, with the place that is read next."""
        return invalid_argument(f"Invalid filter at position {self.at}: {what}: {self._text}")


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
