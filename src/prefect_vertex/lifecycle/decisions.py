"""What can be decided for a run: one small frozen class for each thing that the reconciler can do.

Every decision may be taken again from the next observation; none depends on an earlier one having
been carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from prefect_vertex.lifecycle.outcomes import JobOutcome, TerminationReason
from prefect_vertex.planning.naming import ResourceName


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do; look again when something changes, at the latest at `until`."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Create this attempt's job."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the service which jobs the run has, whatever their state."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Read this one job: a list row is not enough for what would follow, or it is too old."""

    job: ResourceName


@dataclass(frozen=True, slots=True)
class Show:
    """Propose a Pending sub-state, so that the user sees what the run waits for."""

    state_name: str
    message: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Cancel this job.

    `verdict` is written to the run first where this product itself ends the attempt, so that
    whoever sees the job's end knows why; so is the id of a `stray`, a job whose place another has.
    """

    job: ResourceName
    attempt: int
    because: str
    verdict: TerminationReason | None = None
    stray: bool = False


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take back what was written about this job before a cancel: it goes on."""

    job: ResourceName
    attempt: int


@dataclass(frozen=True, slots=True)
class Crash:
    """Propose Crashed: the infrastructure failed, its job is gone, the run had not ended."""

    outcome: JobOutcome
    message: str


@dataclass(frozen=True, slots=True)
class Hop:
    """Let the walk say what follows: the attempt's job is over, and no container of it has begun.

    `otherwise` is what ends the run where the walk knows no other way.
    """

    job: ResourceName
    attempt: int
    otherwise: Crash


@dataclass(frozen=True, slots=True)
class MarkCancelled:
    """Propose Cancelled: the job is gone, and a person or a program wanted it so."""

    outcome: JobOutcome
    message: str


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Propose AwaitingRetry: the attempt is over, another is due, and any worker may take it."""

    outcome: JobOutcome
    message: str


@dataclass(frozen=True, slots=True)
class HandBack:
    """Offer the scheduled run to the workers: it waits for a process that is gone."""

    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class Requeue:
    """Put the run back to Scheduled: whoever held it is gone, and it has no job."""

    message: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Nothing more to do for this run until somebody submits it again."""

    outcome: JobOutcome


Decision = (
    Wait
    | Create
    | Look
    | Describe
    | Show
    | CancelJob
    | Withdraw
    | Crash
    | Hop
    | MarkCancelled
    | Reschedule
    | HandBack
    | Requeue
    | Settle
)
