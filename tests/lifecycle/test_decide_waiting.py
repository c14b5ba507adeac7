"""Runs that wait: what is shown, how long it may take, and what happens when nobody holds them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from prefect_vertex.lifecycle.case import Absence, Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Decision,
    Describe,
    HandBack,
    Look,
    Requeue,
    Settle,
    Show,
    Wait,
)
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import INSTANCE_LABEL, WORKER_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Runs = Callable[..., RunView]
Jobs = Callable[..., JobSnapshot]
USUAL = RunPolicy()
HASTY = RunPolicy(provisioning_timeout_seconds=300)


def looks(now: datetime, *ago: float) -> tuple[datetime, ...]:
    return tuple(now - timedelta(seconds=seconds) for seconds in ago)


# --- what is shown --------------------------------------------------------------------------------

SHOWN = """
shown now              job QUEUED             job PENDING
Pending                InfrastructurePending  InfrastructurePending
Submitting             InfrastructurePending  InfrastructurePending
AwaitingCapacity       InfrastructurePending  InfrastructurePending
InfrastructurePending  -                      Provisioning
Provisioning           InfrastructurePending  -
"""
ROWS = [line.split() for line in SHOWN.strip().splitlines()[1:]]


@pytest.mark.parametrize(
    ("shown", "job_state", "wanted"),
    [(row[0], "QUEUED", row[1]) for row in ROWS] + [(row[0], "PENDING", row[2]) for row in ROWS],
)
def test_waiting_states_follow_each_other(
    shown: str, job_state: str, wanted: str, a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    """Each name once, and never one twice: the server refuses that."""
    decision = decide(a_run(state_name=shown), [a_job(job_state)], USUAL, now)

    assert (decision.state_name if isinstance(decision, Show) else "-") == wanted


@pytest.mark.parametrize(("age", "expected"), [(2.0, Show), (2.1, Describe)])
def test_a_waiting_state_is_proposed_only_from_a_look_of_the_last_two_seconds(
    age: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    job = a_job("QUEUED", seen=age, described=False)

    assert isinstance(decide(a_run(), [job], USUAL, now), expected)


def test_the_message_says_which_job_waits_where(a_run: Runs, a_job: Jobs, now: datetime) -> None:
    decision = decide(a_run(), [a_job("QUEUED", job_id="77")], USUAL, now)

    assert isinstance(decision, Show)
    assert decision.message == "CustomJob 77 is queued in us-central1."


# --- how long it may take -------------------------------------------------------------------------


@pytest.mark.parametrize(("created", "expected"), [(299.9, Wait), (300, CancelJob)])
def test_machines_come_in_time_or_the_job_goes(
    created: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(state_name="Provisioning")

    decision = decide(run, [a_job("PENDING", created=created)], HASTY, now)

    assert isinstance(decision, expected)
    if isinstance(decision, CancelJob):
        assert decision.verdict is TerminationReason.PROVISIONING_TIMEOUT


def test_without_a_provisioning_timeout_a_job_may_wait_for_ever(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(state_name="Provisioning")

    assert decide(run, [a_job("PENDING", created=1e6)], USUAL, now) == Wait()


@pytest.mark.parametrize(("started", "expected"), [(899.9, Wait), (900, CancelJob)])
def test_the_flow_starts_in_time_or_the_job_goes(
    started: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    job = a_job("RUNNING", created=5000, started=started)

    decision = decide(a_run(ago=5000), [job], USUAL, now)

    assert isinstance(decision, expected)
    if isinstance(decision, CancelJob):
        assert decision.verdict is TerminationReason.START_TIMEOUT


@pytest.mark.parametrize(
    "job", [{"state": "PENDING", "created": 301}, {"state": "RUNNING", "started": 901}]
)
def test_a_job_is_not_given_up_on_the_word_of_a_list_row(
    job: dict[str, str], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    row = a_job(**{"created": 1000, **job}, described=False)

    assert decide(a_run(), [row], HASTY, now) == Describe(row.resource_name)


@pytest.mark.parametrize(("sent", "expected"), [(59.9, Wait), (60, CancelJob)])
def test_a_cancel_without_effect_is_sent_again_each_minute(
    sent: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    job = a_job("PENDING", created=301)
    notes = Notes(cancels={job.resource_name.key: now - timedelta(seconds=sent)})

    assert isinstance(decide(a_run(), [job], HASTY, now, notes), expected)


# --- nobody holds it ------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_run_whose_holder_may_be_submitting_it_is_left_alone(
    attempt: int, a_run: Runs, now: datetime
) -> None:
    assert decide(a_run(attempt=attempt), [], USUAL, now) == Wait()


def test_a_run_whose_holder_went_before_it_announced_anything_goes_back_at_once(
    a_run: Runs, now: datetime
) -> None:
    decision = decide(a_run(attempt=0), [], USUAL, now, Notes(holder_gone=True))

    assert isinstance(decision, Requeue)


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        ((), Look),
        ((59,), Wait),
        ((60,), Look),
        ((119, 60), Look),
        ((119, 59, 0), Wait),
        ((120, 0), Wait),
        ((120, 60, 0), Requeue),
    ],
)
def test_an_announced_attempt_has_no_job_only_after_three_looks_in_two_minutes(
    ago: tuple[float, ...], expected: type[Decision], a_run: Runs, now: datetime
) -> None:
    notes = Notes(holder_gone=True, looks=looks(now, *ago))

    assert isinstance(decide(a_run(), [], USUAL, now, notes), expected)


def test_a_job_of_the_announced_attempt_keeps_the_run_where_it_is(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    notes = Notes(holder_gone=True, looks=looks(now, 300, 200, 100))

    assert isinstance(decide(a_run(), [a_job("QUEUED")], USUAL, now, notes), Show)


def test_a_run_that_waits_for_its_next_attempt_goes_back_without_a_look(
    a_run: Runs, an_ended_job: Jobs, now: datetime
) -> None:
    """Its next attempt was never announced, so nothing was sent for it."""
    run = a_run(state_id="state-2")

    decision = decide(run, [an_ended_job("FAILED")], USUAL, now, Notes(holder_gone=True))

    assert isinstance(decision, Requeue)


@pytest.mark.parametrize("label", [INSTANCE_LABEL, WORKER_LABEL])
def test_a_run_without_deployment_goes_back_if_a_worker_had_taken_it(
    label: str, a_run: Runs, now: datetime
) -> None:
    run = a_run(attempt=0, deployment_id="", labels={label: "w"})

    assert isinstance(decide(run, [], USUAL, now, Notes(holder_gone=True)), Requeue)


def test_an_ad_hoc_run_whose_process_died_before_it_was_submitted_crashes(
    a_run: Runs, now: datetime
) -> None:
    """It was born Pending and its code never left the machine: nobody else can run it."""
    run = a_run(attempt=0, deployment_id="")

    decision = decide(run, [], USUAL, now, Notes(holder_gone=True))

    assert isinstance(decision, Crash)
    assert "stopped before it had a CustomJob" in decision.message


# --- its job is gone ------------------------------------------------------------------------------


@pytest.fixture
def absent(a_job: Jobs, now: datetime) -> Callable[..., Absence]:
    """A job that was not found so many seconds ago."""

    def build(*ago: float, attempt: int = 1, seen: bool = True) -> Absence:
        name = a_job(attempt=attempt).resource_name
        return Absence(name=name, attempt=attempt if seen else 0, times=looks(now, *ago))

    return build


def notes_of(absence: Absence, *, looks: tuple[datetime, ...] = ()) -> Notes:
    return Notes(absences={absence.name.key: absence}, looks=looks)


@pytest.mark.parametrize(
    ("ago", "expected"), [((), Describe), ((59,), Wait), ((60,), Describe), ((60, 0), Look)]
)
@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PENDING])
def test_not_found_is_believed_when_it_was_said_twice_a_minute_apart(
    state: RunState,
    ago: tuple[float, ...],
    expected: type[Decision],
    a_run: Runs,
    absent: Callable[..., Absence],
    now: datetime,
) -> None:
    absence = absent(*ago)
    run = a_run(state, identifier=str(absence.name))
    notes = notes_of(absence) if ago else Notes()

    assert isinstance(decide(run, [], USUAL, now, notes), expected)


def test_a_job_that_was_deleted_under_a_run_crashes_it(
    a_run: Runs, absent: Callable[..., Absence], now: datetime
) -> None:
    decision = decide(
        a_run(RunState.RUNNING), [], USUAL, now, notes_of(absent(90, 30), looks=looks(now, 1))
    )

    assert isinstance(decision, Crash)
    assert decision.outcome.reason is TerminationReason.DISAPPEARED
    assert "no longer exists" in decision.message


def test_an_earlier_attempts_deleted_job_says_nothing_about_a_run_that_waits_elsewhere(
    a_run: Runs, absent: Callable[..., Absence], now: datetime
) -> None:
    """The identifier is the last attempt's until the next job exists."""
    absence = absent(900, 30, seen=False)
    run = a_run(attempt=2, identifier=str(absence.name))

    assert decide(run, [], USUAL, now, notes_of(absence, looks=looks(now, 1))) == Wait()


def test_an_earlier_attempts_deleted_job_does_not_crash_a_run_whose_job_is_out_of_sight(
    a_run: Runs, absent: Callable[..., Absence], now: datetime
) -> None:
    absence = absent(900, 30, seen=False)
    run = a_run(RunState.RUNNING, attempt=2, identifier=str(absence.name))

    decision = decide(run, [], USUAL, now, notes_of(absence, looks=looks(now, 60)))

    assert decision == Look()


def test_a_foreign_identifier_is_no_job_of_ours(a_run: Runs, now: datetime) -> None:
    run = a_run(attempt=0, identifier="my-cluster:my-pod")

    assert decide(run, [], USUAL, now) == Wait()


# --- scheduled ------------------------------------------------------------------------------------


def test_a_retry_whose_container_left_no_trace_is_handed_back(a_run: Runs, now: datetime) -> None:
    run = a_run(RunState.SCHEDULED, previous=RunState.RUNNING, retries_in_process=True)

    decision = decide(run, [], USUAL, now, Notes(looks=looks(now, 120, 60, 0)))

    assert isinstance(decision, HandBack)


@pytest.mark.parametrize(("ago", "expected"), [(59, Wait), (60, CancelJob)])
def test_a_job_that_outlives_its_run_is_cancelled_though_the_run_is_scheduled_again(
    ago: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(RunState.SCHEDULED, previous=RunState.FAILED, ago=ago)

    assert isinstance(decide(run, [a_job("RUNNING")], USUAL, now), expected)


def test_a_fresh_run_has_nothing_to_settle(a_run: Runs, now: datetime) -> None:
    assert isinstance(decide(a_run(RunState.SCHEDULED, attempt=0), [], USUAL, now), Settle)
