"""Signs of life of a flow run: what happens in it, in its subflow runs, and in theirs.

Its replicas' follower runs are subflow runs too.  A heartbeat is Prefect's own event, sent where
PREFECT_FLOWS_HEARTBEAT_FREQUENCY is set in the container.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort, LogSort, TaskRunSort
from prefect.events.filters import (
    EventFilter,
    EventNameFilter,
    EventOccurredFilter,
    EventResourceFilter,
)

from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.runs.asking import StatusError, asking
from prefect_vertex.runs.translate import as_aware

HEARTBEAT = "prefect.flow-run.heartbeat"
"""Prefect's event (3.9.1, flow_engine)."""

MAX_LEVELS = 8
"""How deep subflows are followed: a flow that calls itself is no reason to read for ever."""

MAX_RUNS = 1000
"""Of how many runs in all the logs and tasks are read, those that wait or run first."""

_PAGE_SIZE = 200
_UNENDED = [StateType.PENDING, StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING]


async def last_sign(client: PrefectClient, run: RunView) -> datetime:
    """When the run, or anything below it, last changed, wrote a line or sent a heartbeat.

    Of very many task runs the ones to start last are read; their ends stand in the log.

    Raises:
        PrefectUnavailableError: Something could not be read: the silence of the rest says nothing.
    """
    ids, signs = [uuid.UUID(run.id)], [run.state_time]
    level = ids
    for _ in range(MAX_LEVELS):
        found = await _children(client, level)
        signs += [as_aware(each.state.timestamp) for each in found if each.state is not None]
        level = [each.id for each in found if each.id not in ids][: MAX_RUNS - len(ids)]
        if not level:
            break
        ids = [*ids, *level]
    signs += await _of_logs(client, ids)
    signs += await _of_tasks(client, ids)
    signs += await _of_heartbeats(client, ids, run.state_time)
    return max(signs)


async def _children(client: PrefectClient, parents: Sequence[uuid.UUID]) -> list[FlowRun]:
    """Subflow runs: those that have not ended, then the others that were to start last."""
    wanted = FlowRunFilterParentFlowRunId(any_=list(parents))
    unended = FlowRunFilterState(type=FlowRunFilterStateType(any_=_UNENDED))
    found: dict[uuid.UUID, FlowRun] = {}
    for state in (unended, None):
        async with asking():
            page = await client.read_flow_runs(
                flow_run_filter=FlowRunFilter(parent_flow_run_id=wanted, state=state),
                sort=FlowRunSort.EXPECTED_START_TIME_DESC,
                limit=_PAGE_SIZE,
            )
        for each in page:
            found.setdefault(each.id, each)
    return list(found.values())


async def _of_logs(client: PrefectClient, ids: Sequence[uuid.UUID]) -> list[datetime]:
    async with asking():
        lines = await client.read_logs(
            LogFilter(flow_run_id=LogFilterFlowRunId(any_=list(ids))),
            limit=1,
            sort=LogSort.TIMESTAMP_DESC,
        )
    return [as_aware(line.timestamp) for line in lines]


async def _of_tasks(client: PrefectClient, ids: Sequence[uuid.UUID]) -> list[datetime]:
    async with asking():
        tasks = await client.read_task_runs(
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=list(ids))),
            sort=TaskRunSort.EXPECTED_START_TIME_DESC,
            limit=_PAGE_SIZE,
        )
    return [as_aware(each.state.timestamp) for each in tasks if each.state is not None]


async def _of_heartbeats(
    client: PrefectClient, ids: Sequence[uuid.UUID], since: datetime
) -> list[datetime]:
    wanted = EventFilter(
        event=EventNameFilter(name=[HEARTBEAT]),
        resource=EventResourceFilter(id=[f"prefect.flow-run.{each}" for each in ids]),
        # Clocks differ: one that goes ahead of ours is a sign too.
        occurred=EventOccurredFilter(since=since, until=datetime.now(UTC) + timedelta(days=1)),
    )
    try:
        async with asking():
            page = await client.read_events(wanted, limit=1)
    except StatusError:
        # A server without the events' API.
        return []
    return [as_aware(event.occurred) for event in page.events]
