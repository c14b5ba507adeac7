"""A stage: a Prefect server and Vertex AI in memory, a clock moved by hand, and workers on them."""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus
from tests.reconciler.log_scene import Scene

from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import WORKER_LABEL, RunState
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec, Target
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.ports import Figures, World
from prefect_vertex.reconciler.tickets import Ticket
from prefect_vertex.testing import ManualClock

if TYPE_CHECKING:
    from tests.reconciler.fakes import FakeFlowRuns, Gateway, Run

POOL_ID = "7a7b7c7d-1111-4222-8333-444455556666"
PROJECT = "demo-project"
HOME = "us-central1"
PATIENCE = 5000
"""Turns of the event loop that a step may take."""

A_WHILE = 30
"""Turns after which a step that waits for its turn to submit will go on waiting."""


def _load_fakes() -> ModuleType:
    """Import the module beside this one: test folders are no packages."""
    name = "prefect_vertex_reconciler_fakes"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("fakes.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class CountedSlots:
    """A worker's limit."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.taken: set[str] = set()
        self.submitting: set[str] = set()

    def take(self, run_id: str) -> bool:
        """Count an adopted job."""
        if len(self.taken) >= self.limit and run_id not in self.taken:
            return False
        self.taken.add(run_id)
        return True

    def free(self, run_id: str) -> None:
        """Count it no more."""
        self.taken.discard(run_id)

    def is_submitting(self, run_id: str) -> bool:
        """Whether the worker has taken it and not yet put it under care."""
        return run_id in self.submitting


class Process:
    """A worker process: a reconciler, from its start until its end."""

    def __init__(self, reconciler: Reconciler) -> None:
        self.reconciler = reconciler
        self.end = anyio.Event()
        self.ended = anyio.Event()

    async def live(self, *, task_status: TaskStatus[None]) -> None:
        """Be there until the end is asked for."""
        async with self.reconciler:
            task_status.started()
            await self.end.wait()
        self.ended.set()


@dataclass(frozen=True)
class Gateways:
    """A stage's gateways, as a worker sees them."""

    stage: Stage
    as_read: Callable[[Gateway], Any]

    def for_target(self, target: Target) -> Any:
        """The gateway of a place."""
        return self.as_read(self.stage.for_target(target))


class Stage:
    """The world of a test, and its hand in it."""

    def __init__(self) -> None:
        fakes = _load_fakes()
        self.clock = ManualClock()
        self.wall = fakes.WallClock(self.clock)
        self.runs: FakeFlowRuns = fakes.FakeFlowRuns(self.wall)
        self.gateways: dict[tuple[str, str], Gateway] = {}
        self._gateway = fakes.Gateway
        self._as_read, self._wall_clock = fakes.AsRead, fakes.WallClock
        self.workers: list[Reconciler] = []
        self.slots: dict[str, CountedSlots] = defaultdict(CountedSlots)
        self.tasks = anyio.create_task_group()
        self._processes: list[Process] = []
        self.list_lag_seconds = 0.0

    # --- Vertex AI -----------------------------------------------------------------------------

    def for_target(self, target: Target) -> Gateway:
        """The gateway of a place; places are alike whatever the credentials."""
        key = (target.project, target.location)
        if key not in self.gateways:
            self.gateways[key] = self._gateway(
                Target(*key), clock=self.clock, list_lag_seconds=self.list_lag_seconds
            )
        return self.gateways[key]

    def gateway(self, location: str = HOME) -> Gateway:
        """The gateway of a location."""
        return self.for_target(Target(PROJECT, location))

    def jobs(self, run: Run | None = None) -> list[JobSnapshot]:
        """All jobs, or a run's, whatever their place."""
        found = [job for gateway in self.gateways.values() for job in gateway.jobs]
        return [job for job in found if run is None or job.flow_run_id == run.id]

    def job(self, run: Run) -> JobSnapshot:
        """The run's only job."""
        (job,) = self.jobs(run)
        return job

    def live(self) -> list[JobSnapshot]:
        """Jobs that have not ended."""
        return [job for job in self.jobs() if not job.is_terminal]

    def move(self, job: JobSnapshot, state: str, error: tuple[int, str] | None = None) -> None:
        """Put a job into a state."""
        name = job.resource_name
        failure = JobError(code=error[0], message=error[1]) if error else None
        self.gateway(name.location).advance(name, f"JOB_STATE_{state}", error=failure)

    def vanish(self, job: JobSnapshot) -> None:
        """Somebody ends and deletes a job."""
        name = job.resource_name
        del self.gateway(name.location)._jobs[name.key]

    # --- workers -------------------------------------------------------------------------------

    async def worker(
        self,
        name: str = "w",
        *,
        home: tuple[str, ...] = (HOME,),
        ahead: float = 0,
        **figures: float,
    ) -> Reconciler:
        """Start a worker's reconciler, its clock so many seconds ahead of everybody else's."""
        # A process that is gone has taken its count with it.
        self.slots[name] = CountedSlots()
        places = frozenset(Target(PROJECT, location) for location in home)
        lead = timedelta(seconds=ahead)
        world = World(
            runs=self._as_read(self.runs, lead) if ahead else self.runs,
            gateways=Gateways(self, lambda each: self._as_read(each, lead)) if ahead else self,
            pool_id=POOL_ID,
            worker_name=name,
            instance=f"instance-{len(self._processes)}",
            home=lambda: places,
            slots=self.slots[name],
            clock=self._wall_clock(self.clock, lead),
            figures=Figures(**figures),
        )
        process = Process(Reconciler(world))
        self._processes.append(process)
        await self.tasks.start(process.live)
        self.runs.online.add(name)
        self.workers.append(process.reconciler)
        return process.reconciler

    async def kill(self, reconciler: Reconciler) -> None:
        """End a worker between two of its steps; nothing of it is left but what it wrote."""
        self.workers.remove(reconciler)
        (process,) = [each for each in self._processes if each.reconciler is reconciler]
        process.end.set()
        await process.ended.wait()

    async def tick(self, times: int = 1, *, seconds: float = 5) -> None:
        """Let time pass, then let every worker look and act."""
        for _ in range(times):
            # Nobody sleeps on it, so nobody has to be woken.
            self.clock._now += seconds
            for reconciler in list(self.workers):
                await reconciler.tick()
            await self.rest()

    async def rest(self) -> None:
        """Wait until no step is under way, but for those that the test itself holds up."""
        for turn in range(PATIENCE):
            cares = [care for worker in self.workers for care in worker.book.values()]
            busy = [care for care in cares if care.busy]
            if not busy or (turn > A_WHILE and all(care.interrupt for care in busy)):
                return
            await anyio.lowlevel.checkpoint()

    # --- runs ----------------------------------------------------------------------------------

    def assignment(
        self,
        run: Run,
        location: str = HOME,
        policy: RunPolicy | None = None,
        *,
        regions: Sequence[str] = (),
        replicas: int = 1,
        **fields: Any,
    ) -> Assignment:
        """What a run asks for: machines in a location, then in further regions."""
        pool = {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "container_spec": {"image_uri": "europe-docker.pkg.dev/p/flows/forecast:1"},
        }
        pools = [pool, {**pool, "replica_count": replicas - 1}][: min(replicas, 2)]
        candidates = tuple(
            Candidate(
                index=index,
                project=PROJECT,
                location=place,
                job_spec={"worker_pool_specs": pools},
                command=("prefect", "flow-run", "execute"),
            )
            for index, place in enumerate((location, *regions))
        )
        identity = RunIdentity(flow_run_id=run.id, flow_run_name="a-run", work_pool_id=POOL_ID)
        spec = RunSpec(identity=identity, candidates=candidates)
        policy = policy or RunPolicy()
        return Assignment(run_id=run.id, spec=spec, policy=policy, bootstrap="pass", **fields)

    def pick_up(self, run: Run, worker_name: str = "") -> None:
        """A worker wins the run, as Prefect's base class does it before `run()`."""
        self.runs.put(run.id, RunState.PENDING)
        if worker_name:
            run.labels[WORKER_LABEL] = worker_name
        self.runs.put(run.id, RunState.PENDING, "Submitting")

    def submit(
        self, worker: Reconciler, run: Run | None = None, **wishes: Any
    ) -> tuple[Run, Ticket]:
        """A worker picks a run up, a new one if none is given, and takes care of it."""
        run = run or self.runs.add()
        self.pick_up(run, worker.world.worker_name)
        return run, worker.take(self.assignment(run, **wishes))

    async def submitted(self, worker: Reconciler, **wishes: Any) -> tuple[Run, Ticket]:
        """The same, until its job is there."""
        run, ticket = self.submit(worker, **wishes)
        await self.rest()
        assert len(self.jobs(run)) == 1
        return run, ticket

    async def running(self, worker: Reconciler, **wishes: Any) -> tuple[Run, Ticket]:
        """The same, until its container has started the flow."""
        run, ticket = await self.submitted(worker, **wishes)
        self.start(run)
        await self.tick()
        return run, ticket

    def start(self, run: Run) -> None:
        """The newest job's container starts the flow."""
        self.move(self.jobs(run)[-1], "RUNNING")
        self.runs.put(run.id, RunState.RUNNING)

    def complete(self, run: Run) -> None:
        """The flow ends well, and its container with it."""
        self.runs.put(run.id, RunState.COMPLETED)
        self.move(self.jobs(run)[-1], "SUCCEEDED")

    def reschedule(self, run: Run) -> None:
        """The container is asked to end, and puts its run back to Scheduled."""
        self.runs.put(run.id, RunState.SCHEDULED, "AwaitingRetry")


@pytest.fixture
def scene(stage: Stage) -> Scene:
    """A worker's log lines, in memory."""
    return Scene(stage)


@pytest.fixture
async def stage(anyio_backend: str) -> AsyncIterator[Stage]:
    """A stage; when the test ends, every fault was met and nothing improper was proposed."""
    stage = Stage()
    async with stage.tasks:
        yield stage
        for worker in list(stage.workers):
            await stage.kill(worker)
    for gateway in stage.gateways.values():
        gateway.assert_scripts_used()
    assert stage.runs.misdeeds == []
