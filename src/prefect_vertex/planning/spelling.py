"""Texts for messages: the closest known word, values as they are shown, what can be stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

CUT = "..."
"""What stands in a message where a long value was cut off."""

# A 64-bit number has 19.
_MAX_DIGITS = 20
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def snake_case(word: str) -> str:
    """`machineType`, `machine-type` and `Machine Type` all become `machine_type`."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", word.strip())).lower()


def closest(word: str, known: Iterable[str]) -> str:
    """The known word most like this one, whatever its case; empty if none is known.

    Part of a name counts more than a chance likeness: for `T4` it is `NVIDIA_TESLA_T4`.
    """
    wanted = snake_case(word)
    parts = set(wanted.split("_"))

    def likeness(candidate: str) -> tuple[int, float]:
        text = snake_case(candidate)
        shared = len(parts & set(text.split("_")))
        return shared, SequenceMatcher(None, wanted, text).ratio()

    def score(candidate: str) -> tuple[float, str]:
        shared, ratio = likeness(candidate)
        return max(ratio, min(0.9, shared / len(parts))) + ratio / 100, candidate

    return max(known, key=score, default="")


def shown(value: object, limit: int = 60) -> str:
    """A value as a message shows it: one line, not too long."""
    try:
        text = repr(value)
    except ValueError:
        # Python writes no integer of more than 4,300 digits.
        return "a number without end"
    return text if len(text) <= limit else f"{text[: limit - len(CUT)]}{CUT}"


def storable(text: str) -> str:
    """A text from outside as Prefect takes it: its PostgreSQL refuses a NUL in any text."""
    return text.replace("\0", "")


def numeral(text: str) -> int | None:
    """The number that a text of ASCII digits writes; None if it is no such text, or too long.

    `str.isdigit` is true of more than `int` reads.
    """
    stripped = text.strip()
    is_one = stripped.isascii() and stripped.isdigit() and len(stripped) <= _MAX_DIGITS
    return int(stripped) if is_one else None


def with_article(noun: str) -> str:
    """`a mapping`, `an instance`."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def listed(values: Iterable[object], last: str = "or") -> str:
    """Several values as a sentence names them: `1, 2 or 4`; empty for none."""
    *rest, end = [str(value) for value in values] or [""]
    return f"{', '.join(rest)} {last} {end}" if rest else end
