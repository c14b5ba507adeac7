"""The watchdog: a running flow without a sign of life."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.case import Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import CancelJob, Crash, Decision, Describe, Wait
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import VERDICT_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Runs = Callable[..., RunView]
Jobs = Callable[..., JobSnapshot]
WATCHED = RunPolicy(stall_timeout_seconds=200)


@pytest.mark.parametrize(
    ("run", "job", "silent", "expected"),
    [
        ({}, {}, 200, CancelJob),
        ({}, {}, 199, Wait),
        ({"ago": 199}, {}, 900, Wait),
        ({}, {"started": 199}, 900, Wait),
        ({}, {"seen": 3}, 200, Describe),
        ({}, {"described": False}, 200, Describe),
        # Not read, or not watched.
        ({}, {}, None, Wait),
        ({"state": RunState.PAUSED}, {}, 9000, Wait),
        ({}, {"state": "CANCELLING"}, 9000, Wait),
    ],
)
def test_a_flow_without_a_sign_of_life_is_cancelled(
    run: dict[str, Any],
    job: dict[str, Any],
    silent: float | None,
    expected: type[Decision],
    now: datetime,
    decided: Callable[..., Decision],
) -> None:
    sign = None if silent is None else now - timedelta(seconds=silent)

    decision = decided({"state": RunState.RUNNING, **run}, job, WATCHED, Notes(last_sign=sign))

    assert isinstance(decision, expected)
    if isinstance(decision, CancelJob):
        assert decision.verdict is TerminationReason.STALLED


def test_without_a_limit_nobody_is_watched(now: datetime, decided: Callable[..., Decision]) -> None:
    notes = Notes(last_sign=now - timedelta(days=9))

    assert decided({"state": RunState.RUNNING}, {}, RunPolicy(), notes) == Wait()


def test_what_we_cancelled_for_its_silence_is_crashed_with_what_to_look_at(
    a_run: Runs, a_job: Jobs, now: datetime
) -> None:
    """Also where its container rescheduled it on the way out."""
    for state in (RunState.RUNNING, RunState.SCHEDULED):
        run = a_run(state, previous=RunState.RUNNING, labels={VERDICT_LABEL: "1:stalled"})

        decision = decide(run, [a_job("CANCELLED")], WATCHED, now)

        assert isinstance(decision, Crash)
        assert "no sign of life for 200 s" in decision.message
        assert "stall_timeout_seconds" in decision.message
