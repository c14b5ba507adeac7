"""How a job ended, as values: the reason, the exit status that the worker reports, the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName


class TerminationReason(Enum):
    """Why there is no live job any more; closed, and total in the tables that read it."""

    COMPLETED = "completed"
    """The container ended by itself and the flow run reported its own end."""
    NEVER_STARTED = "never-started"
    """The container exited 0 without the flow run having left Pending."""
    UNREPORTED = "unreported"
    """The container exited 0 while its flow run was still under way."""
    CONTAINER_FAILED = "container-failed"
    """A replica exited non-zero."""
    OUT_OF_MEMORY = "out-of-memory"
    """The container was killed, most often for want of memory."""
    CANNOT_START = "cannot-start"
    """The command could not be executed, or the image holds none."""
    RESTARTED = "restarted"
    """The platform started a container a second time, and the guard ran nothing (exit 75)."""
    INCOMPLETE = "incomplete"
    """Some replicas were not there in time, and the others ran nothing (exit 79)."""
    PREFECT_UNREACHABLE = "prefect-unreachable"
    """The Prefect API could not be reached from the container (exit 74)."""
    PREEMPTED = "preempted"
    """Spot machines were taken back."""
    NO_CAPACITY = "no-capacity"
    """Vertex AI had no machines, or lost them."""
    QUOTA = "quota"
    """The project's quota does not allow the machines."""
    PERMISSION = "permission"
    """An account may not do what the job needs."""
    INTERNAL = "internal"
    """Vertex AI's own fault."""
    TIMED_OUT = "timed-out"
    """The job reached its maximum run time."""
    EXPIRED = "expired"
    """The job expired before it could run."""
    PROVISIONING_TIMEOUT = "provisioning-timeout"
    """Cancelled by this product: no machines within `provisioning_timeout_seconds`."""
    START_TIMEOUT = "start-timeout"
    """Cancelled by this product: the run had not left Pending within `start_grace_seconds`."""
    STALLED = "stalled"
    """Cancelled by this product: no sign of life within `stall_timeout_seconds`."""
    SUPERSEDED = "superseded"
    """Cancelled by this product: its container had rescheduled the run and did not leave, or
    another job had its place."""
    CANCELLED = "cancelled"
    """The flow run was cancelled, and its job with it."""
    CANCELLED_OUTSIDE = "cancelled-outside"
    """Somebody cancelled the job in Vertex AI."""
    DISAPPEARED = "disappeared"
    """The job was deleted."""
    UNKNOWN = "unknown"
    """Vertex AI gave no reason that is known."""


_OWN_STATUS: dict[TerminationReason, int] = {
    TerminationReason.COMPLETED: 0,
    TerminationReason.CANCELLED: 0,
    TerminationReason.CANCELLED_OUTSIDE: 0,
    TerminationReason.OUT_OF_MEMORY: 137,
    TerminationReason.RESTARTED: 75,
    TerminationReason.INCOMPLETE: 79,
    TerminationReason.PREFECT_UNREACHABLE: 74,
}
EXIT_STATUS: dict[TerminationReason, int] = {
    reason: _OWN_STATUS.get(reason, 1) for reason in TerminationReason
}
"""What `run()` reports where the job itself gave no exit status."""

RESTARTABLE = frozenset(
    {
        TerminationReason.COMPLETED,
        TerminationReason.PREEMPTED,
        TerminationReason.NO_CAPACITY,
        TerminationReason.INTERNAL,
        TerminationReason.SUPERSEDED,
    },
)
"""Ends of a job after which a run that rescheduled itself gets its next attempt.

COMPLETED is the reschedule itself: `prefect flow-run execute` exits 0 after it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A terminal job, explained.

    Attributes:
        summary: One line for the flow run's state message.
        detail: Vertex AI's own text, trimmed; it holds the tail of the container's stderr.
        resolution: One sentence: what the user can do. Empty where nothing is to be done.
        replica: Such as `workerpool0-0`; empty if the text names none.
        exit_status: The replica's, None if the text names none.
    """

    reason: TerminationReason
    summary: str
    detail: str = ""
    resolution: str = ""
    replica: str = ""
    exit_status: int | None = None

    @property
    def message(self) -> str:
        """The text of the state: what happened, what to do, and the service's own words."""
        head = " ".join(part for part in (self.summary, self.resolution) if part)
        return f"{head}\n{self.detail}" if self.detail else head


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The end of a run's infrastructure, as `VertexWorker.run()` returns it."""

    reason: TerminationReason
    resource_name: ResourceName | None = None
    phase: JobPhase | None = None
    diagnosis: Diagnosis | None = None

    @property
    def exit_status(self) -> int:
        """Process-style status, 0 for an end that nobody has to look at."""
        if self.diagnosis is not None and self.diagnosis.exit_status:
            return self.diagnosis.exit_status
        return EXIT_STATUS[self.reason]
