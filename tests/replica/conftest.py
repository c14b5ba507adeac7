"""A real storage server, a real Prefect server, and replicas that are threads or processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from tests.laptop import opened_laptop

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import LocalStack
from prefect_vertex.cli.storage import StorageServer
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership

BEAT_SECONDS = 0.1


def _wait_until(condition: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (seen := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.02)
    return seen


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """Wait for a condition, and fail the test when it does not come."""
    return _wait_until


# --- the meeting place ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _storage_server() -> Iterator[StorageServer]:
    with StorageServer() as server:
        yield server


@pytest.fixture
def storage_url(_storage_server: StorageServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where Cloud Storage is; also in the environment."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", _storage_server.address)
    return _storage_server.address


@pytest.fixture
def staging(_storage_server: StorageServer, storage_url: str) -> str:
    """A bucket of this test's own, with a prefix."""
    bucket = f"staging-{uuid4().hex[:8]}"
    _storage_server.create_bucket(bucket)
    return f"gs://{bucket}/some/prefix"


@pytest.fixture
def members(staging: str) -> Callable[..., list[Membership]]:
    """So many replicas of one attempt of one run."""
    run_id = str(uuid4())

    def make(world_size: int, **fields: Any) -> list[Membership]:
        common: dict[str, Any] = {
            "leader_id": run_id,
            "staging": staging,
            "heartbeat_seconds": BEAT_SECONDS,
            "loss_seconds": 0,
            **fields,
        }
        return [
            Membership(rank=rank, world_size=world_size, **common) for rank in range(world_size)
        ]

    return make


@dataclass
class Doing:
    """Something that a replica does in a thread."""

    thread: threading.Thread
    result: list[Any] = field(default_factory=list)
    error: list[BaseException] = field(default_factory=list)

    def end(self, seconds: float = 20) -> Any:
        """What it returned; what it raised is raised here."""
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "it still waits"
        if self.error:
            raise self.error[0]
        return self.result[0]


@pytest.fixture
def doing() -> Callable[..., Doing]:
    """Let a replica do something that blocks, in a thread."""

    def start(act: Callable[..., Any], *args: Any) -> Doing:
        def run() -> None:
            try:
                done.result.append(act(*args))
            except BaseException as error:  # noqa: BLE001 - the test gets it
                done.error.append(error)

        done = Doing(threading.Thread(target=run, daemon=True))
        done.thread.start()
        return done

    return start


@pytest.fixture
def beating(wait_until: Callable[..., Any]) -> Iterator[Callable[[Membership], None]]:
    """Let a replica give signs of life until the test ends."""
    stopped = threading.Event()
    threads: list[threading.Thread] = []

    def start(member: Membership) -> None:
        def run() -> None:
            meeting = Meeting(member)
            while not stopped.wait(member.heartbeat_seconds / 2):
                meeting.say_alive()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        meeting = Meeting(member)
        wait_until(lambda: member.rank in meeting.signs_of_life(), "the first sign of life")

    yield start
    stopped.set()
    for thread in threads:
        thread.join()


# --- Prefect -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _prefect_threads() -> Iterator[None]:
    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)
    yield
    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)


@pytest.fixture(scope="session")
def _stack() -> Iterator[LocalStack]:
    with opened_laptop("replica") as (stack, _):
        yield stack


@dataclass
class Prefect:
    """A Prefect server with a leader's run in it."""

    client: SyncPrefectClient
    stack: LocalStack
    children: Children
    folder: Path

    def leader(self, **parameters: Any) -> FlowRun:
        """A run that has begun."""
        flow_id = self.client.create_flow_from_name("a-flow")
        answer = self.client.request(
            "POST",
            "/flow_runs/",
            json={
                "flow_id": str(flow_id),
                "name": "amber-lion",
                "parameters": parameters,
                "tags": ["a-tag"],
                "state": {"type": "RUNNING"},
            },
        )
        return FlowRun.model_validate(answer.json())

    def put(self, run_id: UUID, kind: str, message: str = "") -> None:
        """Put a run into a state."""
        state = State(type=StateType[kind], message=message)
        self.client.set_flow_run_state(run_id, state, force=True)

    def read(self, run_id: UUID) -> FlowRun:
        """A run as it is now."""
        return self.client.read_flow_run(run_id)

    def deploy(self, source: str) -> UUID:
        """Write a flow to a folder of its own and deploy it from there."""
        (self.folder / "flow.py").write_text(source)
        flow_id = self.client.create_flow_from_name("main")
        answer = self.client.request(
            "POST",
            "/deployments/",
            json={
                "flow_id": str(flow_id),
                "name": self.folder.name,
                "entrypoint": "flow.py:main",
                "pull_steps": [
                    {"prefect.deployments.steps.set_working_directory": {"directory": "."}}
                ],
            },
        )
        return UUID(answer.json()["id"])

    def start(self, deployment_id: UUID) -> FlowRun:
        """A run of a deployment, Pending, as its worker leaves it to the container."""
        run = self.client.create_flow_run_from_deployment(deployment_id)
        self.put(run.id, "PENDING")
        return run

    def launch(self, run: FlowRun, rank: int, world_size: int, **env: str) -> Child:
        """Start a replica's launcher, as the bootstrap would."""
        variables = {
            **self.stack.env,
            "STORAGE_EMULATOR_HOST": os.environ.get("STORAGE_EMULATOR_HOST", ""),
            "PREFECT__FLOW_RUN_ID": str(run.id),
            "PREFECT_VERTEX_ATTEMPT": "1",
            "PREFECT_VERTEX_RANK": str(rank),
            "PREFECT_VERTEX_WORLD_SIZE": str(world_size),
            "PREFECT_VERTEX_HEARTBEAT_SECONDS": "1",
            "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule",
            **env,
        }
        command = [sys.executable, "-m", "prefect_vertex.replica"]
        return self.children.start(f"replica {rank}", command, env=variables, cwd=self.folder)


@pytest.fixture
def prefect(
    _stack: LocalStack,
    _prefect_threads: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Prefect]:
    """The server, for this process and for launchers."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "code").mkdir()
    with (
        temporary_settings({PREFECT_API_URL: _stack.api_url}),
        Children(tmp_path / "logs") as children,
        get_client(sync_client=True) as client,
    ):
        yield Prefect(client, _stack, children, tmp_path / "code")
