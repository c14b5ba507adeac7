"""What a terminal job means for a run that has not ended."""

from __future__ import annotations

from datetime import timedelta

from prefect_vertex.lifecycle.case import Case, never_started, outcome_of
from prefect_vertex.lifecycle.decisions import (
    Crash,
    Decision,
    Describe,
    HandBack,
    Hop,
    MarkCancelled,
    Reschedule,
    Settle,
    Wait,
)
from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.outcomes import RESTARTABLE, Diagnosis, TerminationReason
from prefect_vertex.lifecycle.own import TIMEOUTS, is_stray, own_verdict
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase

_OF_A_CONTAINER = frozenset(
    {
        TerminationReason.COMPLETED,
        TerminationReason.NEVER_STARTED,
        TerminationReason.UNREPORTED,
        TerminationReason.OUT_OF_MEMORY,
        TerminationReason.CANNOT_START,
        TerminationReason.RESTARTED,
        TerminationReason.PREFECT_UNREACHABLE,
        TerminationReason.TIMED_OUT,
    },
)
"""Ends that only a container can have brought about."""


def judge(case: Case, job: JobSnapshot) -> Decision:
    """The job is over and its run is Pending, Running or in a blocking pause."""
    if (pending := until_explained(case, job)) is not None:
        return pending
    if (verdict := own_verdict(case, job)) in TIMEOUTS:
        crash = _crash_by_verdict(case, job, verdict)
        no_machines = verdict is TerminationReason.PROVISIONING_TIMEOUT
        return _or_hop(case, job, crash) if no_machines else crash
    diagnosis = _diagnosis(case, job, verdict)
    reason = diagnosis.reason
    if reason is TerminationReason.CANCELLED_OUTSIDE:
        return MarkCancelled(outcome_of(reason, job, diagnosis), diagnosis.message)
    if reason in {TerminationReason.PREEMPTED, TerminationReason.SUPERSEDED} or (
        # The platform starts a preempted container again by itself.
        reason is TerminationReason.RESTARTED and case.policy.spot
    ):
        if _restarts(case, job) >= case.policy.max_restarts:
            return _crash_after_restarts(case, job, diagnosis)
        if not case.run.others_can_run:
            return _crash_for_good(job, diagnosis)
        return Reschedule(outcome_of(reason, job, diagnosis), diagnosis.summary)
    if reason is TerminationReason.COMPLETED:
        diagnosis = _unreported(case, job)
    crash = Crash(outcome_of(diagnosis.reason, job, diagnosis), diagnosis.message)
    return crash if _is_containers(diagnosis) else _or_hop(case, job, crash)


def judge_rescheduled(case: Case, job: JobSnapshot) -> Decision:
    """The job is over and its container had put the run back to Scheduled.

    That was a claim; the job's end is the verdict.  Nothing loops for ever, and a job that somebody
    stopped to stop the bill stays stopped.
    """
    if (pending := until_explained(case, job)) is not None:
        return pending
    never = never_started(case, job)
    if (verdict := own_verdict(case, job)) in TIMEOUTS and not never:
        return _crash_by_verdict(case, job, verdict)
    # A job that never began has rescheduled nothing: an earlier one had.
    diagnosis = _diagnosis(case, job, verdict, rescheduled=not never)
    outcome = outcome_of(diagnosis.reason, job, diagnosis)
    if diagnosis.reason is TerminationReason.CANCELLED_OUTSIDE:
        return MarkCancelled(outcome, diagnosis.message)
    unstarted = never and not _is_containers(diagnosis)
    if not unstarted and diagnosis.reason not in RESTARTABLE:
        return Crash(outcome, diagnosis.message)
    # What never began was no restart: whoever takes the run goes on with its walk.
    if not unstarted and _restarts(case, job) >= case.policy.max_restarts:
        return _crash_after_restarts(case, job, diagnosis)
    if case.run.retries_in_process:
        return HandBack(outcome)
    return Settle(outcome)


def until_explained(case: Case, job: JobSnapshot) -> Decision | None:
    """Describe a terminal job until its error is there, or too late; None once it is explained."""
    if not job.described:
        return Describe(job.resource_name)
    if job.phase not in {JobPhase.FAILED, JobPhase.CANCELLED} or job.error is not None:
        return None
    if job.phase is JobPhase.CANCELLED and own_verdict(case, job) is not None:
        # It is known why it ended; its error could only repeat that.
        return None
    ended = job.end_time or case.notes.ended.get(job.resource_name.key, job.observed_at)
    late = ended + timedelta(seconds=case.policy.error_settle_seconds)
    if job.observed_at >= late:
        return None
    due = min(job.observed_at + timedelta(seconds=case.policy.error_look_seconds), late)
    return Describe(job.resource_name) if case.now >= due else Wait(until=due)


def _or_hop(case: Case, job: JobSnapshot, crash: Crash) -> Decision:
    """Leave it to the walk where no container has begun; the run's state says so at once."""
    if case.run.state is not RunState.PENDING or not never_started(case, job):
        return crash
    if not case.fresh:
        return Describe(job.resource_name)
    return Hop(job.resource_name, job.attempt, crash)


def _is_containers(diagnosis: Diagnosis) -> bool:
    """Whether a container brought the end about, which then had begun."""
    if diagnosis.reason is TerminationReason.INCOMPLETE:
        # Its bootstrap says itself that it ran nothing.
        return False
    named = bool(diagnosis.replica) or diagnosis.exit_status is not None
    return named or diagnosis.reason in _OF_A_CONTAINER


def _restarts(case: Case, job: JobSnapshot) -> int:
    """How often the run began anew, its job's attempt included."""
    known = case.notes.restarts
    return job.attempt - 1 if known is None else known


def _diagnosis(
    case: Case, job: JobSnapshot, verdict: TerminationReason | None, *, rescheduled: bool = False
) -> Diagnosis:
    """The job, explained; if we cancelled it, by that, unless its time was over by then."""
    # What a scheduled run tells of is an earlier start, perhaps another job's.
    started = case.run.state not in {RunState.PENDING, RunState.SCHEDULED}
    found = diagnose(job, case.policy, rescheduled=rescheduled, started=started)
    if verdict is None or found.reason is TerminationReason.TIMED_OUT:
        return found
    number = job.resource_name.job_id
    summary = (
        f"CustomJob {number} was cancelled as its container began, because another has its place."
        if is_stray(case, job)
        else f"CustomJob {number} was cancelled after its container had rescheduled the flow run "
        "and did not leave."
    )
    return Diagnosis(reason=TerminationReason.SUPERSEDED, summary=summary)


def _unreported(case: Case, job: JobSnapshot) -> Diagnosis:
    number = job.resource_name.job_id
    if case.run.state is RunState.PENDING:
        return Diagnosis(
            reason=TerminationReason.NEVER_STARTED,
            summary=f"CustomJob {number} ended without starting the flow.",
            resolution="Check that its command runs `prefect flow-run execute`.",
        )
    return Diagnosis(
        reason=TerminationReason.UNREPORTED,
        summary=f"CustomJob {number} ended, and its flow run never reported an end.",
        resolution="Check that the container could reach the Prefect API until its last moment.",
    )


def _crash_by_verdict(case: Case, job: JobSnapshot, reason: TerminationReason | None) -> Crash:
    number = job.resource_name.job_id
    if reason is TerminationReason.PROVISIONING_TIMEOUT:
        limit = case.policy.provisioning_timeout_seconds
        figure = f"{limit:g} s" if limit is not None else "the time allowed"
        summary = f"CustomJob {number} had no machines after {figure} and was cancelled."
        resolution = "Raise provisioning_timeout_seconds, or try another region or machine_type."
    elif reason is TerminationReason.STALLED:
        limit = case.policy.stall_timeout_seconds
        figure = f"{limit:g} s" if limit is not None else "the time allowed"
        summary = (
            f"CustomJob {number} was cancelled, because its flow gave no sign of life for {figure}."
        )
        resolution = "Look at its log for where it hangs, or raise stall_timeout_seconds."
    else:
        reason = TerminationReason.START_TIMEOUT
        summary = (
            f"CustomJob {number} ran, but the flow run had not started after "
            f"{case.policy.start_grace_seconds:g} s; the job was cancelled."
        )
        resolution = (
            "Check that PREFECT_API_URL can be reached from the job's network, the image, "
            "prefect_api_key_secret and the job's log, or raise start_grace_seconds."
        )
    diagnosis = Diagnosis(reason=reason, summary=summary, resolution=resolution)
    return Crash(outcome_of(reason, job, diagnosis), diagnosis.message)


def _crash_for_good(job: JobSnapshot, diagnosis: Diagnosis) -> Crash:
    message = (
        f"{diagnosis.summary} Only the process that retried the flow run knows where its code is, "
        f"so no worker begins another attempt: retry it again.\n{diagnosis.detail}"
    )
    return Crash(outcome_of(diagnosis.reason, job, diagnosis), message.strip())


def _crash_after_restarts(case: Case, job: JobSnapshot, diagnosis: Diagnosis) -> Crash:
    message = (
        f"{diagnosis.summary} It was attempt {job.attempt}; "
        f"capacity.max_restarts allows {case.policy.max_restarts} new ones.\n{diagnosis.detail}"
    )
    return Crash(outcome_of(diagnosis.reason, job, diagnosis), message.strip())
