"""Find-or-create: how one attempt gets exactly one job, whatever is lost on the way."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from prefect_vertex.errors import (
    AccessDeniedError,
    JobNotFoundError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.submission import (
    Aftermath,
    Find,
    GiveUp,
    Hold,
    Send,
    Settled,
    Submission,
    after_error,
    after_look,
    aftermath_of,
    next_step,
    sent_anew,
)

POLICY = RunPolicy()
NO_ANSWER = ServiceUnavailableError("Could not create CustomJob: UNAVAILABLE.")
NO_QUOTA = QuotaExceededError("Could not create CustomJob: RESOURCE_EXHAUSTED.")

# Every gRPC code, the error that it becomes, and what a create leaves behind then.
CODES = """
CANCELLED            ServiceUnavailableError  ask-first
UNKNOWN              ServiceUnavailableError  ask-first
INVALID_ARGUMENT     RequestRejectedError     give-up
DEADLINE_EXCEEDED    ServiceUnavailableError  ask-first
NOT_FOUND            JobNotFoundError         give-up
ALREADY_EXISTS       RequestRejectedError     give-up
PERMISSION_DENIED    AccessDeniedError        give-up
RESOURCE_EXHAUSTED   QuotaExceededError       retry
RESOURCE_EXHAUSTED   RateLimitedError         retry
FAILED_PRECONDITION  RequestRejectedError     give-up
ABORTED              ServiceUnavailableError  ask-first
OUT_OF_RANGE         RequestRejectedError     give-up
UNIMPLEMENTED        RequestRejectedError     give-up
INTERNAL             ServiceUnavailableError  ask-first
UNAVAILABLE          ServiceUnavailableError  ask-first
DATA_LOSS            ServiceError             give-up
UNAUTHENTICATED      AccessDeniedError        give-up
"""
CLASSES: dict[str, type[ServiceError]] = {
    kind.__name__: kind
    for kind in (
        AccessDeniedError,
        JobNotFoundError,
        QuotaExceededError,
        RateLimitedError,
        RequestRejectedError,
        ServiceError,
        ServiceUnavailableError,
    )
}


@pytest.mark.parametrize(
    ("code", "kind", "expected"), [line.split() for line in CODES.strip().splitlines()]
)
def test_what_a_failed_create_leaves_behind(code: str, kind: str, expected: str) -> None:
    error = CLASSES[kind]("no", verdict=ServiceVerdict(code=code))

    assert aftermath_of(error) is Aftermath(expected)


def at(now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds)


@pytest.fixture
def begun(now: datetime) -> Submission:
    return Submission(attempt=1, begun_at=now)


def test_the_first_step_is_to_send(begun: Submission, now: datetime) -> None:
    assert next_step(begun, POLICY, now) == Send()


def test_the_whole_schedule_after_a_lost_answer(begun: Submission, now: datetime) -> None:
    """Looks soon and late; it is certain only after 120 s and three looks that there is none."""
    submission = after_error(begun, NO_ANSWER, now)
    second = looks = 0
    happened: list[tuple[int, str]] = []
    while not happened or happened[-1][1] != "settled":
        step = next_step(submission, POLICY, at(now, second))
        if isinstance(step, Find):
            looks += 1
            happened.append((second, "look"))
            submission = after_look(submission, at(now, second))
        elif isinstance(step, Settled):
            happened.append((second, "settled"))
        else:
            assert isinstance(step, Hold)
            assert step.until > at(now, second)
            second = round((step.until - now).total_seconds())

    assert happened == [
        (1, "look"), (5, "look"), (20, "look"), (60, "look"), (120, "look"), (120, "settled"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("looks", "seconds", "settled"),
    [
        ((1, 5, 20), 1000, False),
        ((1, 5, 20, 60, 119), 130, False),
        ((121,), 130, False),
        ((60, 125), 130, False),
        ((1, 60, 120), 120, True),
    ],
)
def test_an_empty_look_settles_nothing_before_120_seconds_and_three_looks(
    looks: tuple[float, ...], seconds: float, *, settled: bool, begun: Submission, now: datetime
) -> None:
    policy = RunPolicy(create_budget_seconds=5000)
    submission = after_error(begun, NO_ANSWER, now)
    for look in looks:
        submission = after_look(submission, at(now, look))

    assert isinstance(next_step(submission, policy, at(now, seconds)), Settled) is settled


def test_a_second_lost_answer_starts_the_looks_anew(begun: Submission, now: datetime) -> None:
    submission = after_error(begun, NO_ANSWER, now)
    for look in (1, 60, 120):
        submission = after_look(submission, at(now, look))
    submission = after_error(submission, NO_ANSWER, at(now, 130))

    assert submission.looks == ()
    assert next_step(submission, POLICY, at(now, 130)) == Hold(at(now, 131))


def test_while_an_answer_is_open_something_may_have_been_sent(
    begun: Submission, now: datetime
) -> None:
    assert begun.nothing_sent
    assert after_error(begun, NO_QUOTA, now).nothing_sent
    assert not after_error(begun, NO_ANSWER, now).nothing_sent
    assert not after_look(after_error(begun, NO_ANSWER, now), now).nothing_sent


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (NO_QUOTA, [5, 10, 20, 40, 60, 60]),
        (RateLimitedError("too many"), [5, 5, 5]),
        (
            QuotaExceededError("later", verdict=ServiceVerdict(retry_after_seconds=33)),
            [33, 33],
        ),
        (RateLimitedError("later", verdict=ServiceVerdict(retry_after_seconds=0)), [0, 0]),
    ],
)
def test_a_refusal_is_tried_again_after_a_growing_pause(
    error: ServiceError, pauses: list[float], begun: Submission, now: datetime
) -> None:
    submission = begun
    for pause in pauses:
        submission = after_error(submission, error, now)
        assert submission.retry_at == at(now, pause)
        if pause:
            assert next_step(submission, POLICY, at(now, pause - 0.1)) == Hold(at(now, pause))
        assert next_step(submission, POLICY, at(now, pause)) == Send()


@pytest.mark.parametrize("seconds", [901, 1e9, 1e14])
def test_a_pause_beyond_the_budget_is_not_sat_out(
    seconds: float, begun: Submission, now: datetime
) -> None:
    """Whatever date the service's word would lead to."""
    error = RateLimitedError("later", verdict=ServiceVerdict(retry_after_seconds=seconds))
    submission = after_error(begun, error, now)

    assert next_step(submission, POLICY, at(now, 1)) == Hold(at(now, 900))
    assert isinstance(next_step(submission, POLICY, at(now, 900)), GiveUp)


@pytest.mark.parametrize(("seconds", "expected"), [(899, Send), (900, GiveUp)])
def test_the_budget_is_one_of_time(
    seconds: float, expected: type[object], begun: Submission, now: datetime
) -> None:
    submission = after_error(begun, NO_QUOTA, now)

    step = next_step(submission, POLICY, at(now, seconds))

    assert isinstance(step, expected)
    if isinstance(step, GiveUp):
        assert NO_QUOTA.message in step.message
        assert "900 s" in step.message


def test_a_create_that_was_never_tried_is_never_given_up(begun: Submission, now: datetime) -> None:
    assert next_step(begun, POLICY, at(now, 10_000)) == Send()


def test_at_the_end_of_the_budget_an_open_answer_says_that_a_job_may_exist(
    begun: Submission, now: datetime
) -> None:
    policy = RunPolicy(create_budget_seconds=60)
    submission = after_error(begun, NO_ANSWER, now)

    step = next_step(submission, policy, at(now, 60))

    assert isinstance(step, GiveUp)
    assert "whether the CustomJob of attempt 1 exists" in step.message


def test_the_root_cause_and_its_remedy_are_kept(begun: Submission, now: datetime) -> None:
    error = QuotaExceededError("Refused.", hint="Ask for more.")

    assert after_error(begun, error, now).error == "Refused. Ask for more."


def settled(submission: Submission, start: datetime) -> Submission:
    """A create that was not answered, and whose job was looked for in vain."""
    submission = after_error(submission, NO_ANSWER, start)
    for look in (1, 5, 20, 60, 120):
        submission = after_look(submission, at(start, look))
    return submission


def test_one_more_create_is_sent_there_and_then_no_other(begun: Submission, now: datetime) -> None:
    first = settled(begun, now)
    assert next_step(first, POLICY, at(now, 120)) == Settled(again=True)
    assert next_step(sent_anew(first), POLICY, at(now, 120)) == Send()
    second = settled(sent_anew(first), at(now, 121))

    assert next_step(second, POLICY, at(now, 241)) == Settled(again=False)


@pytest.mark.parametrize(("budget", "again"), [(240, True), (239, False), (120, False)])
def test_one_more_create_is_sent_only_if_its_answer_can_be_settled_in_time(
    budget: float, *, again: bool, begun: Submission, now: datetime
) -> None:
    policy = RunPolicy(create_budget_seconds=budget)

    assert next_step(settled(begun, now), policy, at(now, 120)) == Settled(again=again)


@pytest.mark.parametrize(
    ("seconds", "looks", "again"), [(6, 3, True), (0, 1, True), (130, 3, False), (120, 6, False)]
)
def test_the_time_to_settle_is_that_of_the_look_that_can(
    seconds: float, looks: int, *, again: bool, begun: Submission, now: datetime
) -> None:
    policy = RunPolicy(
        create_budget_seconds=250, create_settle_seconds=seconds, create_settle_looks=looks
    )
    submission = after_error(begun, NO_ANSWER, now)
    for look in (1, 5, 20, 60, 120, 180):
        submission = after_look(submission, at(now, look))

    assert next_step(submission, policy, at(now, 180)) == Settled(again=again)
