"""PrefectFlowRuns: the pool's flow runs through Prefect's own client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
    Operator,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, StateType, WorkerStatus
from prefect.client.schemas.responses import SetStateStatus
from prefect.client.schemas.sorting import FlowRunSort

from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.planning.spelling import storable
from prefect_vertex.runs.artifacts import Artifacts, Written
from prefect_vertex.runs.asking import StatusError, asking
from prefect_vertex.runs.followers import orphaned_followers, unfinished_followers
from prefect_vertex.runs.once import SentOnce
from prefect_vertex.runs.port import PrefectUnavailableError, Proposal, Roster
from prefect_vertex.runs.signs import last_sign
from prefect_vertex.runs.submitters import is_submitter
from prefect_vertex.runs.telling import Teller, emit_job_event, write_line
from prefect_vertex.runs.translate import (
    as_aware,
    as_restored,
    needs_previous,
    overtaken_state,
    previous_state,
    to_state,
    to_view,
)

PAGE_SIZE = 200
"""The server's own maximum; 201 is refused (3.9.1)."""

_BEGUN = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]


class PrefectFlowRuns:
    """`FlowRuns` for one work pool.

    Args:
        client: Its own, entered; outlives the worker's.
        work_pool_name: Whose runs.
        lease_seconds: For how long a concurrency lease is renewed.
        teller: Who events say that they come from.
    """

    def __init__(
        self,
        client: PrefectClient,
        work_pool_name: str,
        *,
        lease_seconds: float = 300.0,
        teller: Teller | None = None,
    ) -> None:
        self._client = client
        self._artifacts = Artifacts(client)
        self._pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[work_pool_name]))
        self._pool_name = work_pool_name
        self._lease_seconds = lease_seconds
        self._teller = teller or Teller(pool_name=work_pool_name)
        self._sent_once = SentOnce()

    async def read(self, run_id: str) -> RunView | None:
        """Read one run, with its previous state where a decision needs it."""
        try:
            async with asking():
                run = await self._client.read_flow_run(uuid.UUID(run_id))
        except StatusError:
            return None
        return await self._complete(run)

    async def came_from(self, run: RunView) -> RunState | None:
        """The last state type that a waiting run was in before it waited."""
        async with asking():
            states = await self._client.read_flow_run_states(uuid.UUID(run.id))
        return previous_state(states, run.state)

    async def read_many(self, run_ids: Collection[str]) -> dict[str, RunView]:
        """Read runs by id, whatever their pool, a page at a time."""
        views: dict[str, RunView] = {}
        ids = [uuid.UUID(run_id) for run_id in sorted(run_ids)]
        for start in range(0, len(ids), PAGE_SIZE):
            chunk = FlowRunFilterId(any_=ids[start : start + PAGE_SIZE])
            async with asking():
                runs = await self._client.read_flow_runs(
                    flow_run_filter=FlowRunFilter(id=chunk),
                    limit=PAGE_SIZE,
                )
            for run in runs:
                views[str(run.id)] = await self._complete(run)
        return views

    async def cancelling_or_ended(self, since: datetime) -> list[RunView]:
        """The pool's runs that are Cancelling, and those that ended at or after a time.

        One question: it is asked at each tick, and each costs the worker and the server the same,
        however little is answered. Only a final run has an end time: the server takes it away from
        a run that goes on.
        """
        wanted = FlowRunFilter(
            operator=Operator.or_,  # type: ignore[call-arg] # a field, of a mixin that is no model
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLING])),
            end_time=FlowRunFilterEndTime(after_=since),
        )
        return await self._filtered(wanted)

    async def unfinished(self) -> list[RunView]:
        """All of the pool's runs that have begun and not ended, those that wait to retry too."""
        state = FlowRunFilterState(
            operator=Operator.or_,  # type: ignore[call-arg] # as above
            type=FlowRunFilterStateType(any_=_BEGUN),
            name=FlowRunFilterStateName(any_=["AwaitingRetry"]),
        )
        views = await self._filtered(FlowRunFilter(state=state))
        # A state of any type may have that name.
        return [view for view in views if not view.is_final]

    async def propose(self, run_id: str, proposal: Proposal) -> bool:
        """Propose a state, unforced; whether the server accepted it."""
        try:
            with self._sent_once():
                async with asking():
                    answer = await self._client.set_flow_run_state(run_id, to_state(proposal))
        except StatusError:
            return False
        return answer.status is SetStateStatus.ACCEPT

    async def restore(self, run: RunView) -> bool:
        """Give a waiting run back the state that a worker's late word took away, if one did."""
        run_id = uuid.UUID(run.id)
        async with asking():
            states = await self._client.read_flow_run_states(run_id)
        lost = overtaken_state(states)
        if lost is None or str(max(states, key=lambda state: state.timestamp).id) != run.state_id:
            return False
        try:
            with self._sent_once():
                async with asking():
                    # Not by set_flow_run_state, which would leave out the run's result.
                    await self._client.request(
                        "POST",
                        "/flow_runs/{id}/set_state",
                        path_params={"id": run_id},
                        json={"state": as_restored(lost), "force": True},
                    )
        except StatusError:
            return False
        return True

    async def label(self, run_id: str, labels: Mapping[str, str]) -> None:
        """Merge labels into the run's."""
        with suppress(StatusError):  # the run was deleted
            async with asking():
                await self._client.update_flow_run_labels(
                    uuid.UUID(run_id), {key: storable(value) for key, value in labels.items()}
                )

    async def name_infrastructure(self, run_id: str, identifier: str) -> None:
        """Write `infrastructure_pid`."""
        with suppress(StatusError):  # the run was deleted
            async with asking():
                await self._client.update_flow_run(
                    uuid.UUID(run_id),
                    infrastructure_pid=identifier,
                )

    async def hand_back(self, run_id: str) -> None:
        """Offer the run to the workers: the server hands out no run that retries in process."""
        with suppress(StatusError):  # the run was deleted
            async with asking():
                run = await self._client.read_flow_run(uuid.UUID(run_id))
                policy = run.empirical_policy.model_copy(update={"retry_type": "reschedule"})
                await self._client.update_flow_run(run.id, empirical_policy=policy)

    async def claim(self, run_id: str, key: str, value: str) -> str:
        """Claim a key for ever: the server answers 201 to the first and 409 to all others."""
        try:
            async with asking(HTTPStatus.CONFLICT):
                await self._client.create_flow_run_input(uuid.UUID(run_id), key, value)
        except StatusError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return ""
            return await self.read_claim(run_id, key)
        return value

    async def read_claim(self, run_id: str, key: str) -> str:
        """The value that holds a claim, empty if nobody does."""
        try:
            async with asking():
                return await self._client.read_flow_run_input(uuid.UUID(run_id), key)
        except StatusError:
            return ""

    async def has_claim(self, run_id: str, prefix: str) -> bool:
        """Whether anybody holds a key that begins so; one request, however many do."""
        async with asking():
            held = await self._client.filter_flow_run_input(uuid.UUID(run_id), prefix, 1, set())
        return bool(held)

    async def followers(self, leader_ids: Collection[str]) -> list[RunView]:
        """The follower flow runs of these runs that have not ended; they are in no pool."""
        return await unfinished_followers(self._client, leader_ids)

    async def followers_of_deleted(
        self, leader_id: str, attempt: int, replicas: int
    ) -> list[RunView]:
        """The same of one attempt of a run that does not exist any more, by idempotency key."""
        return await orphaned_followers(self._client, leader_id, attempt, replicas)

    async def renew_lease(self, lease_id: str) -> bool:
        """Renew a concurrency lease; False if the server has lost it."""
        try:
            async with asking(HTTPStatus.GONE):
                await self._client.renew_concurrency_lease(
                    uuid.UUID(lease_id),
                    self._lease_seconds,
                )
        except StatusError as error:
            if error.status != HTTPStatus.GONE:
                # Of a lease that it has lost the server says "gone"; this was not the server.
                raise PrefectUnavailableError(
                    f"The Prefect API answered {error.status} to the renewal of a lease.",
                ) from error
            return False
        return True

    async def roster(self) -> Roster:
        """The pool's workers by Prefect's heartbeat; no submitter is online, it takes no runs."""
        async with asking():
            workers = await self._client.read_workers_for_work_pool(self._pool_name)
        offline = {worker.name for worker in workers if worker.status is WorkerStatus.OFFLINE}
        online = {worker.name for worker in workers if not is_submitter(worker.name)} - offline
        beats = [worker.last_heartbeat_time for worker in workers]
        heard_at = max((as_aware(each) for each in beats if each is not None), default=None)
        return Roster(online=frozenset(online), offline=frozenset(offline), heard_at=heard_at)

    async def last_sign(self, run: RunView) -> datetime:
        """The newest sign of life of the run and its subflow runs; see `signs`."""
        return await last_sign(self._client, run)

    async def publish(
        self, run: RunView, key: str, rows: Sequence[Mapping[str, str]], description: str
    ) -> None:
        """Write a table artifact in the place of the run's last one of that key."""
        data = json.dumps([{name: storable(value) for name, value in row.items()} for row in rows])
        await self._artifacts.write(run.id, Written(key, "table", data, description))

    def log(self, run: RunView, level: int, message: str) -> None:
        """Write a line to the run's log."""
        write_line(run, self._pool_name, level, message)

    def emit(
        self,
        run: RunView,
        event: str,
        key: str,
        payload: Mapping[str, str],
        *,
        at: datetime | None = None,
    ) -> None:
        """Emit an event about the run's job; the same run, event and key are one event."""
        emit_job_event(run, event, key, payload, teller=self._teller, at=at)

    async def _filtered(self, wanted: FlowRunFilter) -> list[RunView]:
        """The pool's runs that pass a filter, every page."""
        views: list[RunView] = []
        seen: set[str] = set()
        offset = 0
        while True:
            async with asking():
                page = await self._client.read_flow_runs(
                    flow_run_filter=wanted,
                    work_pool_filter=self._pool,
                    sort=FlowRunSort.EXPECTED_START_TIME_ASC,
                    limit=PAGE_SIZE,
                    offset=offset,
                )
            fresh = [run for run in page if str(run.id) not in seen]
            seen.update(str(run.id) for run in fresh)
            views.extend([await self._complete(run) for run in fresh])
            if len(page) < PAGE_SIZE:
                return views
            offset += PAGE_SIZE

    async def _complete(self, run: FlowRun) -> RunView:
        view = to_view(run, observed_at=datetime.now(UTC))
        if not needs_previous(view):
            return view
        return replace(view, previous=await self.came_from(view))
