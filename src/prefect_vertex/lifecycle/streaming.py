"""Which jobs' log entries a flow run's log needs now, and from which moment to which.

A run that waits needs all of its job's; one that has started needs those from before its start,
which may come late, and nothing of what follows: from then on its process speaks to Prefect itself.
A run that crashed needs what came after the last word of that process, which is the leader's, and
what other replicas wrote from some time before.  One of several replicas that failed needs the last
lines of those that died: their own death, not its leader's, is what failed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from prefect_vertex.lifecycle.lines import LEADER_TASK, SERVICE_TASK
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target

OTHERS_BEFORE = timedelta(seconds=120)
"""So long the leader may go on speaking after another replica, which ends the job, has died."""

AFTER_END = timedelta(seconds=180)
"""So long after a crash, or after the end of a waiting run's job, entries are still read."""

LATE = timedelta(seconds=45)
"""Entries arrive up to half a minute late (seen in public dumps)."""

WINDOW = timedelta(seconds=60)
"""How far before the last read the next one begins: what is older has arrived."""

BEFORE_CREATE = timedelta(seconds=5)
"""Clocks differ."""

LONGEST_LIFE = timedelta(days=7)
"""How old the entries of a crashed run's job may be, where nothing says when it was created."""


class Need(Enum):
    """What a run's log needs of a job's entries."""

    NOTHING = "nothing"
    ALL = "all"
    """The run waits."""
    BEFORE_START = "before start"
    """The run has started, or was ended, a moment ago."""
    AFTER_LAST_WORD = "after last word"
    """The run has crashed, or failed where a replica of several may have died."""


def may_have_dead(run: RunView) -> bool:
    """Whether a process that died may have left lines that are for the run's log."""
    return run.state is RunState.CRASHED or (run.state is RunState.FAILED and run.replicas > 1)


def need_of(run: RunView, job: JobSnapshot | None, now: datetime) -> Need:
    """What a run needs, as last read.

    Args:
        run: The run; its policy lets its output be streamed.
        job: One of its jobs; None where it has crashed and its job is not known here.
        now: The time.
    """
    if may_have_dead(run):
        return Need.AFTER_LAST_WORD if now - run.state_time <= AFTER_END else Need.NOTHING
    if job is None:
        return Need.NOTHING
    if run.state is RunState.PENDING:
        ended = job.end_time or job.observed_at
        is_over = job.is_terminal and now - ended > AFTER_END
        return Need.NOTHING if is_over else Need.ALL
    if run.state is RunState.SCHEDULED or now - run.state_time > LATE:
        return Need.NOTHING
    return Need.BEFORE_START


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What is read of one job for one run.

    Attributes:
        run: As last read.
        job: The job's name.
        target: Where it was created, and with whose credentials.
        created: When the job was, by Google's clock, or some time before.
        since: Entries from then on are asked for.
        until: From then on the run's own process speaks for itself; None: it has not begun to.
        noticed_at: When that was seen here, by this machine's clock.
        resumes: From then on it did so no more, because it was dead; None: it lives.
        others_resume: From then on other replicas' lines are for the run's log again.
        dead: From when on those of a replica are that died beside a leader that could still fail.
        was_read: Whether entries have been read before.
        read_at: When a read last gave all that there was.
        is_loud: Whether its job writes so much that it is asked for alone, and for the newest only.
        asked_at: When they were last asked for.
    """

    run: RunView
    job: ResourceName
    target: Target
    created: datetime
    since: datetime
    until: datetime | None = None
    noticed_at: datetime | None = None
    resumes: datetime | None = None
    others_resume: datetime | None = None
    dead: Mapping[str, datetime] = field(default_factory=dict)
    was_read: bool = False
    read_at: datetime | None = None
    is_loud: bool = False
    asked_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """The job's."""
        return self.job.key

    @property
    def asked_until(self) -> datetime | None:
        """Nothing that was written from then on is needed; None: everything may be."""
        return self.until if self.resumes is None and not self.dead else None

    def is_over(self, now: datetime) -> bool:
        """Whether nothing that it needs can still arrive."""
        if may_have_dead(self.run):
            return now - self.run.state_time > AFTER_END
        if self.until is not None:
            # It takes a read, not time alone: where reads are minutes apart, the last one may have
            # been before what is late arrived.  By one clock: `until` is another machine's time.
            noticed_at = self.noticed_at or self.until
            has_all = self.read_at is not None and self.read_at - noticed_at > LATE
            return has_all or now - noticed_at > AFTER_END
        # Of a run that is deleted nothing is heard any more.
        return now - self.run.observed_at > AFTER_END

    def takes(self, timestamp: datetime, task_name: str = LEADER_TASK) -> bool:
        """Whether an entry of that time, of that replica or the service, is for the run's log."""
        if timestamp < self.since:
            return False
        if self.until is None or timestamp < self.until:
            return True
        is_leaders = task_name in {LEADER_TASK, SERVICE_TASK}
        usual = self.resumes if is_leaders else self.others_resume
        resumes = self.dead.get(task_name, usual)
        return resumes is not None and timestamp >= resumes

    def started(self, run: RunView, at: datetime) -> Stream:
        """The same, for a run whose own process has begun to speak."""
        return replace(self, run=run, until=at, noticed_at=run.observed_at)

    def crashed(
        self, run: RunView, started_at: datetime | None, last_word: datetime | None
    ) -> Stream:
        """The same, for a run that has crashed.

        Args:
            run: As just read.
            started_at: When it left Pending; None: it never did.
            last_word: When its own process last spoke; None: it never did.
        """
        if started_at is None:
            return replace(self, run=run, until=None)
        resumes = max(started_at, last_word or started_at)
        # The last word is the leader's; another may have died first, and spoken no more.
        others = max(started_at, resumes - OTHERS_BEFORE)
        # A long life's lines are not read again from its beginning; what was read and not needed
        # while the run lived is.
        since = min(self.since, others) if self.was_read else max(self.since, others)
        return replace(
            self, run=run, since=since, until=started_at, resumes=resumes, others_resume=others
        )

    def failed(
        self, run: RunView, started_at: datetime | None, dead: Mapping[str, datetime]
    ) -> Stream:
        """The same, for a run that has failed and that has several replicas.

        Args:
            run: As just read.
            started_at: When it left Pending; None: it never did.
            dead: The replicas that died, each with the time from which on its lines are needed.
        """
        until = started_at or run.state_time
        since = min([self.since, *dead.values()])
        return replace(self, run=run, since=since, until=until, dead=dict(dead))

    def after_read(self, asked_at: datetime, arrived: datetime) -> Stream:
        """The same, to be read on, after a read that gave all that there was.

        Args:
            asked_at: When.
            arrived: What was written before then had arrived, by the time of entries.
        """
        since = max(self.since, arrived)
        return replace(self, since=since, was_read=True, read_at=asked_at)

    def after_part(self, given: datetime, arrived: datetime) -> Stream:
        """The same, after a read that gave a part, the oldest.

        Args:
            given: The time of the last entry in it.
            arrived: As above: a line of before `given` may still come where that is later.
        """
        since = min(given, arrived)
        if since == given == self.since:
            # More of one moment than a query gives: the next one must not give the same again.
            since += timedelta.resolution
        return replace(self, since=max(self.since, since), was_read=True)


def loud_jobs(job_ids: Iterable[str], usual: int) -> set[str]:
    """The jobs that a query had too little room for, so that others do not wait behind them.

    Args:
        job_ids: The job of each entry that the query gave.
        usual: More than so many entries are too many; where no job has so many, that with most is
            one all the same.
    """
    counts = Counter(job_ids)
    return {
        job_id for job_id, count in counts.items() if count > min(usual, max(counts.values()) - 1)
    }


def stream_of(run: RunView, job: JobSnapshot, target: Target) -> Stream:
    """The stream of a job that nothing was read of yet."""
    return Stream(
        run=run,
        job=job.resource_name,
        target=target,
        created=job.create_time,
        since=job.create_time - BEFORE_CREATE,
        asked_at=job.create_time,
    )


def stream_of_name(run: RunView, name: ResourceName, target: Target) -> Stream:
    """The same, of a crashed run whose job is known by name only."""
    since = run.state_time - LONGEST_LIFE
    return Stream(run=run, job=name, target=target, created=since, since=since, asked_at=since)
