"""A flow that runs without a sign of life; only where the user has set a limit to that."""

from __future__ import annotations

from datetime import datetime, timedelta

from prefect_vertex.lifecycle.case import Case, cancel_or_wait
from prefect_vertex.lifecycle.decisions import Decision, Describe, Wait
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase

UNREAD_SECONDS = 60.0
"""Pause before signs that could not be read are asked for again."""


def watch(case: Case, job: JobSnapshot) -> Decision:
    """The run's container is at work; wait, or cancel a job that gives no sign of life.

    Signs that could not be read are no evidence.
    """
    limit = case.policy.stall_timeout_seconds
    if limit is None or not is_watched(case.run, job, case.policy):
        return Wait()
    due = stall_due(case.run, job, case.policy, case.notes.last_sign)
    if case.now < due:
        return Wait(until=due)
    if case.notes.last_sign is None:
        return Wait(until=case.now + timedelta(seconds=UNREAD_SECONDS))
    because = f"its flow gave no sign of life for {limit:g} s (stall_timeout_seconds)"
    decision = cancel_or_wait(case, job, because, TerminationReason.STALLED)
    if isinstance(decision, Wait) or case.fresh:
        return decision
    return Describe(job.resource_name)


def is_watched(run: RunView, job: JobSnapshot, policy: RunPolicy) -> bool:
    """Whether a limit is set, and the flow is at work in this job: not in a pause, nor leaving."""
    at_work = run.state is RunState.RUNNING and job.phase is JobPhase.RUNNING
    return at_work and policy.stall_timeout_seconds is not None


def stall_due(
    run: RunView, job: JobSnapshot, policy: RunPolicy, last_sign: datetime | None
) -> datetime:
    """When a run's silence has lasted too long, as far as its signs were read."""
    signs = [run.state_time, job.start_time or job.create_time]
    if last_sign is not None:
        signs.append(last_sign)
    return max(signs) + timedelta(seconds=policy.stall_timeout_seconds or 0.0)
