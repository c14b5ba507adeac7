"""Request budgets: how fast one project and location is asked, and how a rate denial slows it.

Vertex AI counts requests by project and location and shares the count with everybody in the
project, people included.  So a budget is smooth, never a burst: 60 a minute is one a second.  A
denial says that somebody else spends from the same quota: the rate is halved and comes back
linearly.  Which figures to run at is the caller's to say.

Quotas (documented, read 2026-11): 60 submissions (create and delete of jobs) and 600 other requests
a minute, by project and location.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import anyio

HALVE_EVERY_SECONDS = 5.0
"""Denials closer together than this are one event: requests that were on their way already."""

RECOVERY_SECONDS = 120.0
"""From nothing to the full rate; from half of it in half that time."""

SPACING = 1.02
"""Requests are spaced by this much more than the rate says: they take unequal times to arrive, and
at exactly the quota's rate one too many would fall into the service's minute."""

FLOOR = 1 / 32
"""Smallest share of the full rate that denials can bring it down to."""


class Clock(Protocol):
    """Time that only moves forward, so that a test can move it by hand."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable."""
        ...


class MonotonicClock:
    """The machine's own monotonic clock."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable."""
        await anyio.sleep(seconds)


class RateBudget:
    """A token bucket that holds one token: callers leave one by one, in the order they came.

    Args:
        per_minute: The full rate; `math.inf` for no limit.
        clock: What it waits on.
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        if not per_minute > 0:
            raise ValueError(f"A budget needs a positive rate, got {per_minute} a minute.")
        self._full = per_minute
        self._clock = clock
        self._turn = anyio.Lock()
        self._next_at = float("-inf")
        self._waiting = 0
        self._slowed_to = per_minute
        self._slowed_at = float("-inf")
        self._empty_total = 0.0
        self._empty_since: float | None = None

    @property
    def rate_per_minute(self) -> float:
        """The rate now: full, or on its way back to it after a denial."""
        elapsed = self._clock.now() - self._slowed_at
        if self._slowed_to >= self._full or elapsed >= RECOVERY_SECONDS:
            return self._full
        return min(self._full, self._slowed_to + self._full * elapsed / RECOVERY_SECONDS)

    @property
    def waiting(self) -> int:
        """How many callers wait for their turn."""
        return self._waiting

    @property
    def empty_seconds(self) -> float:
        """How long, in all, somebody waited because the bucket was empty."""
        if self._empty_since is None:
            return self._empty_total
        return self._empty_total + self._clock.now() - self._empty_since

    async def acquire(self) -> None:
        """Wait for a token and take it. A cancelled caller takes none."""
        self._waiting += 1
        try:
            async with self._turn:
                await self._refill()
                # From now, not from when the token was due: a late wake-up must not let two
                # requests follow each other more closely than the quota allows.
                self._next_at = self._clock.now() + SPACING * 60 / self.rate_per_minute
        finally:
            self._waiting -= 1

    async def _refill(self) -> None:
        # A denial may put the next token off while we sleep, hence the loop.
        self._empty_since = self._clock.now()
        try:
            while (delay := self._next_at - self._clock.now()) > 0:
                await self._clock.sleep(delay)
        finally:
            self._empty_total += self._clock.now() - self._empty_since
            self._empty_since = None

    def deny(self, retry_after_seconds: float | None = None) -> None:
        """Take note of a rate denial: halve the rate and pause.

        Args:
            retry_after_seconds: The service's own RetryInfo; None: one interval of the new rate.
        """
        now = self._clock.now()
        if now - self._slowed_at >= HALVE_EVERY_SECONDS:
            self._slowed_to = max(self.rate_per_minute / 2, self._full * FLOOR)
            self._slowed_at = now
        pause = 60 / self.rate_per_minute if retry_after_seconds is None else retry_after_seconds
        self._next_at = max(self._next_at, now + pause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What one project and location is asked within.

    Attributes:
        submissions: Creates and deletes.
        reads: Everything else: get, list, cancel.
    """

    submissions: RateBudget
    reads: RateBudget
