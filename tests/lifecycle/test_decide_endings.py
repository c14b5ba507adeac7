"""Ends: late errors, verdicts of this product, cancellations, leaks, deleted runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.case import Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Decision,
    Describe,
    HandBack,
    Look,
    MarkCancelled,
    Reschedule,
    Settle,
    Wait,
)
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import VERDICT_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Runs = Callable[..., RunView]
Jobs = Callable[..., JobSnapshot]
Decided = Callable[..., Decision]
USUAL = RunPolicy()
SPOT = RunPolicy(spot=True)
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")
OUTSIDE = TerminationReason.CANCELLED_OUTSIDE
EXIT_1 = (3, "The replica workerpool0-0 exited with a non-zero status of 1.")


# --- errors that come late ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "seen", "expected"),
    [
        (5, 0, Wait),
        (20, 14.9, Wait),
        (20, 15, Describe),
        (115, 10, Wait),
        (120, 10, Describe),
        (120, 0, "over"),
        (500, 0, "over"),
    ],
)
@pytest.mark.parametrize(("state", "over"), [("FAILED", Crash), ("CANCELLED", MarkCancelled)])
def test_an_error_may_come_two_minutes_late_and_is_looked_for_every_15_seconds(
    state: str,
    over: type[Decision],
    ended: float,
    seen: float,
    expected: type[Decision] | str,
    decided: Decided,
) -> None:
    job = {"state": state, "ended": ended, "seen": seen}

    decision = decided({"state": RunState.RUNNING}, job)

    assert isinstance(decision, over if isinstance(expected, str) else expected)


def test_after_two_minutes_no_reason_was_given(a_run: Runs, a_job: Jobs, now: datetime) -> None:
    decision = decide(a_run(RunState.RUNNING), [a_job("FAILED", ended=121)], USUAL, now)

    assert isinstance(decision, Crash)
    assert "Vertex AI gave no reason." in decision.message


@pytest.mark.parametrize(("first_seen", "expected"), [(119, Wait), (120, Crash)])
def test_without_an_end_time_the_two_minutes_count_from_when_the_end_was_first_seen(
    first_seen: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    job = a_job("FAILED", ended=-1)
    notes = Notes(ended={job.resource_name.key: now - timedelta(seconds=first_seen)})

    assert isinstance(decide(a_run(RunState.RUNNING), [job], USUAL, now, notes), expected)


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("provisioning-timeout", "had no machines after 300 s"),
        ("start-timeout", "had not started after 900 s"),
    ],
)
@pytest.mark.parametrize("error", [None, (1, "CANCELED")])
def test_a_job_that_we_cancelled_crashes_its_run_for_the_reason_that_we_had(
    verdict: str, words: str, error: tuple[int, str] | None, decided: Decided
) -> None:
    run = {"labels": {VERDICT_LABEL: f"1:{verdict}"}}
    job = {"state": "CANCELLED", "ended": 1, "error": error}

    decision = decided(run, job, RunPolicy(provisioning_timeout_seconds=300))

    assert isinstance(decision, Crash)
    assert words in decision.message
    assert decision.outcome.reason.value == verdict


@pytest.mark.parametrize(
    ("label", "job", "reason"),
    [
        ("2:start-timeout", {"state": "CANCELLED", "error": (1, "")}, "cancelled-outside"),
        ("1:start-timeout", {"state": "FAILED", "error": EXIT_1}, "container-failed"),
        ("1:start-timeout", {"state": "SUCCEEDED"}, "never-started"),
        ("1:gibberish", {"state": "CANCELLED", "error": (1, "")}, "cancelled-outside"),
        ("", {"state": "CANCELLED", "error": (1, "")}, "cancelled-outside"),
    ],
)
def test_a_verdict_counts_for_its_attempt_and_for_an_end_by_cancel_alone(
    label: str, job: dict[str, Any], reason: str, a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(labels={VERDICT_LABEL: label})

    decision = decide(run, [a_job(**job)], USUAL, now)

    assert isinstance(decision, Crash | MarkCancelled)
    assert decision.outcome.reason.value == reason


# --- kinds of ends --------------------------------------------------------------------------------

ENDS: list[tuple[dict[str, Any], RunPolicy, type[Decision], TerminationReason]] = [
    ({"state": "SUCCEEDED"}, USUAL, Crash, TerminationReason.UNREPORTED),
    ({"state": "FAILED", "error": EXIT_1}, USUAL, Crash, TerminationReason.CONTAINER_FAILED),
    ({"state": "FAILED", "error": STOCKOUT}, USUAL, Crash, TerminationReason.NO_CAPACITY),
    ({"state": "FAILED", "error": STOCKOUT}, SPOT, Reschedule, TerminationReason.PREEMPTED),
    ({"state": "FAILED", "error": (14, "")}, SPOT, Reschedule, TerminationReason.PREEMPTED),
    ({"state": "FAILED", "error": (13, "")}, SPOT, Crash, TerminationReason.INTERNAL),
    ({"state": "CANCELLED", "error": (1, "")}, SPOT, MarkCancelled, OUTSIDE),
    ({"state": "EXPIRED"}, USUAL, Crash, TerminationReason.EXPIRED),
]


@pytest.mark.parametrize(("job", "policy", "expected", "reason"), ENDS)
def test_how_the_job_of_a_running_run_ends(
    job: dict[str, Any],
    policy: RunPolicy,
    expected: type[Decision],
    reason: TerminationReason,
    decided: Decided,
) -> None:
    decision = decided({"state": RunState.RUNNING}, job, policy)

    assert isinstance(decision, expected)
    assert isinstance(decision, Crash | MarkCancelled | Reschedule)
    assert decision.outcome.reason is reason


@pytest.mark.parametrize(
    ("ran", "policy", "expected"),
    [
        (3500, RunPolicy(timeout_seconds=3600), MarkCancelled),
        (3540, RunPolicy(timeout_seconds=3600), Crash),
        (3700, RunPolicy(timeout_seconds=3600), Crash),
        (3700, USUAL, MarkCancelled),
        (53, RunPolicy(timeout_seconds=60), MarkCancelled),
        (54, RunPolicy(timeout_seconds=60), Crash),
    ],
)
def test_a_cancelled_job_that_had_run_its_time_reached_its_limit(
    ran: float, policy: RunPolicy, expected: type[Decision], decided: Decided
) -> None:
    times = {"created": 9000, "started": ran + 200, "ended": 200}

    decision = decided(
        {"state": RunState.RUNNING}, {"state": "CANCELLED", "error": (1, ""), **times}, policy
    )

    assert isinstance(decision, expected)
    if isinstance(decision, Crash):
        assert "maximum run time" in decision.message
        assert "maximum_run_time_hours" in decision.message


def test_a_container_that_left_at_its_time_limit_does_not_come_back(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    """SIGTERM at the limit makes it reschedule the run and exit 0: SUCCEEDED, for ever again."""
    run = a_run(RunState.SCHEDULED, previous=RunState.RUNNING)
    job = a_job("SUCCEEDED", created=4000, started=3800, ended=200)

    assert isinstance(decide(run, [job], RunPolicy(timeout_seconds=3600), now), Crash)


@pytest.mark.parametrize(("attempt", "expected"), [(1, Reschedule), (6, Reschedule), (7, Crash)])
def test_a_preempted_run_comes_back_max_restarts_times(
    attempt: int, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    job = a_job("FAILED", attempt=attempt, error=STOCKOUT)

    decision = decide(a_run(RunState.RUNNING, attempt=attempt), [job], SPOT, now)

    assert isinstance(decision, expected)


def test_a_spot_job_that_never_started_was_not_preempted(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    decision = decide(a_run(), [a_job("FAILED", started=-1, error=STOCKOUT)], SPOT, now)

    assert isinstance(decision, Crash)
    assert decision.outcome.reason is TerminationReason.NO_CAPACITY


def test_a_preempted_run_that_retries_in_process_is_handed_back(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(RunState.SCHEDULED, previous=RunState.RUNNING, retries_in_process=True)

    assert isinstance(decide(run, [a_job("FAILED", error=STOCKOUT)], SPOT, now), HandBack)


# --- cancelling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("job_state", ["PENDING", "RUNNING", "PAUSED"])
@pytest.mark.parametrize(
    ("previous", "ago", "expected"),
    [
        (RunState.RUNNING, 59, Wait),
        (RunState.RUNNING, 60, CancelJob),
        (RunState.PAUSED, 59, Wait),
        (RunState.PENDING, 0, CancelJob),
        (RunState.SCHEDULED, 0, CancelJob),
        (None, 0, CancelJob),
    ],
)
def test_a_started_run_may_cancel_itself_first(
    job_state: str,
    previous: RunState | None,
    ago: float,
    expected: type[Decision],
    decided: Decided,
) -> None:
    run = {"state": RunState.CANCELLING, "previous": previous, "ago": ago}

    assert isinstance(decided(run, {"state": job_state}), expected)


@pytest.mark.parametrize(
    ("attempt", "notes", "expected"),
    [
        (0, Notes(), MarkCancelled),
        (1, Notes(), Look),
        (1, Notes(due_attempt=1, nothing_sent=True), MarkCancelled),
        (1, Notes(due_attempt=1, nothing_sent=False), Look),
    ],
)
def test_cancelled_before_there_is_a_job(
    attempt: int, notes: Notes, expected: type[Decision], a_run: Runs, now: datetime
) -> None:
    run = a_run(RunState.CANCELLING, previous=RunState.PENDING, attempt=attempt)

    assert isinstance(decide(run, [], USUAL, now, notes), expected)


def test_cancelled_for_certain_after_enough_empty_looks(a_run: Runs, now: datetime) -> None:
    ago = [now - timedelta(seconds=seconds) for seconds in (120, 60, 0)]

    decision = decide(a_run(RunState.CANCELLING), [], USUAL, now, Notes(looks=ago))

    assert isinstance(decision, MarkCancelled)


def test_an_earlier_attempts_live_job_is_cancelled_with_its_run(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(RunState.CANCELLING, previous=RunState.PENDING, attempt=2)
    notes = Notes(due_attempt=2, nothing_sent=True)

    assert isinstance(decide(run, [a_job("RUNNING", attempt=1)], USUAL, now, notes), CancelJob)


# --- the run is over, the job is not --------------------------------------------------------------


@pytest.mark.parametrize("state", [state for state in RunState if state.is_final])
@pytest.mark.parametrize(
    ("job", "ago", "expected"),
    [
        ({"state": "RUNNING"}, 59, Wait),
        ({"state": "RUNNING"}, 60, CancelJob),
        ({"state": "PENDING", "started": 30}, 59, Wait),
        ({"state": "PENDING"}, 0, CancelJob),
        ({"state": "QUEUED"}, 0, CancelJob),
    ],
)
def test_a_live_job_whose_run_has_ended_goes_after_the_grace(
    state: RunState,
    job: dict[str, Any],
    ago: float,
    expected: type[Decision],
    decided: Decided,
) -> None:
    assert isinstance(decided({"state": state, "ago": ago}, job), expected)


@pytest.mark.parametrize(
    ("gone", "expected"), [((0,), Wait), ((59, 0), Wait), ((60, 0), CancelJob)]
)
def test_a_deleted_runs_job_goes_once_the_deletion_is_certain(
    gone: tuple[float, ...], expected: type[Decision], a_job: Jobs, now: datetime
) -> None:
    times = [now - timedelta(seconds=seconds) for seconds in gone]

    decision = decide(None, [a_job("RUNNING")], USUAL, now, Notes(gone=times))

    assert isinstance(decision, expected)


def test_a_deleted_run_without_a_live_job_is_over(an_ended_job: Jobs, now: datetime) -> None:
    gone = Notes(gone=[now - timedelta(seconds=60), now])

    assert isinstance(decide(None, [], USUAL, now, gone), Settle)
    assert isinstance(decide(None, [an_ended_job("FAILED")], USUAL, now, gone), Settle)


def test_a_foreign_job_is_left_alone_whatever_became_of_the_run_that_it_names(
    a_job: Jobs, now: datetime
) -> None:
    gone = Notes(gone=[now - timedelta(seconds=60), now])

    assert isinstance(decide(None, [a_job("RUNNING", attempt=0)], USUAL, now, gone), Settle)
