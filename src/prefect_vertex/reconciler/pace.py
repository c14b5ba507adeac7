"""How often a project's log entries are read, until when, and which of them are known already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prefect_vertex.lifecycle.lines import EntryKey, LogEntry

LONGEST_SECONDS = 120.0
"""The longest pause that denials of the rate lead to."""

DENIED_SECONDS = 600.0
"""So long reading is not tried again where it is not allowed."""

MAX_SEEN = 50_000


@dataclass(slots=True)
class Pace:
    """One project's.

    Attributes:
        seconds: Between two reads, unless they are denied.
        next_at: Not before then; None: at once.
        denial: Why its entries cannot be read, until they can.
        trouble: What the worker's log was last told.
        denied_keys: The credentials that may not read them, each until when it is not tried again.
    """

    seconds: float
    next_at: datetime | None = None
    denial: str = ""
    trouble: str = ""
    denied_keys: dict[str, datetime] = field(default_factory=dict)
    _now_seconds: float = 0.0

    @property
    def interval(self) -> float:
        """Seconds between two reads now."""
        return max(self.seconds, self._now_seconds)

    def is_due(self, now: datetime) -> bool:
        """Whether it may be read."""
        return self.next_at is None or now >= self.next_at

    def ask(self, now: datetime) -> None:
        """It is read now."""
        self.next_at = now + timedelta(seconds=self.interval)

    def answered(self) -> None:
        """It was answered: back to the usual pace, step by step."""
        self.denial = self.trouble = ""
        self._now_seconds = self.interval / 2

    def slow_down(self, now: datetime) -> None:
        """Too much is read in the project, by whomever."""
        self._now_seconds = min(self.interval * 2, max(LONGEST_SECONDS, self.seconds))
        self.next_at = now + timedelta(seconds=self.interval)

    def deny(self, now: datetime, reason: str) -> None:
        """It may not be read; somebody may be about to change that."""
        self.denial = reason
        self.next_at = now + self._denied_for

    def deny_key(self, key: str, now: datetime) -> None:
        """It may not be read with these credentials."""
        self.denied_keys[key] = now + self._denied_for

    def may_use(self, key: str, now: datetime) -> bool:
        """Whether these credentials are tried."""
        return self.denied_keys.get(key, now) <= now

    @property
    def _denied_for(self) -> timedelta:
        return timedelta(seconds=max(DENIED_SECONDS, self.seconds))


class SeenEntries:
    """The entries that were brought, the newest 50,000."""

    def __init__(self, limit: int = MAX_SEEN) -> None:
        self._limit = limit
        self._keys: OrderedDict[EntryKey, None] = OrderedDict()

    def __contains__(self, entry: LogEntry) -> bool:
        return entry.key in self._keys

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Remember, and forget the oldest where there are too many."""
        for entry in entries:
            self._keys[entry.key] = None
            self._keys.move_to_end(entry.key)
        while len(self._keys) > self._limit:
            self._keys.popitem(last=False)
