"""Answers: attempts that came to nothing, read for what they say about their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from prefect_vertex.capacity.ledger import is_want_of_capacity
from prefect_vertex.capacity.refusals import (
    SCOPE_OF,
    Refusal,
    RefusalReason,
    Scope,
    When,
    classify,
)
from prefect_vertex.capacity.walk import MAX_MESSAGE_LENGTH, Trail, Try
from prefect_vertex.errors import ServiceError
from prefect_vertex.lifecycle.decisions import Crash
from prefect_vertex.lifecycle.outcomes import Diagnosis, JobOutcome, TerminationReason
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase

_WAITED_IN_VAIN = frozenset({TerminationReason.PROVISIONING_TIMEOUT, TerminationReason.INCOMPLETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An attempt that came to nothing before its container started.

    Attributes:
        begun_at: When its create was due, or its job created.
        ended_at: When it was over.
        otherwise: What ends the run where the walk knows no other way.
        had_job: Whether there ever was one.
        location: Where that was.
        serial: Of the trail as it was before; a later one has this answer in it.
    """

    attempt: int
    refusal: Refusal
    begun_at: datetime
    ended_at: datetime
    otherwise: Crash
    had_job: bool = False
    location: str = ""
    serial: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The due attempt's candidate, and the trail that leads there."""

    trail: Trail
    candidate: int


def refusal_of_job(job: JobSnapshot, otherwise: Crash) -> Refusal:
    """What a job that never started says about its place."""
    if otherwise.outcome.reason in _WAITED_IN_VAIN:
        # Ended by ourselves, which says nothing; the wait does.
        reason = RefusalReason.NO_ROOM
        return Refusal(reason, SCOPE_OF[reason], otherwise.message)
    error = job.error
    refusal = classify(
        when=When.BEFORE_START,
        job_code=error.code if error is not None else None,
        text=error.message if error is not None else "",
    )
    return refusal if refusal.message else replace(refusal, message=otherwise.message)


def try_of_started(job: JobSnapshot, candidate: int) -> Try:
    """An attempt whose container had started, as the ledger tells it."""
    if job.phase is JobPhase.FAILED:
        error = job.error
        refusal = classify(
            when=When.AFTER_START,
            job_code=error.code if error is not None else None,
            text=error.message if error is not None else "",
        )
    else:
        # It left, or was made to, because the run was back with the workers.
        reason = RefusalReason.RESCHEDULED
        refusal = Refusal(reason, SCOPE_OF[reason], job.error.message if job.error else "")
    return Try(
        attempt=job.attempt,
        candidate=candidate,
        begun_at=job.create_time,
        ended_at=job.end_time or job.observed_at,
        reason=refusal.reason,
        message=refusal.message[:MAX_MESSAGE_LENGTH],
    )


def refusal_of_create(error: ServiceError) -> Refusal:
    """What a create that was refused for certain says about its place."""
    return classify(
        when=When.AT_CREATE,
        error_reason=error.verdict.reason,
        grpc_code=error.code,
        text=_words_of(error),
    )


def refusal_of_failed(error: ServiceError) -> Refusal:
    """What creates say that came to nothing in one place, though none was refused for good.

    The words may say it: a stockout comes as UNAVAILABLE too.
    """
    refusal = refusal_of_create(error)
    if refusal.scope is not Scope.AGAIN_THEN_HOP:
        return refusal
    reason = RefusalReason.AILING
    return Refusal(reason, SCOPE_OF[reason], refusal.message)


def may_be_sent_again(error: ServiceError) -> bool:
    """Whether the same place may answer otherwise the next time, by all that was said."""
    return refusal_of_create(error).scope in {Scope.AGAIN_THEN_HOP, Scope.SAME_LATER}


def _words_of(error: ServiceError) -> str:
    """The service's own words: the name of a status says less than they do, and may mislead."""
    return error.verdict.words or error.message


def reason_of_end(trail: Trail, names: Sequence[str]) -> TerminationReason:
    """Why a walk came to nothing, for those who are told of its end."""
    reasons = {each.reason for each in trail.last_answers.values()}
    if reasons == {RefusalReason.ACCESS}:
        return TerminationReason.PERMISSION
    if not is_want_of_capacity(trail, names):
        return TerminationReason.UNKNOWN
    only_quota = reasons == {RefusalReason.QUOTA}
    return TerminationReason.QUOTA if only_quota else TerminationReason.NO_CAPACITY


def crash_for(message: str) -> Crash:
    """The end of a run that cannot be asked for; the message says why."""
    reason = TerminationReason.UNKNOWN
    diagnosis = Diagnosis(reason=reason, summary=message)
    return Crash(JobOutcome(reason=reason, diagnosis=diagnosis), message)
