"""What events say of a job and of a run's end: as payloads, from the same values as everything."""

from __future__ import annotations

from datetime import datetime

from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.outcomes import Diagnosis, JobOutcome, TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase

CRASHED_EVENT = "prefect-vertex.run.crashed"
"""A run was Crashed by this product; its reason says why."""


def phase_event(job: JobSnapshot, policy: RunPolicy) -> dict[str, str]:
    """What the event of a job's phase says; an ended job's has its reason, once that is known."""
    payload = {
        "resource_name": str(job.resource_name),
        "display_name": job.display_name,
        "location": job.resource_name.location,
        "state": job.state,
        "attempt": str(job.attempt),
    }
    return payload | _about(diagnose(job, policy)) if job.is_terminal else payload


def entered_at(job: JobSnapshot) -> datetime | None:
    """When the job entered its phase, by its own times; None: it keeps no time of that."""
    if job.is_terminal:
        return job.end_time
    if job.phase is JobPhase.RUNNING:
        return job.start_time
    return job.create_time if job.phase is JobPhase.QUEUED else None


def crash_event(outcome: JobOutcome, job: JobSnapshot | None, message: str) -> dict[str, str]:
    """What the event of a run's crash says."""
    payload = {"reason": outcome.reason.value, "message": message.partition("\n")[0]}
    if job is not None:
        payload |= {
            "resource_name": str(job.resource_name),
            "display_name": job.display_name,
            "location": job.resource_name.location,
            "attempt": str(job.attempt),
        }
    return payload | (_about(outcome.diagnosis) if outcome.diagnosis is not None else {})


def _about(diagnosis: Diagnosis) -> dict[str, str]:
    known = {
        "reason": "" if diagnosis.reason is TerminationReason.UNKNOWN else diagnosis.reason.value,
        "replica": diagnosis.replica,
        "exit_status": "" if diagnosis.exit_status is None else str(diagnosis.exit_status),
        "resolution": diagnosis.resolution,
    }
    return {key: value for key, value in known.items() if value}
