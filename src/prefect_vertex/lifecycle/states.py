"""JobPhase, our word for a CustomJob's state, and the total table from Vertex AI's words to it.

Source of the states and their meanings: google.cloud.aiplatform_v1 JobState (2.7.0, read 2026-11).
"""

from __future__ import annotations

from enum import Enum

_TERMINAL = frozenset({"succeeded", "failed", "cancelled", "expired"})


class JobPhase(Enum):
    """Where a CustomJob stands, as far as a decision needs to know."""

    QUEUED = "queued"
    """Accepted; waits for quota."""
    PROVISIONING = "provisioning"
    """Machines and images are being prepared (Vertex AI: PENDING)."""
    RUNNING = "running"
    """Every replica has a machine."""
    CANCELLING = "cancelling"
    """Asked to end; may still end in any terminal phase."""
    PAUSED = "paused"
    """Never seen for a CustomJob; live, shown to the user, left alone."""
    SUCCEEDED = "succeeded"
    """The primary replica exited 0. Says nothing about the flow run."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNKNOWN = "unknown"
    """A state newer than the table; taken for live, because only an end is irreversible."""

    is_terminal: bool
    """Whether the job can change no more; an attribute, because each row of each list is asked."""

    def __init__(self, word: str) -> None:
        self.is_terminal = word in _TERMINAL

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no machine yet."""
        return self in {JobPhase.QUEUED, JobPhase.PROVISIONING}


PHASE_OF: dict[str, JobPhase] = {
    "JOB_STATE_UNSPECIFIED": JobPhase.UNKNOWN,
    "JOB_STATE_QUEUED": JobPhase.QUEUED,
    "JOB_STATE_PENDING": JobPhase.PROVISIONING,
    "JOB_STATE_RUNNING": JobPhase.RUNNING,
    "JOB_STATE_SUCCEEDED": JobPhase.SUCCEEDED,
    "JOB_STATE_FAILED": JobPhase.FAILED,
    "JOB_STATE_CANCELLING": JobPhase.CANCELLING,
    "JOB_STATE_CANCELLED": JobPhase.CANCELLED,
    "JOB_STATE_PAUSED": JobPhase.PAUSED,
    "JOB_STATE_EXPIRED": JobPhase.EXPIRED,
    # Documented as a running job that is being changed; it returns to RUNNING.
    "JOB_STATE_UPDATING": JobPhase.RUNNING,
    # Batch prediction's word for an end with some results; the flow run's own state decides.
    "JOB_STATE_PARTIALLY_SUCCEEDED": JobPhase.SUCCEEDED,
}

TERMINAL_STATES: tuple[str, ...] = tuple(
    sorted(state for state, phase in PHASE_OF.items() if phase.is_terminal),
)
"""What a list of live jobs excludes, one by one, so that a state newer than the table stays in."""


def phase_of(state: str) -> JobPhase:
    """The phase of a job state's name, `JobPhase.UNKNOWN` for one newer than the table."""
    return PHASE_OF.get(state, JobPhase.UNKNOWN)
