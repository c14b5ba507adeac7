"""Cancels of this product: when the reason written before one counts, and when it is withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.case import NO_NOTES, Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Create,
    Decision,
    Describe,
    MarkCancelled,
    Reschedule,
    Settle,
    Wait,
    Withdraw,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import STRAY_LABEL, VERDICT_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Runs = Callable[..., RunView]
Jobs = Callable[..., JobSnapshot]
PATIENT = RunPolicy(provisioning_timeout_seconds=900, stall_timeout_seconds=200)
STOPPED = (1, "CANCELED")
TAKEN_AGAIN = Notes(due_attempt=2, rescheduled=True)


# --- whether it counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["provisioning-timeout", "start-timeout"])
@pytest.mark.parametrize(
    ("run", "notes", "sent", "expected"),
    [
        ({"state": RunState.PENDING}, NO_NOTES, False, Crash),
        ({"state": RunState.RUNNING}, NO_NOTES, False, MarkCancelled),
        ({"state": RunState.PAUSED}, NO_NOTES, False, MarkCancelled),
        (
            {"state": RunState.SCHEDULED, "previous": RunState.RUNNING},
            NO_NOTES,
            False,
            MarkCancelled,
        ),
        ({"state_id": "state-2"}, TAKEN_AGAIN, False, MarkCancelled),
        # Vertex AI had taken the cancel, and the flow began all the same.
        ({"state": RunState.RUNNING}, NO_NOTES, True, Crash),
        ({"state": RunState.SCHEDULED, "previous": RunState.RUNNING}, NO_NOTES, True, Crash),
        ({"state_id": "state-2"}, TAKEN_AGAIN, True, Crash),
    ],
)
def test_a_limit_of_waiting_ends_no_flow_that_began_unless_the_cancel_was_sent(  # noqa: PLR0913, PLR0917 - a row
    verdict: str,
    run: dict[str, Any],
    notes: Notes,
    sent: bool,  # noqa: FBT001 - of the table
    expected: type[Decision],
    a_run: Runs,
    a_job: Jobs,
    now: datetime,
) -> None:
    label = f"1:{verdict}:sent" if sent else f"1:{verdict}"
    view = a_run(labels={VERDICT_LABEL: label}, **run)

    decision = decide(view, [a_job("CANCELLED", error=STOPPED)], PATIENT, now, notes)

    assert isinstance(decision, expected)
    if isinstance(decision, Crash):
        assert decision.outcome.reason.value == verdict


# --- when it is withdrawn -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "run", "job", "notes", "expected"),
    [
        ("provisioning-timeout", {"state": RunState.RUNNING}, {}, {}, Withdraw),
        ("provisioning-timeout", {"state": RunState.PENDING}, {"started": 10}, {}, Withdraw),
        ("start-timeout", {"state": RunState.RUNNING}, {}, {}, Withdraw),
        ("start-timeout", {"state": RunState.PAUSED}, {}, {}, Withdraw),
        ("start-timeout", {"state": RunState.PENDING}, {"started": 10}, {}, Wait),
        (
            "start-timeout",
            {"state": RunState.PENDING},
            {"started": 900, "created": 999},
            {},
            CancelJob,
        ),
        ("stalled", {"state": RunState.RUNNING}, {}, {"silent": 10}, Withdraw),
        ("stalled", {"state": RunState.PAUSED}, {}, {}, Withdraw),
        ("stalled", {"state": RunState.RUNNING}, {}, {"silent": 200}, CancelJob),
        ("stalled", {"state": RunState.RUNNING}, {}, {}, Wait),
        # On its way out, or the cancel was sent a moment ago, or the row may be from before it.
        ("start-timeout", {"state": RunState.RUNNING}, {"state": "CANCELLING"}, {}, Wait),
        ("start-timeout", {"state": RunState.RUNNING}, {}, {"sent": 59}, Wait),
        ("start-timeout", {"state": RunState.RUNNING}, {}, {"sent": 60}, Withdraw),
        ("start-timeout", {"state": RunState.RUNNING}, {"described": False}, {}, Describe),
    ],
)
def test_the_reason_for_a_cancel_that_is_wanted_no_more_is_withdrawn(  # noqa: PLR0913, PLR0917 - a row
    verdict: str,
    run: dict[str, Any],
    job: dict[str, Any],
    notes: dict[str, float],
    expected: type[Decision],
    a_run: Runs,
    a_job: Jobs,
    now: datetime,
) -> None:
    snapshot = a_job(**{"state": "RUNNING", **job})
    view = a_run(**{"ago": 300, **run}, labels={VERDICT_LABEL: f"1:{verdict}"})
    known = Notes(
        last_sign=now - timedelta(seconds=notes["silent"]) if "silent" in notes else None,
        cancels={snapshot.resource_name.key: now - timedelta(seconds=notes["sent"])}
        if "sent" in notes
        else {},
    )

    assert isinstance(decide(view, [snapshot], PATIENT, now, known), expected)


# --- a job that was rescheduled and does not leave ------------------------------------------------


@pytest.mark.parametrize(
    ("label", "verdict"),
    [
        ("", "superseded"),
        ("1:superseded", None),
        ("1:stalled", None),
        ("1:start-timeout:sent", None),
        # Never carried out, and the flow ran since.
        ("1:start-timeout", "superseded"),
    ],
)
def test_an_attempt_that_has_a_reason_keeps_it(
    label: str, verdict: str | None, a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(state_id="state-2", ago=60, labels={VERDICT_LABEL: label})

    decision = decide(run, [a_job("RUNNING")], PATIENT, now, TAKEN_AGAIN)

    assert isinstance(decision, CancelJob)
    assert (decision.verdict and decision.verdict.value) == verdict


def test_it_is_described_before_it_is_cancelled(a_run: Runs, a_job: Jobs, now: datetime) -> None:
    job = a_job("RUNNING", described=False)

    decision = decide(a_run(state_id="state-2", ago=60), [job], PATIENT, now, TAKEN_AGAIN)

    assert decision == Describe(job.resource_name)


@pytest.mark.parametrize(("ran", "expected"), [(3500, Create), (3600, Crash)])
def test_one_whose_time_was_over_does_not_come_back(
    ran: float, expected: type[Decision], a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    run = a_run(state_id="state-2", labels={VERDICT_LABEL: "1:superseded:sent"})
    times = {"created": 9000, "started": ran + 200, "ended": 200}
    job = a_job("CANCELLED", error=STOPPED, **times)

    decision = decide(run, [job], RunPolicy(timeout_seconds=3600), now, TAKEN_AGAIN)

    assert isinstance(decision, expected)


# --- a job whose place another has ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "notes", "expected"),
    [
        ({"state": RunState.RUNNING}, NO_NOTES, Reschedule),
        ({"state": RunState.SCHEDULED, "previous": RunState.RUNNING}, NO_NOTES, Settle),
        ({"state_id": "state-2"}, TAKEN_AGAIN, Create),
    ],
)
def test_a_stray_that_began_as_we_cancelled_it_is_followed_by_the_next_attempt(
    run: dict[str, Any],
    notes: Notes,
    expected: type[Decision],
    a_run: Runs,
    a_job: Jobs,
    now: datetime,
) -> None:
    job = a_job("CANCELLED", error=STOPPED)
    view = a_run(labels={STRAY_LABEL: f"77 {job.resource_name.job_id}"}, **run)

    assert isinstance(decide(view, [job], PATIENT, now, notes), expected)


def test_a_stray_that_we_did_not_cancel_after_all_may_be_stopped_by_a_person(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    job = a_job("RUNNING")
    run = a_run(RunState.RUNNING, labels={STRAY_LABEL: job.resource_name.job_id})

    assert decide(run, [job], PATIENT, now) == Withdraw(job.resource_name, 1)
