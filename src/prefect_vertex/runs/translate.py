"""From Prefect's objects to `RunView`, and from `Proposal` to Prefect's states."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from prefect.client.schemas.actions import StateCreate
from prefect.client.schemas.objects import FlowRun, State, StateType

from prefect_vertex.lifecycle.history import PastState, overtaken
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.planning.spelling import storable
from prefect_vertex.runs.port import Proposal

_NOT_YET = frozenset({RunState.SCHEDULED, RunState.PENDING})


def to_view(run: FlowRun, *, observed_at: datetime, previous: RunState | None = None) -> RunView:
    """Copy what a decision needs."""
    state = run.state
    policy = run.empirical_policy
    details = state.state_details if state is not None else None
    lease = getattr(details, "deployment_concurrency_lease_id", None)
    return RunView(
        id=str(run.id),
        name=run.name,
        # A run without a state is one that nobody has scheduled yet.
        state=RunState(state.type.value) if state is not None else RunState.SCHEDULED,
        state_name=(state.name or "") if state is not None else "",
        state_id=str(state.id) if state is not None else "",
        state_time=as_aware(state.timestamp) if state is not None else observed_at,
        observed_at=observed_at,
        previous=previous,
        suspended=bool(details is not None and details.pause_reschedule),
        retries_in_process=policy.retry_type == "in_process",
        lease_id=str(lease) if lease else "",
        identifier=run.infrastructure_pid or "",
        deployment_id=str(run.deployment_id) if run.deployment_id else "",
        flow_id=str(run.flow_id),
        tags=tuple(sorted(run.tags or ())),
        labels={key: str(value) for key, value in (run.labels or {}).items()},
    )


def needs_previous(run: RunView) -> bool:
    """Whether a decision asks where the run came from; not for one that has never had a job."""
    if run.state is RunState.CANCELLING:
        return True
    return run.state is RunState.SCHEDULED and bool(run.attempt or run.identifier)


def previous_state(states: Sequence[State], current: RunState) -> RunState | None:
    """Where a run came from: for Cancelling the state type before it, else the last that had begun.

    Args:
        states: The run's whole history, in any order.
        current: The type that it is in now.
    """
    skipped = _NOT_YET if current in _NOT_YET else {current}
    ordered = sorted(states, key=lambda state: as_aware(state.timestamp))
    for state in reversed(ordered):
        if (kind := RunState(state.type.value)) not in skipped:
            return kind
    return None


def overtaken_state(states: Sequence[State]) -> State | None:
    """The state that a worker's late word took away; None if none did.

    Args:
        states: The run's whole history, in any order.
    """
    ordered = sorted(states, key=lambda state: as_aware(state.timestamp))
    place = overtaken(
        [
            PastState(RunState(state.type.value), state.name or "", state.message or "")
            for state in ordered
        ],
    )
    return None if place is None else ordered[place]


def as_restored(state: State) -> dict[str, Any]:
    """A past state as a request to enter it again; its result stays with it."""
    details = state.state_details.model_copy(update={"transition_id": uuid4()})
    create = StateCreate(
        type=state.type,
        name=state.name,
        message=state.message,
        data=state.data,
        state_details=details,
    )
    return create.model_dump(mode="json", serialize_as_any=True)


def to_state(proposal: Proposal) -> State:
    """Prefect's state for a proposal."""
    return State(
        type=StateType(proposal.state.value),
        name=proposal.name,
        message=storable(proposal.message),
    )


def as_aware(moment: datetime) -> datetime:
    """A time of the API's, which are in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
