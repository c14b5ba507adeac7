"""Why this product itself cancelled a job, as far as that still holds.

The reason stands in the run's labels before the cancel is sent, so that it outlives the worker.
But a cancel may fail or never be sent, and the job go on: whatever ends it later is another matter.
"""

from __future__ import annotations

from prefect_vertex.lifecycle.case import Case, cancel_due, never_started
from prefect_vertex.lifecycle.decisions import Decision, Describe, Withdraw
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.stall import is_watched, stall_due
from prefect_vertex.lifecycle.states import JobPhase

_CANCELLED_CODE = 1
_OF_THE_WAIT = frozenset({TerminationReason.PROVISIONING_TIMEOUT, TerminationReason.START_TIMEOUT})
TIMEOUTS = _OF_THE_WAIT | {TerminationReason.STALLED}
_VERDICTS = {reason.value: reason for reason in [*TIMEOUTS, TerminationReason.SUPERSEDED]}


def own_verdict(case: Case, job: JobSnapshot) -> TerminationReason | None:
    """Why this product cancelled the job, if that is what ended it."""
    cancelled = job.phase is JobPhase.CANCELLED or (
        job.phase is JobPhase.FAILED and (job.error is None or job.error.code == _CANCELLED_CODE)
    )
    # A job that failed or succeeded by itself before the cancel reached it speaks for itself.
    return standing_verdict(case, job) if cancelled else None


def standing_verdict(case: Case, job: JobSnapshot) -> TerminationReason | None:
    """The reason that the run's labels give for cancelling the job, unless it is overtaken."""
    if is_stray(case, job):
        return TerminationReason.SUPERSEDED
    reason = _VERDICTS.get(case.run.verdict(job.attempt))
    if reason not in _OF_THE_WAIT or case.run.is_verdict_sent(job.attempt):
        return reason
    began = case.run.state is not RunState.PENDING or case.notes.rescheduled
    return None if began and not never_started(case, job) else reason


def is_stray(case: Case, job: JobSnapshot) -> bool:
    """Whether this product meant to cancel the job because another had its place."""
    return job.resource_name.job_id in case.run.strays


def withdraw(case: Case, job: JobSnapshot) -> Decision | None:
    """Take back the reason for a cancel that is wanted no more; None if there is none.

    Not on a list row's word: it may be from before the cancel.
    """
    if not _is_outdated(case, job):
        return None
    if not case.fresh:
        return Describe(job.resource_name)
    return Withdraw(job.resource_name, job.attempt)


def _is_outdated(case: Case, job: JobSnapshot) -> bool:
    if job.is_terminal or not cancel_due(job, case.policy, case.now, case.notes):
        # A cancel that was just sent may still show.
        return False
    if is_stray(case, job):
        return True
    waits = case.run.state is RunState.PENDING
    match _VERDICTS.get(case.run.verdict(job.attempt)):
        case TerminationReason.PROVISIONING_TIMEOUT:
            return not (waits and job.phase.is_waiting)
        case TerminationReason.START_TIMEOUT:
            return not waits
        case TerminationReason.STALLED:
            due = stall_due(case.run, job, case.policy, case.notes.last_sign)
            return case.now < due or not is_watched(case.run, job, case.policy)
        case _:
            return False
