"""A job that ended before any container of it began: what follows is for the walk to say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from prefect_vertex.lifecycle.case import Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    Crash,
    Create,
    Decision,
    Describe,
    HandBack,
    Hop,
    MarkCancelled,
    Requeue,
    Reschedule,
    Settle,
    Wait,
)
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import (
    CANDIDATE_LABEL,
    SETTLED_LABEL,
    VERDICT_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Runs = Callable[..., RunView]
Jobs = Callable[..., JobSnapshot]
USUAL = RunPolicy()
SPOT = RunPolicy(spot=True)
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")
QUOTA = (8, "The following quota metrics exceed quota limits: custom_model_training_cpus")
INTERNAL = (13, "Internal error occurred for the current attempt")
EXIT_1 = (3, "The replica workerpool0-0 exited with a non-zero status of 1.")
EXIT_79 = (3, "The replica workerpool1-0 exited with a non-zero status of 79.")
WAIT_OVER = (4, "no machines in time")
UNSTARTED = Notes(unstarted=frozenset({1}))


@pytest.fixture
def unstarted(a_job: Jobs) -> Jobs:
    """A terminal job that was never RUNNING."""
    return lambda state="FAILED", **fields: a_job(state, **{"started": -1, **fields})


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"error": STOCKOUT}, Hop),
        ({"error": QUOTA}, Hop),
        ({"error": INTERNAL}, Hop),
        ({"error": (7, "should be granted access to the image")}, Hop),
        ({"error": (2, "An unexpected response.")}, Hop),
        ({"error": (3, "Machine type is not supported.")}, Hop),
        ({"state": "EXPIRED"}, Hop),
        # Of a job that never was RUNNING the wait was over, not the run.
        ({"error": WAIT_OVER}, Hop),
        ({"error": WAIT_OVER, "started": 300}, Crash),
        ({"error": (4, EXIT_1[1])}, Crash),
        # Its replicas waited for others, though Vertex AI may have called it RUNNING.
        ({"error": EXIT_79}, Hop),
        ({"error": EXIT_79, "started": 300}, Hop),
        ({"error": (13, EXIT_79[1]), "started": 300}, Crash),
        # A replica that is named had begun, whatever the job's times say.
        ({"error": EXIT_1}, Crash),
        ({"error": (3, "The replica workerpool1-0 ran out of memory.")}, Crash),
        ({"state": "SUCCEEDED"}, Crash),
        ({"state": "CANCELLED", "error": (1, "CANCELED")}, MarkCancelled),
        ({"error": STOCKOUT, "started": 300}, Crash),
        ({"error": STOCKOUT, "described": False}, Describe),
        ({"error": STOCKOUT, "seen": 3}, Describe),
        ({"ended": 10}, Wait),
    ],
)
def test_what_never_began_is_left_to_the_walk(
    job: dict[str, Any],
    expected: type[Decision],
    a_run: Runs,
    unstarted: Jobs,
    now: datetime,
) -> None:
    decision = decide(a_run(), [unstarted(**job)], USUAL, now, UNSTARTED)

    assert isinstance(decision, expected)


@pytest.mark.parametrize(
    "notes", [Notes(), Notes(unstarted=frozenset({2}))], ids=["not asked", "another attempt"]
)
def test_as_long_as_a_container_may_have_begun_it_is_the_end(
    notes: Notes, a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    assert isinstance(decide(a_run(), [unstarted(error=STOCKOUT)], USUAL, now, notes), Crash)


def test_a_run_that_has_begun_is_not_tried_elsewhere(
    a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    run = a_run(RunState.RUNNING)

    assert isinstance(decide(run, [unstarted(error=STOCKOUT)], USUAL, now, UNSTARTED), Crash)


def test_a_hop_knows_how_the_run_ends_otherwise(
    a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    job = unstarted(error=QUOTA)

    decision = decide(a_run(), [job], USUAL, now, UNSTARTED)

    assert isinstance(decision, Hop)
    assert (decision.job, decision.attempt) == (job.resource_name, 1)
    assert decision.otherwise.outcome.reason is TerminationReason.QUOTA
    assert QUOTA[1] in decision.otherwise.message


@pytest.mark.parametrize(
    ("verdict", "expected"), [("provisioning-timeout", Hop), ("start-timeout", Crash)]
)
def test_a_job_that_we_cancelled_for_want_of_machines_is_left_to_the_walk(
    verdict: str, expected: type[Decision], a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    run = a_run(labels={VERDICT_LABEL: f"1:{verdict}"})

    assert isinstance(decide(run, [unstarted("CANCELLED")], USUAL, now, UNSTARTED), expected)


def test_a_job_that_got_its_machines_while_we_cancelled_it_is_the_end(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(labels={VERDICT_LABEL: "1:provisioning-timeout"})

    assert isinstance(decide(run, [a_job("CANCELLED")], USUAL, now, UNSTARTED), Crash)


# --- the attempt that is due ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        # Nobody submitted it again: the last end has to be understood first.
        ({"continues": True}, Hop),
        ({"continues": True, "rescheduled": True}, Hop),
        ({"continues": True, "answered": 1}, Create),
        # A person's retry asks for nothing.
        ({}, Create),
    ],
)
def test_the_next_attempt_follows_an_end_that_is_understood(
    notes: dict[str, Any], expected: type[Decision], a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    run = a_run(state_id="state-2")
    known = Notes(due_attempt=2, unstarted=frozenset({1}), **notes)

    decision = decide(run, [unstarted(error=QUOTA)], USUAL, now, known)

    assert isinstance(decision, expected)


def test_a_job_that_was_stopped_while_its_run_changed_hands_does_not_come_back(
    a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    notes = Notes(due_attempt=2, continues=True, unstarted=frozenset({1}))
    job = unstarted("CANCELLED", error=(1, "CANCELED"))

    assert isinstance(decide(a_run(state_id="state-2"), [job], USUAL, now, notes), MarkCancelled)


def test_a_job_that_we_cancelled_to_make_room_for_the_next_is_followed_by_it(
    a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    notes = Notes(due_attempt=2, continues=True, unstarted=frozenset({1}))
    run = a_run(state_id="state-2", labels={VERDICT_LABEL: "1:superseded"})

    assert decide(run, [unstarted("CANCELLED")], USUAL, now, notes) == Create(2)


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("restarts", "expected"), [(None, Crash), (5, Reschedule), (6, Crash)])
def test_hops_are_no_restarts(
    restarts: int | None, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    notes = Notes(restarts=restarts)
    job = a_job("FAILED", attempt=9, error=STOCKOUT)

    decision = decide(a_run(RunState.RUNNING, attempt=9), [job], SPOT, now, notes)

    assert isinstance(decision, expected)


def test_a_spot_run_that_began_before_its_job_was_running_was_preempted(
    a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    decision = decide(a_run(RunState.RUNNING), [unstarted(error=STOCKOUT)], SPOT, now)

    assert isinstance(decision, Reschedule)


@pytest.mark.parametrize(("policy", "expected"), [(SPOT, Reschedule), (USUAL, Crash)])
def test_a_spot_container_that_was_started_again_had_lost_its_machine(
    policy: RunPolicy, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    error = (3, "The replica workerpool0-0 exited with a non-zero status of 75.")

    decision = decide(a_run(RunState.RUNNING), [a_job("FAILED", error=error)], policy, now)

    assert isinstance(decision, expected)


@pytest.mark.parametrize(("in_process", "expected"), [(True, HandBack), (False, Settle)])
def test_a_scheduled_runs_attempt_that_never_began_is_left_to_whoever_takes_it(
    *, in_process: bool, expected: type[Decision], a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    """It had begun in an earlier attempt; the last one's quota is no end of it."""
    run = a_run(
        RunState.SCHEDULED, previous=RunState.RUNNING, retries_in_process=in_process, attempt=1
    )

    decision = decide(run, [unstarted(error=QUOTA)], RunPolicy(max_restarts=0), now, UNSTARTED)

    assert isinstance(decision, expected)


def test_a_scheduled_runs_attempt_whose_wait_was_over_is_followed_by_another(
    a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    run = a_run(RunState.SCHEDULED, previous=RunState.RUNNING)

    decision = decide(run, [unstarted(error=WAIT_OVER)], RunPolicy(max_restarts=0), now, UNSTARTED)

    assert isinstance(decision, Settle)
    assert decision.outcome.reason is TerminationReason.NO_CAPACITY


# --- between attempts -----------------------------------------------------------------------------


@pytest.mark.parametrize(("gone", "expected"), [(True, Requeue), (False, Wait)])
def test_a_run_between_attempts_is_its_holders(
    *, gone: bool, expected: type[Decision], a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    run = a_run(state_name="AwaitingCapacity", state_id="state-2")
    notes = Notes(holder_gone=gone, unstarted=frozenset({1}))

    assert isinstance(decide(run, [unstarted(error=STOCKOUT)], USUAL, now, notes), expected)


@pytest.mark.parametrize("name", ["AwaitingCapacity", "Submitting"])
@pytest.mark.parametrize(("untold", "expected"), [(1, Hop), (0, Wait)])
def test_whoever_has_begun_to_tell_an_end_goes_on_with_it(
    *, untold: int, expected: type[Decision], name: str, a_run: Runs, unstarted: Jobs, now: datetime
) -> None:
    run = a_run(state_name=name, state_id="state-2")
    notes = Notes(untold=untold, unstarted=frozenset({1}))

    assert isinstance(decide(run, [unstarted(error=STOCKOUT)], USUAL, now, notes), expected)


def test_a_refused_attempt_is_not_looked_for(a_run: Runs, now: datetime) -> None:
    run = a_run(labels={SETTLED_LABEL: "1"})

    assert isinstance(decide(run, [], USUAL, now, Notes(holder_gone=True)), Requeue)
    cancelling = a_run(RunState.CANCELLING, labels={SETTLED_LABEL: "1"})
    assert isinstance(decide(cancelling, [], USUAL, now), MarkCancelled)


@pytest.mark.parametrize(
    ("label", "expected"),
    [("1:2:8", (2, 8)), ("2:0:1", None), ("", None), ("1:2", None), ("1:x:1", None), ("1", None)],
)
def test_a_run_says_which_candidate_its_attempt_is_tried_at(
    label: str, expected: tuple[int, int] | None, a_run: Runs
) -> None:
    assert a_run(labels={CANDIDATE_LABEL: label}).candidate(1) == expected


def test_whoever_said_that_a_run_awaits_capacity_holds_it(a_run: Runs) -> None:
    assert a_run(state_name="AwaitingCapacity", state_id="state-9").holder_is_current
