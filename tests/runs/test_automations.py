"""Events on a real server: what they name, that they are one, and the automation in the docs."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio.to_thread
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.chronicle.events import CRASHED_EVENT
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.runs.prefect import PrefectFlowRuns
from prefect_vertex.runs.telling import Teller

if TYPE_CHECKING:
    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio
Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
DOCS = Path(__file__).parents[2] / "docs" / "automations.md"
A_JOB = "projects/1/locations/us-central1/customJobs/4711"


def teller(pool: Pool, name: str = "Worker One") -> Teller:
    return Teller(pool_name=pool.name, pool_id="a-pool-id", worker_name=name)


async def view_of(runs: PrefectFlowRuns, pool: Pool, kind: StateType) -> RunView:
    """A run in a state."""
    view = await runs.read(str((await pool.run(kind)).id))
    assert view is not None
    return view


async def sent() -> None:
    """Wait until events have left: Prefect's own queue takes no two of one id at a time."""
    await anyio.to_thread.run_sync(EventsWorker.instance().wait_until_empty)


async def events(client: PrefectClient, name: str, run: RunView) -> list[dict[str, Any]]:
    """The events of that name about a run."""
    wanted = {"event": {"name": [name]}, "any_resource": {"id": [f"prefect.flow-run.{run.id}"]}}
    answer = await client.request("POST", "/events/filter", json={"filter": wanted})
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


async def test_an_event_that_two_workers_tell_is_one(
    client: PrefectClient, pool: Pool, api_url: str, until: Until
) -> None:
    """With the job's own time, its reason as a label, and everything that it belongs to."""
    told_at = datetime.now(UTC) - timedelta(seconds=90)
    workers = [PrefectFlowRuns(client, pool.name, teller=teller(pool, each)) for each in "ab"]
    view = await view_of(workers[0], pool, StateType.PENDING)
    payload = {"resource_name": A_JOB, "reason": "no-capacity", "location": "us-central1"}
    name = "prefect-vertex.job.failed"
    with temporary_settings({PREFECT_API_URL: api_url}):
        for worker in workers:
            worker.emit(view, name, "us-central1/4711/failed", payload, at=told_at)
            await sent()
        workers[0].emit(view, "prefect-vertex.job.last", "x", payload)
    await until(lambda: events(client, "prefect-vertex.job.last", view))
    (event,) = await events(client, name, view)

    assert datetime.fromisoformat(event["occurred"]) == told_at
    assert event["resource"]["prefect.resource.id"] == f"prefect-vertex.job.{A_JOB}"
    assert event["resource"]["prefect-vertex.reason"] == "no-capacity"
    related = {
        each["prefect.resource.role"]: each["prefect.resource.id"] for each in event["related"]
    }
    assert related == {
        "flow-run": f"prefect.flow-run.{view.id}",
        "flow": f"prefect.flow.{pool.flow_id}",
        "deployment": f"prefect.deployment.{pool.deployment_id}",
        "work-pool": "prefect.work-pool.a-pool-id",
        "worker": "prefect.worker.vertex-custom-job.a",
    }


def documented(pool_name: str) -> dict[str, Any]:
    """The automation as the docs have it, for a test's pool."""
    (text,) = re.findall(r"```json\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    automation: dict[str, Any] = json.loads(text.replace("vertex-forecast", pool_name))
    return automation


async def test_the_documented_automation_runs_again_what_found_no_machines(
    client: PrefectClient, pool: Pool, api_url: str, until: Until
) -> None:
    """A run that crashed for another reason stays as it is, and one event acts once."""
    runs = PrefectFlowRuns(client, pool.name, teller=teller(pool))
    answer = await client.request("POST", "/automations/", json=documented(pool.name))
    assert answer.status_code == 201, answer.text
    without, broken, later = [await view_of(runs, pool, StateType.CRASHED) for _ in range(3)]

    async def offered() -> bool:
        return {UUID(each.id) for each in (without, later)} <= await pool.offered()

    with temporary_settings({PREFECT_API_URL: api_url}):
        runs.emit(broken, CRASHED_EVENT, broken.state_id, {"reason": "out-of-memory"})
        for _ in range(2):
            runs.emit(without, CRASHED_EVENT, without.state_id, {"reason": "no-capacity"})
            await sent()
        runs.emit(later, CRASHED_EVENT, later.state_id, {"reason": "no-capacity"})
        await until(offered)

    names = [state.name for state in await client.read_flow_run_states(UUID(without.id))]
    assert names.count("Scheduled") == 2  # the first, and the automation's
    assert UUID(broken.id) not in await pool.offered()
    state = (await client.read_flow_run(UUID(without.id))).state
    assert state is not None
    assert "looking for them again" in (state.message or "")
