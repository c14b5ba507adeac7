"""One Prefect server for all tests here; each test has a pool, a flow and a deployment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events.worker import EventsWorker
from prefect.logging.configuration import setup_logging
from prefect.logging.handlers import APILogWorker
from tests.laptop import opened_laptop

from prefect_vertex.runs.prefect import PrefectFlowRuns


@dataclass
class Pool:
    """A work pool, a flow and a deployment on the server."""

    client: PrefectClient
    name: str
    flow_id: UUID
    deployment_id: UUID

    async def run(
        self, kind: StateType = StateType.SCHEDULED, name: str = "", **fields: Any
    ) -> FlowRun:
        """A run of the deployment, put into a state as by its container or a person."""
        run = await self.client.create_flow_run_from_deployment(self.deployment_id)
        if kind is not StateType.SCHEDULED:
            # A run that was never taken is Cancelled where Cancelling is asked for.
            await self.put(run, StateType.PENDING)
        if kind not in {StateType.SCHEDULED, StateType.PENDING} or name:
            await self.put(run, kind, name)
        if fields:
            await self.client.update_flow_run(run.id, **fields)
        return await self.client.read_flow_run(run.id)

    async def limited_run(self) -> FlowRun:
        """A run of a deployment that allows one at a time."""
        deployment_id = await self.client.create_deployment(
            self.flow_id, "limited", work_pool_name=self.name, concurrency_limit=1
        )
        return await self.client.create_flow_run_from_deployment(deployment_id)

    async def put(self, run: FlowRun, kind: StateType, name: str = "") -> None:
        """Put a run into a state, whatever it was in."""
        state = State(type=kind, name=name or kind.value.capitalize())
        await self.client.set_flow_run_state(run.id, state, force=True)

    async def offered(self) -> set[UUID]:
        """Runs that a worker of the pool is offered."""
        answers = await self.client.get_scheduled_flow_runs_for_work_pool(
            self.name, scheduled_before=datetime.now(UTC)
        )
        return {answer.flow_run.id for answer in answers}


@pytest.fixture
def until() -> Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]:
    """Ask until the answer is true, for at most so many seconds."""

    async def wait(ask: Callable[[], Awaitable[Any]], *, seconds: float = 45) -> Any:
        with anyio.fail_after(seconds):
            while True:
                if answer := await ask():
                    return answer
                await anyio.sleep(0.2)

    return wait


@pytest.fixture(scope="module", autouse=True)
def _prefect_threads() -> None:
    """Start with no background thread of Prefect's: one that is left speaks to another server."""
    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)
    # As every Prefect process does that has a flow or a worker; without it no line is sent.
    setup_logging()


@pytest.fixture(scope="session")
def api_url() -> Iterator[str]:
    """A real server on a free port, with a home of its own."""
    with opened_laptop("runs") as (stack, _):
        yield stack.api_url


@pytest.fixture
async def client(api_url: str) -> AsyncIterator[PrefectClient]:
    """A client of the server."""
    async with PrefectClient(api_url) as client:
        yield client


@pytest.fixture
async def pool(client: PrefectClient) -> Pool:
    """A fresh pool."""
    name = f"pool-{uuid4().hex[:8]}"
    await client.create_work_pool(WorkPoolCreate(name=name, type="vertex-custom-job"))
    flow_id = await client.create_flow_from_name(name)
    deployment_id = await client.create_deployment(flow_id, name, work_pool_name=name)
    return Pool(client, name, flow_id, deployment_id)


@pytest.fixture
def runs(client: PrefectClient, pool: Pool) -> PrefectFlowRuns:
    """The adapter for that pool."""
    return PrefectFlowRuns(client, pool.name)
