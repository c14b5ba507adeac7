"""Signs of life of a run, read from a real server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest
from prefect import flow, task
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import LogCreate
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.runs import signs as module
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.runs.prefect import PrefectFlowRuns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio
RUNNING = State(type=StateType.RUNNING)


@task
def a_step() -> None:
    """Never called."""


@flow
def a_flow() -> None:
    """Never called."""


@pytest.fixture
async def view(runs: PrefectFlowRuns, pool: Pool) -> RunView:
    """A run that is Running."""
    run = await pool.run(StateType.RUNNING)
    view = await runs.read(str(run.id))
    assert view is not None
    return view


async def subflow(pool: Pool, parent: object, state: State | None = None) -> FlowRun:
    """A subflow run, as a flow that calls another makes it."""
    made = await pool.client.create_task_run(a_step, parent, dynamic_key="0", state=RUNNING)  # type: ignore[arg-type]
    child = await pool.client.create_flow_run(a_flow, parent_task_run_id=made.id)
    await pool.client.set_flow_run_state(child.id, state or RUNNING, force=True)
    return child


async def line(pool: Pool, run_id: object) -> datetime:
    """A log line of a time that nothing else has."""
    later = datetime.now(UTC) + timedelta(seconds=60)
    made = LogCreate(name="a", level=20, message="m", timestamp=later, flow_run_id=run_id)
    await pool.client.create_logs([made])
    return later


async def test_a_silent_run_has_its_state(runs: PrefectFlowRuns, view: RunView) -> None:
    assert await runs.last_sign(view) == view.state_time


async def test_a_step_and_a_line_of_the_run_itself_are_signs(
    runs: PrefectFlowRuns, pool: Pool, view: RunView
) -> None:
    made = await pool.client.create_task_run(
        a_step,
        view.id,  # type: ignore[arg-type]  # the client takes a text as well
        dynamic_key="0",
        state=RUNNING,
    )
    assert made.state is not None
    assert await runs.last_sign(view) == made.state.timestamp

    later = await line(pool, view.id)
    assert await runs.last_sign(view) == later


@pytest.mark.parametrize("depth", [1, 2, 4])
async def test_a_line_of_a_subflow_is_a_sign_at_any_depth(
    depth: int, runs: PrefectFlowRuns, pool: Pool, view: RunView
) -> None:
    below: object = view.id
    for _ in range(depth):
        below = (await subflow(pool, below)).id

    later = await line(pool, below)
    assert await runs.last_sign(view) == later


async def test_a_step_of_a_subflow_is_a_sign(
    runs: PrefectFlowRuns, pool: Pool, view: RunView
) -> None:
    child = await subflow(pool, view.id)
    made = await pool.client.create_task_run(a_step, child.id, dynamic_key="0", state=RUNNING)

    assert made.state is not None
    assert await runs.last_sign(view) == made.state.timestamp


async def test_of_very_many_subflows_those_at_work_are_read_whenever_they_began(
    runs: PrefectFlowRuns, pool: Pool, view: RunView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE_SIZE", 2)
    first = await subflow(pool, view.id)
    for _ in range(3):
        await subflow(pool, view.id, State(type=StateType.COMPLETED))

    later = await line(pool, first.id)
    assert await runs.last_sign(view) == later


@pytest.mark.parametrize("below", [False, True])
async def test_a_heartbeat_is_a_sign(
    *, below: bool, runs: PrefectFlowRuns, pool: Pool, view: RunView, api_url: str, until: Any
) -> None:
    run_id = (await subflow(pool, view.id)).id if below else view.id
    later = datetime.now(UTC) + timedelta(seconds=60)
    resource = {"prefect.resource.id": f"prefect.flow-run.{run_id}"}
    with temporary_settings({PREFECT_API_URL: api_url}):
        emit_event(event="prefect.flow-run.heartbeat", resource=resource, occurred=later)
        await anyio.to_thread.run_sync(EventsWorker.instance().wait_until_empty)

    async def beaten() -> bool:
        return await runs.last_sign(view) == later

    assert await until(beaten)


@pytest.fixture
def an_api_without_events() -> Iterator[Any]:
    """An API that knows of nothing, and answers a status for events."""
    servers: list[tuple[HTTPServer, Thread]] = []

    def start(status: int) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Nobody has to prove that it is a browser."""
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status if "events" in self.path else 200)
                self.send_header("Content-Length", "2")
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b"[]")

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/api"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_server_that_has_no_events_has_no_heartbeats(
    an_api_without_events: Any, view: RunView
) -> None:
    async with PrefectClient(an_api_without_events(404)) as client:
        assert await PrefectFlowRuns(client, "p").last_sign(view) == view.state_time


async def test_heartbeats_that_cannot_be_read_leave_it_open(
    an_api_without_events: Any, view: RunView
) -> None:
    async with PrefectClient(an_api_without_events(403)) as client:
        with pytest.raises(PrefectUnavailableError):
            await PrefectFlowRuns(client, "p").last_sign(view)
