"""The wall clock as an argument, so that a test can move it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The time, aware."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)
