"""What a flow run shows while its job lives, and how a CustomJob's states are read."""

from __future__ import annotations

from prefect_vertex.lifecycle.run import (
    AWAITING_STATE,
    PROVISIONING_STATE,
    QUEUED_STATE,
    SUBMITTING_STATE,
)
from prefect_vertex.lifecycle.states import PHASE_OF, JobPhase
from rendering.markdown import code, page, table

_RUN_STATES = (
    ("Scheduled", "Scheduled", "Waits for its time, or for a worker."),
    ("Pending", "Pending", "A worker has taken it."),
    (SUBMITTING_STATE, "Pending", "The worker is about to create its CustomJob."),
    (
        QUEUED_STATE,
        "Pending",
        "The job is created and queued; the message says in which location. It may wait for quota.",
    ),
    (PROVISIONING_STATE, "Pending", "Vertex AI prepares the job's machines and pulls the image."),
    (
        AWAITING_STATE,
        "Pending",
        (
            "Between two attempts of a run that has not started: the message says what was tried, "
            "and what is tried next, and when."
        ),
    ),
    ("Running", "Running", "The flow runs in the container; from here on it reports itself."),
    (
        "AwaitingRetry",
        "Scheduled",
        (
            "A run that had started was preempted, or rescheduled itself. It comes back through "
            "the pool, once its old job is gone."
        ),
    ),
    (
        "Cancelling",
        "Cancelling",
        "Somebody cancelled it. A flow that had started gets `cancel_grace_seconds` to end itself.",
    ),
    (
        "Cancelled",
        "Cancelled",
        (
            "A flow that is alive says it itself, and its job ends seconds later, as succeeded; "
            "else the worker says it, once the job is gone. "
            "Also the end of a run whose job somebody cancelled in Vertex AI. "
            "Prefect's server says it by itself after 300 s of Cancelling: then the job is still "
            "cancelled until it is gone."
        ),
    ),
    (
        "Crashed",
        "Crashed",
        (
            "The infrastructure failed; the message says which replica, why and what to do. Or the "
            "flow's process died in its container: then the message is "
            "[Prefect's own](troubleshooting/container.md"
            "#the-flows-process-died-prefects-own-words), and the job ends seconds later, as "
            "succeeded."
        ),
    ),
    ("Completed, Failed", "Completed, Failed", "The flow's own end, reported from the container."),
)
_SHOWN = {
    JobPhase.QUEUED: QUEUED_STATE,
    JobPhase.PROVISIONING: PROVISIONING_STATE,
    JobPhase.RUNNING: "Running, once the flow itself says so",
    JobPhase.CANCELLING: "as it was",
    JobPhase.PAUSED: "as it was",
    JobPhase.UNKNOWN: "as it was; taken for a live job",
    JobPhase.SUCCEEDED: "its own end; Crashed if it never reported one",
    JobPhase.FAILED: f"Crashed, {AWAITING_STATE} or AwaitingRetry, by the job's error",
    JobPhase.CANCELLED: "Cancelled; Crashed or tried elsewhere if the worker gave the job up",
    JobPhase.EXPIRED: "Crashed",
}


def states_page() -> str:
    """The states of flow runs, and of their jobs."""
    jobs = [(code(state), phase.value, _SHOWN[phase]) for state, phase in PHASE_OF.items()]
    return page(
        "# States",
        "## Of a flow run",
        table(("name", "type", "meaning"), _RUN_STATES),
        "A run that waits for machines keeps its deployment's concurrency slot, and its place in "
        "the limits of pool and queue.",
        "## Of its CustomJob",
        "The phase is the word of log lines, of events and of `prefect-vertex jobs`. A job's end "
        "says nothing about the flow: exit code 0 only means that the container ended.",
        table(("Vertex AI's state", "phase", "the flow run is then"), jobs),
    )
