"""From Prefect's objects to RunView and from Proposal to Prefect's states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy, State, StateDetails, StateType

from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, RunState
from prefect_vertex.runs.port import Proposal
from prefect_vertex.runs.translate import needs_previous, previous_state, to_state, to_view

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_run(state: State | None = None, **fields: Any) -> FlowRun:
    return FlowRun(id=uuid4(), name="crafty-mongoose", flow_id=uuid4(), state=state, **fields)


def a_state(kind: StateType = StateType.RUNNING, **fields: Any) -> State:
    return State(**{"type": kind, "timestamp": NOW, **fields})


def test_our_states_are_prefects() -> None:
    assert {state.value for state in RunState} == {kind.value for kind in StateType}
    assert {state for state in RunState if state.is_final} == {
        RunState(kind.value) for kind in StateType if State(type=kind).is_final()
    }


def test_what_a_view_holds() -> None:
    lease = uuid4()
    state = a_state(
        StateType.PENDING,
        name="Provisioning",
        state_details=StateDetails(deployment_concurrency_lease_id=lease),
    )
    run = a_run(
        state,
        infrastructure_pid="projects/p/locations/l/customJobs/1",
        deployment_id=uuid4(),
        labels={ATTEMPT_LABEL: 2, "plain": True},
        empirical_policy=FlowRunPolicy(retry_type="in_process"),
    )

    view = to_view(run, observed_at=NOW, previous=RunState.RUNNING)

    assert (view.id, view.name) == (str(run.id), "crafty-mongoose")
    assert (view.state, view.state_name) == (RunState.PENDING, "Provisioning")
    assert (view.state_id, view.state_time, view.observed_at) == (str(state.id), NOW, NOW)
    assert view.previous is RunState.RUNNING
    assert view.lease_id == str(lease)
    assert view.identifier == "projects/p/locations/l/customJobs/1"
    assert view.deployment_id == str(run.deployment_id)
    assert view.labels == {ATTEMPT_LABEL: "2", "plain": "True"}
    assert view.attempt == 2
    assert view.retries_in_process


def test_what_a_view_lacks_is_empty() -> None:
    view = to_view(a_run(), observed_at=NOW)

    assert view.state is RunState.SCHEDULED
    assert view.state_time == NOW
    assert view.lease_id == view.identifier == view.deployment_id == view.state_id == ""
    assert view.labels == {}
    assert not view.suspended
    assert not view.retries_in_process


@pytest.mark.parametrize(("reschedules", "suspended"), [(True, True), (False, False)])
def test_a_pause_that_ended_the_process_is_told_from_one_that_blocks_it(
    *, reschedules: bool, suspended: bool
) -> None:
    details = StateDetails(pause_reschedule=reschedules)
    state = a_state(StateType.PAUSED, state_details=details)

    assert to_view(a_run(state), observed_at=NOW).suspended is suspended


@pytest.mark.parametrize("kind", StateType)
def test_a_proposal_is_a_state_of_its_type_with_its_name_and_message(kind: StateType) -> None:
    proposal = Proposal(state=RunState(kind.value), name="A name", message="Because.")

    state = to_state(proposal)

    assert (state.type, state.name, state.message) == (kind, "A name", "Because.")


def test_a_state_s_message_holds_nothing_that_postgresql_refuses() -> None:
    """Wherever its words come from: a state that is refused would leave the run as it is."""
    proposal = Proposal(state=RunState.CRASHED, name="Crashed", message="exited: \0bad")

    assert to_state(proposal).message == "exited: bad"


def test_a_run_that_is_scheduled_is_due_at_once() -> None:
    proposal = Proposal(state=RunState.SCHEDULED, name="AwaitingRetry", message="")

    due = to_state(proposal).state_details.scheduled_time

    assert due is not None
    assert due <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("kind", "attempted", "expected"),
    [
        (StateType.CANCELLING, False, True),
        (StateType.CANCELLING, True, True),
        (StateType.SCHEDULED, True, True),
        (StateType.SCHEDULED, False, False),
        (StateType.PENDING, True, False),
        (StateType.RUNNING, True, False),
        (StateType.COMPLETED, True, False),
    ],
)
def test_where_a_run_came_from_is_read_only_where_a_decision_asks(
    kind: StateType, *, attempted: bool, expected: bool
) -> None:
    run = a_run(a_state(kind), infrastructure_pid="a-job" if attempted else None)

    assert needs_previous(to_view(run, observed_at=NOW)) is expected


# A run's history, the type that it is in now, and the type that it came from.
HISTORIES = """
SCHEDULED PENDING                                             | PENDING    | -
SCHEDULED PENDING PENDING                                     | PENDING    | -
SCHEDULED PENDING RUNNING SCHEDULED                           | SCHEDULED  | RUNNING
SCHEDULED PENDING RUNNING SCHEDULED PENDING                   | PENDING    | RUNNING
SCHEDULED PENDING RUNNING CRASHED SCHEDULED PENDING           | PENDING    | CRASHED
SCHEDULED PENDING RUNNING PAUSED SCHEDULED                    | SCHEDULED  | PAUSED
SCHEDULED PENDING RUNNING SCHEDULED PENDING SCHEDULED PENDING | PENDING    | RUNNING
SCHEDULED PENDING CANCELLING                                  | CANCELLING | PENDING
SCHEDULED PENDING RUNNING CANCELLING                          | CANCELLING | RUNNING
SCHEDULED PENDING RUNNING SCHEDULED CANCELLING                | CANCELLING | SCHEDULED
SCHEDULED PENDING RUNNING CANCELLING CANCELLING               | CANCELLING | RUNNING
CANCELLING                                                    | CANCELLING | -
"""


@pytest.mark.parametrize(
    ("history", "current", "expected"),
    [[part.strip() for part in line.split("|")] for line in HISTORIES.strip().splitlines()],
)
def test_where_a_run_came_from(history: str, current: str, expected: str) -> None:
    states = [
        a_state(StateType(kind), timestamp=NOW + timedelta(seconds=second))
        for second, kind in enumerate(history.split())
    ]

    came_from = previous_state(list(reversed(states)), RunState(current))

    assert (came_from.value if came_from else "-") == expected
