"""`decide`: from one look at a run and its jobs to the one next thing to do.

Pure and total: any run state, any job states, in any order of events, after any loss of memory.
Losing the `Notes` costs time, never a run.  The table that a reader can check by eye is
tests/lifecycle/test_decide.py; the rules and their reasons are in docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from prefect_vertex.lifecycle.absence import (
    crash_if_gone,
    identifier_of,
    is_gone,
    look_again,
    settled_without_job,
    unseen,
)
from prefect_vertex.lifecycle.case import (
    CONFIRM_SECONDS,
    NO_NOTES,
    Case,
    Notes,
    cancel_due,
    cancel_or_wait,
    confirmed,
    outcome_of,
)
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Decision,
    Describe,
    Look,
    MarkCancelled,
    Settle,
    Show,
    Wait,
    Withdraw,
)
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.own import withdraw
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.stall import watch
from prefect_vertex.lifecycle.verdicts import judge
from prefect_vertex.lifecycle.waiting import decide_pending, decide_scheduled


def decide(
    run: RunView | None,
    jobs: Sequence[JobSnapshot],
    policy: RunPolicy,
    now: datetime,
    notes: Notes = NO_NOTES,
) -> Decision:
    """Say what to do next for one run.

    Args:
        run: As read after its jobs were; None if the Prefect API has no such run.
        jobs: The last look at every job of the run that is known, in any order.
        policy: The run's own patience.
        now: Aware.  The run and its jobs are dated by the same clock, see `clocks`.
        notes: This process's memory.
    """
    ours = _ours(run, jobs)
    speaker, strays = _speaker(ours, notes)
    for stray in strays:
        if cancel_due(stray, policy, now, notes):
            because = "another job has its place"
            return CancelJob(stray.resource_name, stray.attempt, because, stray=True)
    if run is None:
        decision = _decide_deleted(speaker, policy, now, notes)
    else:
        case = Case(run=run, job=speaker, policy=policy, now=now, notes=notes)
        decision = _decide_existing(case, ours)
    return _after_strays(decision, policy, now) if strays else decision


def _ours(run: RunView | None, jobs: Sequence[JobSnapshot]) -> list[JobSnapshot]:
    """Jobs of this product, and the one that the run names, whoever created that.

    A flow may start CustomJobs of its own and label them with its flow run: they have no attempt.
    """
    name = identifier_of(run) if run is not None else None
    key = name.key if name is not None else None
    return [job for job in jobs if job.attempt or job.resource_name.key == key]


def _speaker(
    jobs: Sequence[JobSnapshot],
    notes: Notes,
) -> tuple[JobSnapshot | None, list[JobSnapshot]]:
    """The job whose end counts, and the live ones that nobody should wait for.

    The highest attempt counts.  Of two jobs for one attempt the one that a container's start claim
    names stays, and while there is none the older.
    """

    def rank(job: JobSnapshot) -> tuple[int, bool, float, int, tuple[str, str]]:
        job_id = job.resource_name.job_id
        claimed = bool(notes.claimed_job_id) and job_id == notes.claimed_job_id
        age = -job.create_time.timestamp()
        number = int(job_id) if job_id.isascii() and job_id.isdigit() else 0
        return (job.attempt, claimed, age, -number, job.resource_name.key)

    ordered = sorted(jobs, key=rank)
    if not ordered:
        return None, []
    return ordered[-1], [job for job in ordered[:-1] if not job.is_terminal]


def _after_strays(decision: Decision, policy: RunPolicy, now: datetime) -> Decision:
    """Nothing ends or begins while a job that lost its place still lives."""
    if isinstance(decision, CancelJob | Withdraw | Describe | Look | Show):
        return decision
    again = now + timedelta(seconds=policy.cancel_repeat_seconds)
    until = decision.until if isinstance(decision, Wait) else None
    return Wait(until=again if until is None else min(until, again))


def _decide_existing(case: Case, jobs: Sequence[JobSnapshot]) -> Decision:
    if case.run.is_final:
        return _decide_final(case)
    if (step := unseen(case, jobs)) is not None:
        return step
    return _BY_STATE[case.run.state](case)


# --- the run is gone or has ended: its job has to end too -----------------------------------------


def _decide_deleted(
    job: JobSnapshot | None,
    policy: RunPolicy,
    now: datetime,
    notes: Notes,
) -> Decision:
    if not confirmed(notes.gone):
        # One "not found" may be a hiccup of a server behind a balancer; two, apart, are not.
        since = notes.gone[0] if notes.gone else now
        return Wait(until=since + timedelta(seconds=CONFIRM_SECONDS))
    if job is None or job.is_terminal:
        return Settle(outcome_of(TerminationReason.DISAPPEARED, job))
    if cancel_due(job, policy, now, notes):
        return CancelJob(job.resource_name, job.attempt, "its flow run was deleted")
    return Wait(until=now + timedelta(seconds=policy.cancel_repeat_seconds))


def _decide_final(case: Case) -> Decision:
    cancelled = case.run.state is RunState.CANCELLED
    if case.job is None or case.job.is_terminal:
        reason = TerminationReason.CANCELLED if cancelled else TerminationReason.COMPLETED
        return Settle(outcome_of(reason, case.job))
    due = case.run.state_time + timedelta(seconds=case.policy.cancel_grace_seconds)
    has_run = case.job.start_time is not None or not case.job.phase.is_waiting
    if has_run and case.now < due:
        # The container is on its way out: it reports the end, then leaves.
        return Wait(until=due)
    return cancel_or_wait(case, case.job, f"its flow run is {case.run.state_name}")


# --- the run is under way -------------------------------------------------------------------------


def _decide_running(case: Case) -> Decision:
    if case.job is not None and case.job.attempt >= case.run.attempt:
        if case.job.is_terminal:
            return judge(case, case.job)
        return withdraw(case, case.job) or watch(case, case.job)
    # No job in sight is no outcome, unless the one that the run names is gone for certain.
    if (gone := crash_if_gone(case)) is not None:
        return gone
    return look_again(case) if case.run.attempt else Wait()


def _decide_paused(case: Case) -> Decision:
    if not case.run.suspended:
        return _decide_running(case)
    if case.live:
        return Wait()
    return Settle(outcome_of(TerminationReason.COMPLETED, case.job))


# --- the run is to be cancelled -------------------------------------------------------------------


def _decide_cancelling(case: Case) -> Decision:
    job = case.job
    if job is None or job.attempt < case.run.attempt:
        return _cancelled_without_job(case)
    if job.is_terminal and not job.described:
        return Describe(job.resource_name)
    if job.is_terminal:
        outcome = outcome_of(TerminationReason.CANCELLED, job)
        return MarkCancelled(outcome, f"CustomJob {job.resource_name.job_id} is gone.")
    due = case.run.state_time + timedelta(seconds=case.policy.cancel_grace_seconds)
    if case.run.previous in {RunState.RUNNING, RunState.PAUSED} and case.now < due:
        # The runner in the container cancels the flow itself, with the user's hooks.
        return Wait(until=due)
    return cancel_or_wait(case, job, "its flow run is being cancelled")


def _cancelled_without_job(case: Case) -> Decision:
    if case.live:
        # An earlier attempt's job, on its way out, must not outlive the run either.
        job = case.job
        if job is not None:
            return cancel_or_wait(case, job, "its flow run is being cancelled")
    refused = case.run.settled_attempt >= case.run.attempt
    never_sent = refused or case.notes.nothing_sent
    if never_sent or is_gone(case) or settled_without_job(case):
        outcome = outcome_of(TerminationReason.CANCELLED, None)
        return MarkCancelled(outcome, "The flow run was cancelled; it has no CustomJob.")
    return look_again(case)


_BY_STATE = {
    RunState.SCHEDULED: decide_scheduled,
    RunState.PENDING: decide_pending,
    RunState.RUNNING: _decide_running,
    RunState.PAUSED: _decide_paused,
    RunState.CANCELLING: _decide_cancelling,
}
