"""What a decision is taken from: the run, the job that speaks for it, and this process's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prefect_vertex.lifecycle.decisions import CancelJob, Decision, Wait
from prefect_vertex.lifecycle.diagnosis import is_incomplete
from prefect_vertex.lifecycle.outcomes import Diagnosis, JobOutcome, TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName

Key = tuple[str, str]
"""A job's location and id, see `ResourceName.key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A job that was answered with "not found".

    Attributes:
        attempt: Its attempt, if this process had seen the job itself before; else 0.
        times: When it was not found.
    """

    name: ResourceName
    attempt: int = 0
    times: tuple[datetime, ...] = ()

    @property
    def confirmed(self) -> bool:
        """Whether the job is gone for certain."""
        return confirmed(self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What this process remembers of a run; an empty one is always safe.

    Attributes:
        due_attempt: This process holds the run and is to create this attempt; 0 if it does not.
        rescheduled: That attempt is due because the last one's container rescheduled the run.
        continues: That attempt is due because the last one came to nothing, and nobody submitted
            the run again since; so its end has to be understood first.
        vanished: The job of the attempt before it ran, and is gone without a word.
        nothing_sent: It holds the run and knows that no create was sent for that attempt.
        holder_gone: The process that held the run is gone for certain, and it was not this one.
        cancels: When a cancel was last sent, by the job's key.
        looks: Times of the looks by label that found no job for the run's attempt.
        absences: Jobs that were answered with "not found", by the job's key.
        ended: When a job was first seen terminal, by the job's key.
        gone: Times at which the run itself was.
        claimed_job_id: The CustomJob id that a container's start claim names, if one was read.
        unstarted: Attempts of which no container has claimed its start, read after their jobs were
            terminal.
        answered: The highest attempt whose end the run's walk has taken note of.
        untold: The attempt whose end this process has begun to tell; whatever the run's state is by
            now, it has yet to say what follows.
        last_sign: The run's last sign of life, as far as it was read.
        restarts: New attempts after a preemption or a reschedule; None: all but the first.
    """

    due_attempt: int = 0
    rescheduled: bool = False
    continues: bool = False
    vanished: bool = False
    nothing_sent: bool = False
    holder_gone: bool = False
    cancels: Mapping[Key, datetime] = field(default_factory=dict)
    looks: Sequence[datetime] = ()
    absences: Mapping[Key, Absence] = field(default_factory=dict)
    ended: Mapping[Key, datetime] = field(default_factory=dict)
    gone: Sequence[datetime] = ()
    claimed_job_id: str = ""
    unstarted: frozenset[int] = frozenset()
    answered: int = 0
    untold: int = 0
    restarts: int | None = None
    last_sign: datetime | None = None


NO_NOTES = Notes()

CONFIRM_SECONDS = 60.0
"""Two answers of "not found" count as one only if they are this far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The arguments of `decide`, with the one job that speaks for the run."""

    run: RunView
    job: JobSnapshot | None
    policy: RunPolicy
    now: datetime
    notes: Notes

    @property
    def live(self) -> bool:
        """Whether that job may still change."""
        return self.job is not None and not self.job.is_terminal

    @property
    def fresh(self) -> bool:
        """Whether that job was described just now, so that its state may be acted upon."""
        age = timedelta(seconds=self.policy.fresh_seconds)
        return (
            self.job is not None and self.job.described and self.now - self.job.observed_at <= age
        )


def never_started(case: Case, job: JobSnapshot) -> bool:
    """Whether it is certain that none of a terminal job's containers has begun.

    Containers may begin before the job is RUNNING, so its `start_time` alone says too little.
    """
    waits = case.run.state in {RunState.PENDING, RunState.SCHEDULED}
    never_ran = job.start_time is None or is_incomplete(job)
    return waits and never_ran and job.attempt in case.notes.unstarted


def confirmed(times: Sequence[datetime]) -> bool:
    """Whether a thing was found missing at least twice, a minute apart."""
    return len(times) > 1 and times[-1] - times[0] >= timedelta(seconds=CONFIRM_SECONDS)


def cancel_due(job: JobSnapshot, policy: RunPolicy, now: datetime, notes: Notes) -> bool:
    """Whether a cancel has to be sent: never yet, or without effect for too long."""
    if job.phase is JobPhase.CANCELLING:
        return False
    sent = notes.cancels.get(job.resource_name.key)
    return sent is None or now - sent >= timedelta(seconds=policy.cancel_repeat_seconds)


def cancel_or_wait(
    case: Case,
    job: JobSnapshot,
    because: str,
    verdict: TerminationReason | None = None,
) -> Decision:
    """Cancel the live job now, or wait for the last cancel to show."""
    if cancel_due(job, case.policy, case.now, case.notes):
        return CancelJob(job.resource_name, job.attempt, because, verdict)
    return Wait(until=case.now + timedelta(seconds=case.policy.cancel_repeat_seconds))


def outcome_of(
    reason: TerminationReason,
    job: JobSnapshot | None,
    diagnosis: Diagnosis | None = None,
) -> JobOutcome:
    """The end as a value."""
    return JobOutcome(
        reason=reason,
        resource_name=job.resource_name if job else None,
        phase=job.phase if job else None,
        diagnosis=diagnosis,
    )
