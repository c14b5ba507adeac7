"""Tickets: those who wait for a run's infrastructure."""

from __future__ import annotations

import anyio

from prefect_vertex.lifecycle.outcomes import JobOutcome
from prefect_vertex.planning.naming import ResourceName


class Ticket:
    """One caller's wait for one attempt of a run.

    Its events are only ever set: a caller that is cancelled takes nothing down with it.
    """

    def __init__(self) -> None:
        self._started = anyio.Event()
        self._ended = anyio.Event()
        self.resource_name: ResourceName | None = None
        self.outcome: JobOutcome | None = None
        self.crashed = False

    def start(self, name: ResourceName) -> None:
        """The attempt's job exists."""
        self.resource_name = self.resource_name or name
        self._started.set()

    def end(self, outcome: JobOutcome, *, crashed: bool = False) -> None:
        """The attempt is over; `crashed` if the server accepted Crashed for it."""
        if self.outcome is None:
            self.outcome = outcome
            self.crashed = crashed
        self._started.set()
        self._ended.set()

    async def wait_started(self) -> ResourceName | None:
        """The job's name, None if the attempt ended before it had one."""
        await self._started.wait()
        return self.resource_name

    async def wait_ended(self) -> JobOutcome:
        """The end."""
        await self._ended.wait()
        if self.outcome is None:  # pragma: no cover - end() sets it before the event
            raise RuntimeError("A ticket ended without an outcome.")
        return self.outcome
