"""Find-or-create: how one attempt gets exactly one job, whatever is lost on the way.

The service has no idempotency token.  So a create is sent once; after an answer that says nothing
the job is looked for, and only when enough looks over enough time found none is the same attempt
sent once more, under the same name; or elsewhere, which takes the same certainty.  The budget is
one of time, so that an outage of minutes loses no run.  Pure: what was tried goes in, the next
thing to try comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from math import ceil

from prefect_vertex.errors import (
    QuotaExceededError,
    RateLimitedError,
    ServiceError,
    ServiceUnavailableError,
)
from prefect_vertex.lifecycle.policy import RunPolicy

BACKOFF_SECONDS = 5.0
BACKOFF_MAX_SECONDS = 60.0
RETRY_MAX_SECONDS = 86_400.0
"""Longest pause that is waited for on the service's own word."""
LOOK_AFTER_SECONDS: Sequence[float] = (1.0, 5.0, 20.0, 60.0)
"""When to look after a lost answer; then each minute.  The list may lag, so soon and late."""
MAX_UNANSWERED = 2
"""Creates in one place that may come to nothing without a refusal, before another place is due."""


class Aftermath(Enum):
    """What an error of a create leaves behind."""

    RETRY = "retry"
    """Refused for now, and certainly without effect."""
    ASK_FIRST = "ask-first"
    """Unknown: the job may exist."""
    GIVE_UP = "give-up"
    """Refused for good, and certainly without effect."""


def aftermath_of(error: ServiceError) -> Aftermath:
    """What to do after a create that failed with this error."""
    if isinstance(error, QuotaExceededError):
        return Aftermath.RETRY
    if isinstance(error, ServiceUnavailableError):
        return Aftermath.ASK_FIRST
    return Aftermath.GIVE_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was tried for one attempt.

    Attributes:
        begun_at: When the attempt was first due.
        refusals: How often it was refused for now, in a row.
        retry_at: When to send again after a refusal.
        unanswered_at: When the last create was sent whose effect is unknown; None if all is known.
        unanswered: How many creates there were whose effect was unknown.
        looks: When its job was looked for since, in vain.
        error: The last error's message, for the user.
        cause: The last error.
    """

    attempt: int
    begun_at: datetime
    refusals: int = 0
    retry_at: datetime | None = None
    unanswered_at: datetime | None = None
    unanswered: int = 0
    looks: tuple[datetime, ...] = ()
    error: str = ""
    cause: ServiceError | None = field(default=None, compare=False)

    @property
    def nothing_sent(self) -> bool:
        """Whether no create is out whose effect is unknown."""
        return self.unanswered_at is None


@dataclass(frozen=True, slots=True)
class Send:
    """Send the create."""


@dataclass(frozen=True, slots=True)
class Find:
    """Look for the job by its label."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Try again at this time."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """It is certain that the last create left no job; `again` while one more may be sent here."""

    again: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The budget is spent; `may_exist` while it is not known whether the job does."""

    message: str
    may_exist: bool = False


Step = Send | Find | Hold | Settled | GiveUp


def next_step(submission: Submission, policy: RunPolicy, now: datetime) -> Step:
    """Say what to try next."""
    spent = (now - submission.begun_at).total_seconds()
    if submission.unanswered_at is not None:
        if _settled(submission, policy, now):
            in_time = spent + _settle_seconds(policy) <= policy.create_budget_seconds
            return Settled(again=in_time and submission.unanswered < MAX_UNANSWERED)
        if spent >= policy.create_budget_seconds:
            return GiveUp(_may_exist(submission, policy), may_exist=True)
        due = _next_look(submission, submission.unanswered_at)
        return Find() if now >= due else Hold(due)
    if spent >= policy.create_budget_seconds and submission.error:
        return GiveUp(f"{submission.error} Tried for {policy.create_budget_seconds:g} s.")
    if submission.retry_at is not None and now < submission.retry_at:
        # Not past the end of the budget: another place may be due by then.
        end = submission.begun_at + timedelta(seconds=policy.create_budget_seconds)
        return Hold(min(submission.retry_at, end))
    return Send()


def after_error(submission: Submission, error: ServiceError, now: datetime) -> Submission:
    """Record a create that failed, but not for good."""
    text = " ".join(part for part in (error.message, error.hint) if part)
    if aftermath_of(error) is Aftermath.ASK_FIRST:
        return Submission(
            attempt=submission.attempt,
            begun_at=submission.begun_at,
            unanswered_at=now,
            unanswered=submission.unanswered + 1,
            error=text,
            cause=error,
        )
    pause = error.verdict.retry_after_seconds
    if pause is None:
        pause = min(BACKOFF_SECONDS * 2**submission.refusals, BACKOFF_MAX_SECONDS)
        if isinstance(error, RateLimitedError):
            # The gateway's own budget slows down as well; no need to wait twice.
            pause = BACKOFF_SECONDS
    pause = min(pause, RETRY_MAX_SECONDS)
    return Submission(
        attempt=submission.attempt,
        begun_at=submission.begun_at,
        refusals=submission.refusals + 1,
        retry_at=now + timedelta(seconds=pause),
        unanswered=submission.unanswered,
        error=text,
        cause=error,
    )


def after_look(submission: Submission, now: datetime) -> Submission:
    """Record a look that found nothing."""
    return replace(submission, looks=(*submission.looks, now))


def sent_anew(submission: Submission) -> Submission:
    """Forget a create that is known to have left no job; the next step sends one more."""
    return replace(submission, unanswered_at=None, looks=())


def _settled(submission: Submission, policy: RunPolicy, now: datetime) -> bool:
    if submission.unanswered_at is None:
        return True
    waited = (now - submission.unanswered_at).total_seconds()
    return (
        waited >= policy.create_settle_seconds
        and len(submission.looks) >= policy.create_settle_looks
        and (submission.looks[-1] - submission.unanswered_at).total_seconds()
        >= policy.create_settle_seconds
    )


def _settle_seconds(policy: RunPolicy) -> float:
    """When the look comes that can settle a lost answer."""
    looks, seconds = policy.create_settle_looks, policy.create_settle_seconds
    for number, after in enumerate(LOOK_AFTER_SECONDS, start=1):
        if number >= looks and after >= seconds:
            return after
    last = LOOK_AFTER_SECONDS[-1]
    more = max(looks - len(LOOK_AFTER_SECONDS), ceil((seconds - last) / BACKOFF_MAX_SECONDS))
    return last + more * BACKOFF_MAX_SECONDS


def _next_look(submission: Submission, sent: datetime) -> datetime:
    done = len(submission.looks)
    if done < len(LOOK_AFTER_SECONDS):
        return sent + timedelta(seconds=LOOK_AFTER_SECONDS[done])
    return submission.looks[-1] + timedelta(seconds=BACKOFF_MAX_SECONDS)


def _may_exist(submission: Submission, policy: RunPolicy) -> str:
    return (
        f"{submission.error} For {policy.create_budget_seconds:g} s it could not be found out "
        f"whether the CustomJob of attempt {submission.attempt} exists; "
        "if it appears, a worker of this pool cancels it."
    )
