"""The flow runs of replicas other than the leader, found by what the leader's run is to them.

They belong to no deployment and no work pool, so no query for the pool's runs shows them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterIdempotencyKey,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.client.schemas.sorting import FlowRunSort

from prefect_vertex.lifecycle.run import LEADER_LABEL, RunView
from prefect_vertex.runs.asking import asking
from prefect_vertex.runs.translate import to_view

PAGE_SIZE = 200
"""The server's own maximum; 201 is refused (3.9.1)."""

_UNFINISHED = FlowRunFilterState(
    type=FlowRunFilterStateType(any_=[kind for kind in StateType if kind not in TERMINAL_STATES])
)


async def unfinished_followers(client: PrefectClient, leader_ids: Collection[str]) -> list[RunView]:
    """The followers of these runs that have not ended, of all attempts.

    Flows that a leader calls by itself are its children too, but carry no leader's label.
    """
    ids = [uuid.UUID(leader_id) for leader_id in sorted(leader_ids)]
    views: list[RunView] = []
    for start in range(0, len(ids), PAGE_SIZE):
        parents = FlowRunFilterParentFlowRunId(any_=ids[start : start + PAGE_SIZE])
        wanted = FlowRunFilter(parent_flow_run_id=parents, state=_UNFINISHED)
        views += await _read_all(client, wanted)
    return [view for view in views if view.labels.get(LEADER_LABEL) in leader_ids]


async def crashed_followers(client: PrefectClient, leader: RunView) -> list[RunView]:
    """The followers of a run's last attempt that crashed, the first to die first."""
    wanted = FlowRunFilter(
        parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[uuid.UUID(leader.id)]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CRASHED])),
    )
    views = await _read_all(client, wanted)
    own = [view for view in views if view.labels.get(LEADER_LABEL) == leader.id]
    own = [view for view in own if view.attempt == leader.attempt]
    return sorted(own, key=lambda view: view.state_time)


async def orphaned_followers(
    client: PrefectClient, leader_id: str, attempt: int, replicas: int
) -> list[RunView]:
    """The followers of one attempt that have not ended, though their leader's run was deleted.

    Its task runs went with it, and with them the link from parent to child.
    """
    keys = [f"prefect-vertex:{leader_id}:a{attempt}:r{rank}" for rank in range(1, replicas)]
    views: list[RunView] = []
    for start in range(0, len(keys), PAGE_SIZE):
        wanted = FlowRunFilterIdempotencyKey(any_=keys[start : start + PAGE_SIZE])
        found = await _read_all(client, FlowRunFilter(idempotency_key=wanted, state=_UNFINISHED))
        views += found
    return views


async def _read_all(client: PrefectClient, wanted: FlowRunFilter) -> list[RunView]:
    """Every page, by id: what ends between two pages must not hide another run."""
    views: dict[str, RunView] = {}
    seen: list[uuid.UUID] = []
    while True:
        rest = wanted.model_copy(update={"id": FlowRunFilterId(not_any_=seen)}) if seen else wanted
        async with asking():
            page = await client.read_flow_runs(
                flow_run_filter=rest, sort=FlowRunSort.ID_DESC, limit=PAGE_SIZE
            )
        seen += [run.id for run in page]
        now = datetime.now(UTC)
        views |= {str(run.id): to_view(run, observed_at=now) for run in page}
        if len(page) < PAGE_SIZE:
            return list(views.values())
