"""Which job speaks for a run, which others have to go, and when the next attempt may begin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.case import Absence, Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Create,
    Decision,
    Describe,
    MarkCancelled,
    Settle,
    Wait,
)
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import VERDICT_LABEL, WAIT_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Runs = Callable[..., RunView]
Jobs = Callable[..., JobSnapshot]
USUAL = RunPolicy()
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")


# --- several jobs ---------------------------------------------------------------------------------


def test_the_newest_attempts_job_speaks(a_run: Runs, an_ended_job: Jobs, now: datetime) -> None:
    old, new = an_ended_job("FAILED"), an_ended_job("SUCCEEDED", attempt=2)
    run = a_run(RunState.COMPLETED, attempt=2)

    decision = decide(run, [new, old], USUAL, now)

    assert isinstance(decision, Settle)
    assert decision.outcome.resource_name == new.resource_name


def test_an_older_attempts_end_says_nothing_about_the_newer(
    a_run: Runs, a_job: Jobs, an_ended_job: Jobs, now: datetime
) -> None:
    jobs = [an_ended_job("FAILED"), a_job("RUNNING", attempt=2)]

    assert decide(a_run(RunState.RUNNING, attempt=2), jobs, USUAL, now) == Wait()


def test_an_older_attempts_live_job_has_to_go(a_run: Runs, a_job: Jobs, now: datetime) -> None:
    old, new = a_job("RUNNING"), a_job("RUNNING", attempt=2)

    decision = decide(a_run(RunState.RUNNING, attempt=2), [old, new], USUAL, now)

    assert isinstance(decision, CancelJob)
    assert decision.job == old.resource_name


def test_of_two_jobs_for_one_attempt_the_older_stays(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    older = a_job("PENDING", job_id="100", created=60)
    late = a_job("PENDING", job_id="99", created=20)

    for jobs in ([older, late], [late, older]):
        decision = decide(a_run(), jobs, USUAL, now)

        assert isinstance(decision, CancelJob)
        assert decision.job == late.resource_name


def test_of_two_jobs_of_one_moment_the_smaller_number_stays(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    jobs = [a_job("PENDING", job_id=number, created=60) for number in ("99", "100")]

    decision = decide(a_run(), jobs, USUAL, now)

    assert isinstance(decision, CancelJob)
    assert decision.job.job_id == "100"


def test_the_job_that_a_start_claim_names_stays(a_run: Runs, a_job: Jobs, now: datetime) -> None:
    older = a_job("RUNNING", job_id="99", created=60)
    late = a_job("RUNNING", job_id="100", created=20)

    decision = decide(
        a_run(RunState.RUNNING), [older, late], USUAL, now, Notes(claimed_job_id="100")
    )

    assert isinstance(decision, CancelJob)
    assert decision.job == older.resource_name


def test_a_duplicates_end_never_decides_the_run(
    a_run: Runs, a_job: Jobs, an_ended_job: Jobs, now: datetime
) -> None:
    jobs = [a_job("RUNNING", job_id="99"), an_ended_job("CANCELLED", job_id="100", created=20)]

    assert decide(a_run(RunState.RUNNING), jobs, USUAL, now) == Wait()


@pytest.mark.parametrize(
    ("run", "notes"),
    [
        ({"state": RunState.RUNNING}, Notes()),
        ({"state": RunState.CANCELLING}, Notes()),
        ({"state": RunState.COMPLETED}, Notes()),
        ({"state": RunState.PENDING}, Notes(due_attempt=3)),
        ({"state": RunState.PENDING, "state_id": "state-2"}, Notes(holder_gone=True)),
    ],
)
def test_nothing_ends_or_begins_while_a_stray_job_lives(
    run: dict[str, Any], notes: Notes, a_run: Runs, a_job: Jobs, an_ended_job: Jobs, now: datetime
) -> None:
    stray = a_job("CANCELLING", attempt=1)
    jobs = [stray, an_ended_job("FAILED", attempt=2)]
    again = now + timedelta(seconds=USUAL.cancel_repeat_seconds)

    assert decide(a_run(attempt=2, **run), jobs, USUAL, now, notes) == Wait(until=again)


def test_a_job_without_an_attempt_is_not_ours(a_run: Runs, a_job: Jobs, now: datetime) -> None:
    """A flow may start CustomJobs of its own and give them its flow run's label."""
    jobs = [a_job("RUNNING"), a_job("RUNNING", attempt=0, job_id="7")]

    assert decide(a_run(RunState.RUNNING), jobs, USUAL, now) == Wait()


def test_a_job_without_an_attempt_is_the_runs_if_the_run_names_it(
    a_run: Runs, an_ended_job: Jobs, now: datetime
) -> None:
    """Another Vertex AI worker created it, before the pool changed hands."""
    job = an_ended_job("FAILED", attempt=0)
    run = a_run(RunState.RUNNING, attempt=0, identifier=str(job.resource_name))

    assert isinstance(decide(run, [job], USUAL, now), Crash)


# --- the next attempt -----------------------------------------------------------------------------


@pytest.fixture
def retried(a_run: Runs) -> RunView:
    """A run that became Pending again after its first attempt, fifty seconds ago."""
    return a_run(state_id="state-2", ago=50)


def test_the_first_attempt_is_created_at_once(a_run: Runs, now: datetime) -> None:
    assert decide(a_run(attempt=0), [], USUAL, now, Notes(due_attempt=1)) == Create(1)


def test_the_same_attempt_is_created_again_where_none_of_its_jobs_exists(
    a_run: Runs, now: datetime
) -> None:
    assert decide(a_run(attempt=1), [], USUAL, now, Notes(due_attempt=1)) == Create(1)


@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_a_persons_retry_does_not_ask_how_the_last_attempt_ended(
    end: str, retried: RunView, an_ended_job: Jobs, now: datetime
) -> None:
    decision = decide(retried, [an_ended_job(end)], USUAL, now, Notes(due_attempt=2))

    assert decision == Create(2)


@pytest.mark.parametrize(
    ("end", "error", "expected"),
    [
        ("SUCCEEDED", None, Create),
        ("FAILED", STOCKOUT, Create),
        ("FAILED", (13, "Internal error occurred for the current attempt"), Create),
        ("FAILED", (3, "workerpool1-0 exited with a non-zero status of 1."), Crash),
        ("FAILED", (3, "ran out of memory and exited with a non-zero status of 137."), Crash),
        ("FAILED", (4, ""), Crash),
        ("CANCELLED", (1, "CANCELED"), MarkCancelled),
        ("CANCELLED", None, MarkCancelled),
    ],
)
def test_a_reschedule_is_a_claim_and_the_jobs_end_the_verdict(
    end: str,
    error: tuple[int, str] | None,
    expected: type[Decision],
    retried: RunView,
    a_job: Jobs,
    now: datetime,
) -> None:
    notes = Notes(due_attempt=2, rescheduled=True)

    assert isinstance(decide(retried, [a_job(end, error=error)], USUAL, now, notes), expected)


@pytest.mark.parametrize("rescheduled", [True, False])
def test_no_attempt_begins_while_the_last_ones_job_lives(
    *, rescheduled: bool, retried: RunView, a_job: Jobs, now: datetime
) -> None:
    notes = Notes(due_attempt=2, rescheduled=rescheduled)

    decision = decide(retried, [a_job("RUNNING")], USUAL, now, notes)

    assert decision == Wait(until=now + timedelta(seconds=10))


@pytest.mark.parametrize(
    ("rescheduled", "verdict"), [(True, TerminationReason.SUPERSEDED), (False, None)]
)
def test_a_job_that_does_not_leave_is_cancelled_after_the_grace(
    *,
    rescheduled: bool,
    verdict: TerminationReason | None,
    a_run: Runs,
    a_job: Jobs,
    now: datetime,
) -> None:
    notes = Notes(due_attempt=2, rescheduled=rescheduled)

    decision = decide(a_run(state_id="state-2", ago=60), [a_job("RUNNING")], USUAL, now, notes)

    assert isinstance(decision, CancelJob)
    assert decision.verdict is verdict


def test_a_job_that_we_cancelled_for_not_leaving_is_followed_by_the_next_attempt(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(state_id="state-2", labels={VERDICT_LABEL: "1:superseded"})
    notes = Notes(due_attempt=2, rescheduled=True)

    assert decide(run, [a_job("CANCELLED", ended=1)], USUAL, now, notes) == Create(2)


@pytest.mark.parametrize(("attempt", "expected"), [(6, Create), (7, Crash)])
def test_a_run_reschedules_itself_at_most_max_restarts_times(
    attempt: int, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    notes = Notes(due_attempt=attempt + 1, rescheduled=True)
    run = a_run(attempt=attempt, state_id="state-2", labels={WAIT_LABEL: "state-1"})

    decision = decide(run, [a_job("SUCCEEDED", attempt=attempt)], USUAL, now, notes)

    assert isinstance(decision, expected)


def test_no_restarts_means_none(retried: RunView, a_job: Jobs, now: datetime) -> None:
    notes = Notes(due_attempt=2, rescheduled=True)

    decision = decide(retried, [a_job("SUCCEEDED")], RunPolicy(max_restarts=0), now, notes)

    assert isinstance(decision, Crash)
    assert "capacity.max_restarts allows 0" in decision.message


# --- held by somebody else ------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"])
def test_a_wait_that_is_anothers_is_not_judged_by_the_last_attempts_job(
    state: str, retried: RunView, an_ended_job: Jobs, now: datetime
) -> None:
    """A run that was retried and taken by another worker waits for its turn there."""
    assert decide(retried, [an_ended_job(state)], USUAL, now) == Wait()


@pytest.mark.parametrize("shown", ["InfrastructurePending", "Provisioning"])
def test_a_waiting_state_that_we_show_belongs_to_the_attempt(
    shown: str, a_run: Runs, an_ended_job: Jobs, now: datetime
) -> None:
    run = a_run(state_id="state-3", state_name=shown, labels={WAIT_LABEL: "state-1"})

    assert isinstance(decide(run, [an_ended_job("FAILED")], USUAL, now), Crash)


def test_a_job_that_was_found_late_is_described_first(
    retried: RunView, an_ended_job: Jobs, now: datetime
) -> None:
    job = an_ended_job("FAILED", described=False)
    notes = Notes(due_attempt=2, rescheduled=True)

    assert decide(retried, [job], USUAL, now, notes) == Describe(job.resource_name)


@pytest.mark.parametrize(
    ("ago", "known", "expected"),
    [
        ((5,), {"rescheduled": True}, Wait),
        ((61,), {"rescheduled": True}, Describe),
        ((120, 30), {"rescheduled": True, "vanished": True}, Crash),
        # Nothing of it had begun, or a person asked for the next attempt.
        ((120, 30), {"rescheduled": True}, Create),
        ((120, 30), {"vanished": True}, Create),
    ],
)
def test_an_attempt_whose_job_is_no_longer_found_is_followed_once_that_is_certain(
    ago: tuple[float, ...],
    known: dict[str, Any],
    expected: type[Decision],
    a_run: Runs,
    a_job: Jobs,
    now: datetime,
) -> None:
    name = a_job("RUNNING").resource_name
    times = tuple(now - timedelta(seconds=seconds) for seconds in ago)
    absence = Absence(name=name, attempt=1, times=times)
    notes = Notes(due_attempt=2, absences={name.key: absence}, **known)
    decision = decide(a_run(RunState.PENDING, attempt=1), [], USUAL, now, notes)

    assert isinstance(decision, expected)
