"""ManualClock: time that a test moves by hand."""

from __future__ import annotations

import heapq
import itertools
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel

_SETTLE_ROUNDS = 50
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Time that a test moves.

    Args:
        auto_advance: Sleeping moves the time by itself, at once. For one task that sleeps; of
            several that sleep together each would move it for the others.

    A task that waits for anything but this clock, such as a socket, is not waited for.
    """

    def __init__(self, *, auto_advance: bool = False) -> None:
        self._now = 0.0
        self._auto_advance = auto_advance
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def utc(self) -> datetime:
        """The same moment on the wall: the clock was made as 2026 began."""
        return _EPOCH + timedelta(seconds=self._now)

    @property
    def sleepers(self) -> int:
        """How many tasks wait for the time to move."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has been moved that far."""
        until = self._now + seconds
        if self._auto_advance or seconds <= 0:
            self._now = max(self._now, until)
            await anyio.lowlevel.checkpoint()
            return
        entry = (until, next(self._order), anyio.Event())
        heapq.heappush(self._sleepers, entry)
        try:
            await entry[2].wait()
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)
                heapq.heapify(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move the time, waking each sleeper at its own moment and letting it act there."""
        target = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            until, _, event = heapq.heappop(self._sleepers)
            self._now = max(self._now, until)
            event.set()
            await self.settle()
        self._now = target
        await self.settle()

    async def settle(self) -> None:
        """Let every task that can run do so, without moving the time."""
        for _ in range(_SETTLE_ROUNDS):
            await anyio.lowlevel.checkpoint()
