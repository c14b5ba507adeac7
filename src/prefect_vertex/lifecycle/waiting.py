"""Runs that wait for a container: Pending ones, and those put back to Scheduled."""

from __future__ import annotations

from datetime import timedelta

from prefect_vertex.lifecycle.absence import (
    confirm,
    crash_if_gone,
    is_gone,
    look_again,
    lost_before,
    settled_without_job,
    was_seen,
)
from prefect_vertex.lifecycle.case import Case, cancel_or_wait, never_started, outcome_of
from prefect_vertex.lifecycle.decisions import (
    Crash,
    Create,
    Decision,
    Describe,
    HandBack,
    Requeue,
    Reschedule,
    Settle,
    Show,
    Wait,
)
from prefect_vertex.lifecycle.history import REQUEUED
from prefect_vertex.lifecycle.outcomes import Diagnosis, TerminationReason
from prefect_vertex.lifecycle.own import standing_verdict, withdraw
from prefect_vertex.lifecycle.run import (
    PROVISIONING_STATE,
    QUEUED_STATE,
    RunState,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.lifecycle.verdicts import judge, judge_rescheduled


def decide_pending(case: Case) -> Decision:
    """The run is Pending."""
    newest = case.job.attempt if case.job is not None else 0
    if case.notes.due_attempt > newest:
        return _due(case)
    if case.job is None or newest < case.run.attempt or _waits_for_next(case):
        return _without_job(case)
    if case.job.is_terminal:
        return judge(case, case.job)
    return _with_job(case, case.job)


def _waits_for_next(case: Case) -> bool:
    """Whether the known job, though the newest that was announced, is not what it waits for."""
    newest = case.job.attempt if case.job is not None else 0
    if newest and newest == case.notes.untold:
        return False
    return case.run.waits_for_next and newest <= case.run.attempt


def _due(case: Case) -> Decision:
    """This process is to create an attempt; the one before it has to be over and understood."""
    job = case.job
    if (decision := _after_lost(case)) is not None:
        return decision
    if job is None:
        return Create(case.notes.due_attempt)
    if not job.is_terminal:
        due = case.run.state_time + timedelta(seconds=case.policy.cancel_grace_seconds)
        if case.now < due:
            return Wait(until=due)
        # Only what goes on by itself is judged by its last end, so only that needs a reason.
        follows = case.notes.rescheduled or case.notes.continues
        anew = follows and standing_verdict(case, job) is None
        verdict = TerminationReason.SUPERSEDED if anew else None
        return _give_up(case, job, "its flow run was submitted again", verdict)
    if job.attempt <= case.notes.answered:
        return Create(case.notes.due_attempt)
    if case.notes.continues and never_started(case, job):
        decision = judge(case, job)
        if not isinstance(decision, Reschedule):
            return decision
    elif case.notes.rescheduled:
        decision = judge_rescheduled(case, job)
        if not isinstance(decision, Settle | HandBack):
            return decision
    return Create(case.notes.due_attempt)


def _after_lost(case: Case) -> Decision | None:
    """What to do first where the job of the attempt before is gone without a word."""
    if case.notes.vanished and case.notes.rescheduled:
        return _crash_vanished(case)
    newest = case.job.attempt if case.job is not None else 0
    lost = lost_before(case.notes.due_attempt, newest, case.notes.absences.values())
    if lost is None or lost.confirmed:
        return None
    # Its container may be at work still.
    return confirm(lost, case.now)


def _crash_vanished(case: Case) -> Decision:
    """Its container rescheduled the run, and nobody knows why it was asked to end."""
    diagnosis = Diagnosis(
        reason=TerminationReason.DISAPPEARED,
        summary=(
            f"The CustomJob of attempt {case.notes.due_attempt - 1} had started the flow run and "
            "was deleted in Vertex AI, outside Prefect, before its end was seen."
        ),
        resolution="Run it again if it was not meant to be stopped.",
    )
    return Crash(outcome_of(diagnosis.reason, None, diagnosis), diagnosis.message)


def _without_job(case: Case) -> Decision:
    """Somebody moved the run to Pending, and no job of its attempt is known."""
    announced = case.run.attempt > 0 and not _waits_for_next(case)
    # A name alone may be an earlier attempt's, while its holder is about to create the next.
    if announced and (was_seen(case) or (is_gone(case) and case.notes.holder_gone)):
        gone = crash_if_gone(case)
        if gone is not None:
            return gone
    if not case.notes.holder_gone:
        # Its holder is submitting it, or will be seen to be gone.
        return Wait()
    settled = case.run.settled_attempt >= case.run.attempt or settled_without_job(case)
    if announced and not settled:
        return look_again(case)
    if not case.run.others_can_run:
        return _crash_unsent(case)
    return Requeue(REQUEUED)


def _crash_unsent(case: Case) -> Decision:
    """Put to Scheduled, an ad-hoc run would lack the code to run, or run that of another try."""
    diagnosis = Diagnosis(
        reason=TerminationReason.NEVER_STARTED,
        summary="The process that submitted this flow run stopped before it had a CustomJob.",
        resolution="Submit it again.",
    )
    return Crash(outcome_of(diagnosis.reason, case.job, diagnosis), diagnosis.message)


def _with_job(case: Case, job: JobSnapshot) -> Decision:
    if job.phase.is_waiting:
        limit = case.policy.provisioning_timeout_seconds
        if limit is None or case.now < job.create_time + timedelta(seconds=limit):
            return _show_waiting(case, job)
        because = f"it had no machines after {limit:g} s (provisioning_timeout_seconds)"
        return _give_up(case, job, because, TerminationReason.PROVISIONING_TIMEOUT)
    if job.phase is JobPhase.RUNNING:
        grace = case.policy.start_grace_seconds
        due = (job.start_time or job.create_time) + timedelta(seconds=grace)
        if case.now < due:
            return withdraw(case, job) or Wait(until=due)
        because = f"the flow run had not started {grace:g} s after its job (start_grace_seconds)"
        return _give_up(case, job, because, TerminationReason.START_TIMEOUT)
    return Wait()


def _give_up(
    case: Case, job: JobSnapshot, because: str, verdict: TerminationReason | None
) -> Decision:
    """Cancel a job that takes too long, but never on the word of a list row."""
    decision = cancel_or_wait(case, job, because, verdict)
    if isinstance(decision, Wait) or case.fresh:
        return decision
    return Describe(job.resource_name)


def _show_waiting(case: Case, job: JobSnapshot) -> Decision:
    """Say what the run waits for; always queued first, as the server takes no name twice."""
    shown = case.run.state_name
    wanted = PROVISIONING_STATE if job.phase is JobPhase.PROVISIONING else QUEUED_STATE
    if wanted == PROVISIONING_STATE and shown not in {QUEUED_STATE, PROVISIONING_STATE}:
        wanted = QUEUED_STATE
    if shown == wanted:
        limit = case.policy.provisioning_timeout_seconds
        return Wait(until=None if limit is None else job.create_time + timedelta(seconds=limit))
    if case.now - job.observed_at > timedelta(seconds=case.policy.fresh_seconds):
        return Describe(job.resource_name)
    what = "is queued" if wanted == QUEUED_STATE else "is getting its machines"
    number, where = job.resource_name.job_id, job.resource_name.location
    return Show(wanted, f"CustomJob {number} {what} in {where}.")


def decide_scheduled(case: Case) -> Decision:
    """The run is Scheduled: to run for the first time, again, or rescheduled by its container."""
    job, previous = case.job, case.run.previous
    if job is not None and not job.is_terminal:
        return _scheduled_with_job(case, job)
    if previous is not RunState.RUNNING:
        # Not put there by the attempt's container: a person's retry, a resume, a fresh schedule.
        return Settle(outcome_of(TerminationReason.COMPLETED, job))
    if job is not None and job.attempt >= case.run.attempt:
        return judge_rescheduled(case, job)
    if not case.run.retries_in_process:
        # Whoever takes it looks for its job first.
        return Settle(outcome_of(TerminationReason.COMPLETED, job))
    if is_gone(case) or settled_without_job(case):
        return HandBack(outcome_of(TerminationReason.DISAPPEARED, job))
    return look_again(case)


def _scheduled_with_job(case: Case, job: JobSnapshot) -> Decision:
    """No new attempt before the old job is gone and its end is understood."""
    previous = case.run.previous
    if previous is None or not previous.is_final:
        return Wait()
    due = case.run.state_time + timedelta(seconds=case.policy.cancel_grace_seconds)
    if case.now < due:
        return Wait(until=due)
    return cancel_or_wait(case, job, "its flow run had ended and was scheduled again")
