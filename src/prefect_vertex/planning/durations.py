"""How long a wait may be, and how large a count.

Ten years from now is a date that a clock can show; 10^12 seconds are not, and adding them to the
time fails wherever it is done.  So what a user writes is judged where it is read, and what a label
carries too: another version may have written it.
"""

from __future__ import annotations

from typing import Final

MAX_SECONDS: Final = 315_360_000.0
"""Ten years: longer than any job lives."""

MAX_COUNT: Final = 1_000_000
"""Attempts, passes and restarts; 0 where there is to be no limit."""


_MAX_DIGITS: Final = 9


def is_duration(value: object) -> bool:
    """Whether it is a number of seconds from 0 to ten years."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= MAX_SECONDS  # type: ignore[operator]  # a number, see above


def is_count(value: object) -> bool:
    """Whether it is a whole number from 0 to a million."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def whole_number(text: str) -> int | None:
    """The number that a label holds, if it is one that this product may have written."""
    is_one = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_one else None
