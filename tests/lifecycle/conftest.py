"""Builders with defaults: a test says only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
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
    HandBack,
    Hop,
    Look,
    MarkCancelled,
    Requeue,
    Reschedule,
    Settle,
    Show,
    Wait,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, WAIT_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import phase_of
from prefect_vertex.planning import naming
from prefect_vertex.planning.naming import ResourceName

RUN_ID = "0f1e2d3c-1111-4222-8333-444455556666"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORDS: dict[type[Any], str] = {
    Wait: "wait",
    Create: "create",
    Look: "look",
    Describe: "read",
    Show: "show",
    CancelJob: "cancel",
    Crash: "crash",
    Hop: "hop",
    MarkCancelled: "cancelled",
    Reschedule: "again",
    HandBack: "back",
    Requeue: "requeue",
    Settle: "settle",
}


@pytest.fixture(scope="session")
def now() -> datetime:
    """The moment at which the tests decide."""
    return NOON


@pytest.fixture(scope="session")
def word() -> Callable[[Decision], str]:
    """The kind of a decision, as the tables spell it."""
    return lambda decision: WORDS[type(decision)]


@pytest.fixture(scope="session")
def a_run() -> Callable[..., RunView]:
    """A run in a state that it entered ten minutes ago, its first attempt announced in it.

    `ago` is how many seconds ago it entered its state; `labels` adds to its labels.  With another
    `state_id` it has become Pending anew since.
    """

    def build(
        state: RunState = RunState.PENDING,
        *,
        ago: float = 600,
        attempt: int = 1,
        labels: dict[str, str] | None = None,
        **fields: Any,
    ) -> RunView:
        announced = {ATTEMPT_LABEL: str(attempt), WAIT_LABEL: "state-1"} if attempt else {}
        values: dict[str, Any] = {
            "id": RUN_ID,
            "name": "crafty-mongoose",
            "state_name": state.value.capitalize(),
            "state_time": NOON - timedelta(seconds=ago),
            "observed_at": NOON,
            "deployment_id": "a-deployment",
            "state_id": "state-1",
            **fields,
        }
        return RunView(state=state, labels={**announced, **(labels or {})}, **values)

    return build


@pytest.fixture(scope="session")
def a_job() -> Callable[..., JobSnapshot]:
    """A job just described: created ten minutes ago, running since five, if it ever ran.

    `started`, `ended`, `created`, `seen` say how many seconds ago; `error` is a code and a text.
    """

    def build(  # noqa: PLR0913 - a builder
        state: str = "RUNNING",
        *,
        attempt: int = 1,
        job_id: str = "",
        created: float = 600,
        started: float | None = None,
        ended: float | None = None,
        seen: float = 0,
        error: tuple[int, str] | None = None,
        **fields: Any,
    ) -> JobSnapshot:
        phase = phase_of(f"JOB_STATE_{state}")
        if started is None and not phase.is_waiting:
            started = min(300, created)
        if ended is None and phase.is_terminal:
            ended = 240

        def moment(ago: float | None) -> datetime | None:
            return None if ago is None or ago < 0 else NOON - timedelta(seconds=ago)

        return JobSnapshot(
            resource_name=ResourceName("42", "us-central1", job_id or f"10{attempt}"),
            display_name=f"job-a{attempt}",
            phase=phase,
            state=f"JOB_STATE_{state}",
            observed_at=NOON - timedelta(seconds=seen),
            create_time=NOON - timedelta(seconds=created),
            start_time=moment(started),
            end_time=moment(ended),
            error=JobError(code=error[0], message=error[1]) if error else None,
            labels={
                naming.FLOW_RUN_LABEL: RUN_ID,
                **({naming.ATTEMPT_LABEL: str(attempt)} if attempt else {}),
            },
            **{"described": True, **fields},
        )

    return build


@pytest.fixture(scope="session")
def an_ended_job(a_job: Callable[..., JobSnapshot]) -> Callable[..., JobSnapshot]:
    """A terminal job with the error that usually goes with its state."""
    errors = {
        "FAILED": (3, "The replica workerpool0-0 exited with a non-zero status of 1."),
        "CANCELLED": (1, "CANCELED"),
    }

    def build(state: str, **fields: Any) -> JobSnapshot:
        return a_job(state, **{"error": errors.get(state), **fields})

    return build


@pytest.fixture(scope="session")
def decided(
    a_run: Callable[..., RunView], a_job: Callable[..., JobSnapshot]
) -> Callable[..., Decision]:
    """What is decided for one run and its one job, each given by what is special about it."""

    def build(
        run: Mapping[str, Any],
        job: Mapping[str, Any] | None,
        policy: RunPolicy | None = None,
        notes: Notes = NO_NOTES,
    ) -> Decision:
        jobs = [] if job is None else [a_job(**job)]
        return decide(a_run(**run), jobs, policy or RunPolicy(), NOON, notes)

    return build
