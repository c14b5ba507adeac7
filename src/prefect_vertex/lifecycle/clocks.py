"""Other machines' clocks: when something happened there, by this machine's own clock.

Vertex AI and the Prefect server date things by clocks of their own, and a worker's may be minutes
away from either.  A limit that is counted from such a date would be over at once, or much too late.
One thing is certain, though: what has been read has happened.  So each date that is read bounds how
far this machine's clock is ahead, and the newest ones bound it closely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

MAX_SKEW = timedelta(minutes=5)
"""Clocks are not taken to differ by more: until something new is read, limits last longer by it."""

KNOWN_FOR = timedelta(hours=1)
"""So long the least that was seen counts: clocks drift and are set."""


@dataclass(slots=True)
class Lead:
    """How far this machine's clock is ahead of another, at most; less than nothing: behind.

    Attributes:
        most: It is never taken to be further ahead.
        least: Nor less.
        ahead: The least that was seen between a moment here and one that had passed there.
        seen_at: When, by this machine's clock.
        newest: The newest date that was read.
    """

    most: timedelta = MAX_SKEW
    least: timedelta = -MAX_SKEW
    ahead: timedelta = field(init=False)
    seen_at: datetime | None = field(init=False, default=None)
    newest: datetime | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.ahead = self.most

    def learn(self, now: datetime, passed: Iterable[datetime | None]) -> None:
        """Compare with dates of things that have happened there."""
        newest = max((each for each in passed if each is not None), default=None)
        if newest is None:
            return
        ahead = min(max(now - newest, self.least), self.most)
        # What was read before grows older and says less; only news takes back what is known.
        is_news = self.newest is None or newest > self.newest
        is_old = self.seen_at is None or now - self.seen_at > KNOWN_FOR
        if ahead <= self.ahead or (is_news and is_old):
            self.ahead, self.seen_at = ahead, now
        self.newest = newest if is_news else self.newest

    def here(self, there: datetime) -> datetime:
        """When something happened, by this machine's clock: then at the latest."""
        return there + self.ahead

    def there(self, here: datetime) -> datetime:
        """What the other clock shows at a moment of this one: that at the least."""
        return here - self.ahead


@dataclass(frozen=True, slots=True)
class Leads:
    """This machine's, of the two clocks that its work is dated by."""

    vertex: Lead = field(default_factory=Lead)
    prefect: Lead = field(default_factory=Lead)

    def learn(self, now: datetime, run: RunView | None, jobs: Iterable[JobSnapshot]) -> None:
        """Take note of a run and its jobs, as they were read until now."""
        if run is not None:
            self.prefect.learn(now, [run.state_time])
        dates = ((job.create_time, job.start_time, job.end_time) for job in jobs)
        self.vertex.learn(now, [date for each in dates for date in each])

    def all(
        self, run: RunView | None, jobs: Iterable[JobSnapshot]
    ) -> tuple[RunView | None, list[JobSnapshot]]:
        """A run and its jobs, dated by one clock, this machine's."""
        return None if run is None else self.run(run), [self.job(job) for job in jobs]

    def run(self, run: RunView) -> RunView:
        """A run, dated by this machine's clock."""
        return replace(run, state_time=self.prefect.here(run.state_time))

    def job(self, job: JobSnapshot) -> JobSnapshot:
        """A job, dated by this machine's clock."""
        start, end = job.start_time, job.end_time
        return replace(
            job,
            create_time=self.vertex.here(job.create_time),
            start_time=None if start is None else self.vertex.here(start),
            end_time=None if end is None else self.vertex.here(end),
        )
