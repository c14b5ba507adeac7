"""Chronicle: what became of a run's attempts, as one value that any worker can build again.

It is made of what outlives every worker: the run's jobs (a list by label shows the ended ones too),
its labels, the history of its states and the claims of its replicas.  Tables, texts, the drawing
and the estimate of the cost are all made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prefect_vertex.capacity.ledger import name_of
from prefect_vertex.capacity.walk import Trail, Try
from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.exits import ENDED_BY_ITSELF, own_exit, own_exit_told
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import PROVISIONING_STATE, RECORDS_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.scheduling import SPOT_STRATEGIES

_CLOCKS_DIFFER = timedelta(seconds=5)

STOPPED_AFTER = "stopped after its run had ended"

GOOD_ENDS = frozenset(
    {TerminationReason.COMPLETED.value, TerminationReason.CANCELLED.value, STOPPED_AFTER}
)
"""Ends that nobody has to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One state of the run's history."""

    state: RunState
    name: str
    entered_at: datetime
    message: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """A replica's container has claimed its start."""

    attempt: int
    rank: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a chronicle is made of.

    Attributes:
        run: As last read; its labels bring the candidates' names and a verdict of this product's.
        jobs: Every job of the run that is still there.
        trail: What was tried, see `capacity.trail`.
        names: How messages name the candidates.
        states: The run's, in any order.
        starts: Of replicas.
        now: When all this was read.
    """

    run: RunView
    jobs: Sequence[JobSnapshot] = ()
    trail: Trail = field(default_factory=Trail)
    names: Sequence[str] = ()
    states: Sequence[Stay] = ()
    starts: Sequence[Start] = ()
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One try to run the flow somewhere.

    Attributes:
        attempt: Its number, 0 for a candidate that was ruled out without a try.
        place: How messages name it.
        job: None where its create was refused, or its job deleted since.
        began_at: When its job was created, or its create was due.
        ended_at: None while it lives.
        provisioning_at: When its machines were first seen to be prepared.
        starts: When each replica's container claimed its start, by rank.
        reason: What became of it, in a few words.
        message: The same, explained; empty where the words say it all.
    """

    attempt: int
    place: str
    job: JobSnapshot | None = None
    began_at: datetime
    ended_at: datetime | None
    provisioning_at: datetime | None = None
    starts: Mapping[int, datetime] = field(default_factory=dict)
    reason: str = ""
    message: str = ""

    @property
    def started_at(self) -> datetime | None:
        """When its first container began, None before; the job's own time where it has one."""
        if self.job is not None and self.job.start_time is not None:
            return self.job.start_time
        return min(self.starts.values(), default=None)

    @property
    def ran_untimed(self) -> bool:
        """Whether it must have run, though no start of it is known."""
        succeeded = self.job is not None and self.job.phase is JobPhase.SUCCEEDED
        return succeeded and self.started_at is None

    @property
    def is_live(self) -> bool:
        """Whether it may still change."""
        return self.ended_at is None

    @property
    def failed(self) -> bool:
        """Whether it ended as nobody wanted."""
        return not self.is_live and self.reason not in GOOD_ENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronicle:
    """A run's attempts, the oldest first.

    Attributes:
        state_name: The run's last state.
        at: Until when it is told: the end of the last thing that ended, or now.
        records: `gs://…` of the folder of its launch records; empty: there is none.
    """

    run_id: str
    run_name: str
    state_name: str
    at: datetime
    attempts: tuple[AttemptRecord, ...] = ()
    records: str = ""

    @property
    def last_job(self) -> JobSnapshot | None:
        """The newest job."""
        jobs = [each.job for each in self.attempts if each.job is not None]
        return jobs[-1] if jobs else None

    @property
    def is_live(self) -> bool:
        """Whether any attempt may still change."""
        return any(each.is_live for each in self.attempts)


def build_chronicle(sources: Sources) -> Chronicle:
    """Tell the story of a run; equal sources give equal chronicles."""
    states = sorted(sources.states, key=lambda each: each.entered_at)
    jobs = _in_order(sources.jobs)
    tries = [*sources.trail.ruled_out, *sources.trail.tries]
    told = [_try_of(job, jobs, sources.trail) for job in jobs]
    pairs = zip(jobs, told, strict=True)
    records = [_of_job(job, sources, states, tried) for job, tried in pairs]
    records += [_of_try(each, sources.names) for each in tries if each not in told]
    records.sort(key=lambda each: (each.began_at, each.attempt))
    last = states[-1] if states else None
    state = last.state if last is not None else sources.run.state
    ends = [each.ended_at for each in records if each.ended_at is not None]
    settled = state.is_final and len(ends) == len(records)
    return Chronicle(
        run_id=sources.run.id,
        run_name=sources.run.name,
        state_name=last.name if last is not None else sources.run.state_name,
        at=max(ends, default=sources.now) if settled else sources.now,
        attempts=tuple(records),
        records=sources.run.labels.get(RECORDS_LABEL, ""),
    )


def _of_job(
    job: JobSnapshot, sources: Sources, states: Sequence[Stay], tried: Try | None
) -> AttemptRecord:
    starts = {each.rank: each.at for each in sources.starts if each.attempt == job.attempt}
    ended_at = (job.end_time or job.observed_at) if job.is_terminal else None
    known = sources.run.candidate(job.attempt)
    place = job.resource_name.location
    if tried is not None:
        place = name_of(tried, sources.names)
    elif known is not None and known[0] < len(sources.names):
        place = sources.names[known[0]]
    if tried is not None:
        reason, message = tried.reason.value, tried.message
    elif ended_at is None:
        reason, message = job.phase.value, ""
    else:
        reason, message = _end_of(job, sources, states, started=bool(starts))
    return AttemptRecord(
        attempt=job.attempt,
        place=place,
        job=job,
        began_at=job.create_time,
        ended_at=ended_at,
        provisioning_at=_provisioning(job, states, ended_at or sources.now),
        starts=starts,
        reason=reason,
        message=message,
    )


def _of_try(tried: Try, names: Sequence[str]) -> AttemptRecord:
    return AttemptRecord(
        attempt=tried.attempt,
        place=name_of(tried, names),
        began_at=tried.begun_at,
        ended_at=tried.ended_at,
        reason=tried.reason.value,
        message=tried.message,
    )


def _try_of(job: JobSnapshot, jobs: Sequence[JobSnapshot], trail: Trail) -> Try | None:
    """The try that a job was; a refused create before it has its number too.

    Times tell nothing of it: a try is dated by a worker's clock, a job by Vertex AI's.

    Args:
        job: It.
        jobs: All of the run, the oldest first.
        trail: What the run's walk has taken note of.
    """
    first = next(each for each in jobs if each.attempt == job.attempt)
    if job is not first or not job.is_terminal or job.attempt > trail.answered:
        return None
    every = dict.fromkeys((*trail.past, *trail.ruled_out, *trail.tries))
    last = next((each for each in reversed(every) if each.attempt == job.attempt), None)
    return last if last in {*trail.ruled_out, *trail.tries} else None


def _provisioning(job: JobSnapshot, states: Sequence[Stay], end: datetime) -> datetime | None:
    """A job keeps no time of it; the run's history has the moment at which it was shown."""
    end = min(end, job.start_time or end)
    for stay in states:
        if stay.name == PROVISIONING_STATE and job.create_time <= stay.entered_at <= end:
            return stay.entered_at
    return None


def _end_of(
    job: JobSnapshot, sources: Sources, states: Sequence[Stay], *, started: bool
) -> tuple[str, str]:
    """Reason and explanation of a job's end."""
    run = sources.run
    policy = RunPolicy(spot=job.strategy in SPOT_STRATEGIES, timeout_seconds=job.timeout_seconds)
    diagnosis = diagnose(job, policy, started=started)
    reason = diagnosis.reason
    if verdict := run.verdict(job.attempt):
        return _words(verdict), diagnosis.detail if job.error else ""
    if reason is TerminationReason.COMPLETED:
        died = _own_end(job, sources.jobs, states)
        if died is None:
            return reason.value, ""
        return ENDED_BY_ITSELF, own_exit_told(died[1])
    if job.phase is JobPhase.CANCELLED and reason is TerminationReason.CANCELLED_OUTSIDE:
        if any(each.state is RunState.CANCELLING for each in states):
            return "cancelled", ""
        if run.is_final and job.end_time is not None and run.state_time <= job.end_time:
            # Whoever did it: what became of the run was decided before.
            return STOPPED_AFTER, ""
        return _words(reason.value), diagnosis.summary
    return _words(reason.value), diagnosis.message


def own_death(sources: Sources) -> tuple[datetime, str] | None:
    """When the flow's own process died in a container that lived on, and what to say of it.

    Only of the run's last attempt, where nothing has followed.
    """
    states = sorted(sources.states, key=lambda each: each.entered_at)
    jobs = _in_order(sources.jobs)
    if not states or not jobs or states[-1].state is not RunState.CRASHED:
        return None
    died = _own_end(jobs[-1], jobs, states[-1:])
    return (died[0], own_exit_told(died[1])) if died is not None else None


def _own_end(
    job: JobSnapshot, jobs: Sequence[JobSnapshot], states: Sequence[Stay]
) -> tuple[datetime, int] | None:
    """When the flow's own process died in the job's container, and its exit status."""
    for stay in states:
        status = own_exit(stay.message) if stay.state is RunState.CRASHED else None
        if status is not None and _job_at(stay.entered_at, jobs) is job:
            return stay.entered_at, status
    return None


def _job_at(moment: datetime, jobs: Sequence[JobSnapshot]) -> JobSnapshot | None:
    """The job that a state of that time is about: the newest of those that were there."""
    ordered = _in_order(jobs)
    known = [job for job in ordered if job.create_time <= moment]
    if not known:
        # Clocks differ. Later jobs get no such leave: it would reach into the one before.
        known = [job for job in ordered[:1] if job.create_time - _CLOCKS_DIFFER <= moment]
    lived = [
        job for job in known if job.end_time is None or moment <= job.end_time + _CLOCKS_DIFFER
    ]
    return lived[-1] if lived else None


def _in_order(jobs: Sequence[JobSnapshot]) -> list[JobSnapshot]:
    return sorted(jobs, key=lambda job: (job.create_time, job.resource_name.job_id))


def _words(reason: str) -> str:
    return reason.replace("-", " ")
