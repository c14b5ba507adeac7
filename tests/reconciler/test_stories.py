"""Random stories: workers die, answers get lost, clocks are wrong, people cancel, machines leave.

Whatever happens, no run is lost, no attempt gets two jobs, no user code runs twice for an attempt,
and no job outlives its run.  Each number is another story; the same number is the same story.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.errors import QuotaExceededError, ServiceUnavailableError, ServiceVerdict
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.lifecycle.snapshot import JobSnapshot
    from prefect_vertex.reconciler.loop import Reconciler

pytestmark = pytest.mark.anyio
STOCKOUT = (8, "Resources are insufficient in region: us-central1.")
EXIT_1 = (3, "The replica workerpool0-0 exited with a non-zero status of 1.")
EXIT_75 = (3, "The replica workerpool0-0 exited with a non-zero status of 75.")
PLACES = ("us-central1", "europe-west4")
NO_ROOM = ServiceVerdict(code="RESOURCE_EXHAUSTED")
PATIENT = CapacityPolicy(max_attempts=0, max_wall_seconds=0, backoff_max_seconds=60)


class Story:
    """One course of events."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.chance = Random(seed)  # noqa: S311 - a story, no secret
        self.trouble = 0.0
        self.executed: Counter[tuple[str, int]] = Counter()
        self.executing: set[tuple[str, str]] = set()
        self.asked_to_end: set[str] = set()
        self.finished: set[str] = set()
        self.stopped: set[str] = set()
        self.clocks: dict[str, float] = {}
        stage.list_lag_seconds = self.chance.choice([0, 0, 12, 40])
        stage.runs.mischief = self._prefect_fault

    def happens(self, share: float) -> bool:
        """Whether something with this chance happens now."""
        return self.chance.random() < share

    def _prefect_fault(self, method: str) -> tuple[Exception, bool] | None:
        if not self.happens(self.trouble / 2):
            return None
        return PrefectUnavailableError("The Prefect API answered 503."), self.happens(0.5)

    def _vertex_fault(self, method: str) -> tuple[Exception, bool] | None:
        if method == "submission_turn" or not self.happens(self.trouble):
            return None
        if method == "create" and self.happens(0.5):
            return QuotaExceededError("No room.", verdict=NO_ROOM), False
        error = ServiceUnavailableError("No answer.", verdict=ServiceVerdict(code="UNAVAILABLE"))
        return error, self.happens(0.5)

    async def worker(self, name: str) -> Reconciler:
        """Start a worker."""
        ahead = self.clocks.setdefault(name, self.chance.choice([-280, 0, 0, 280]))
        worker = await self.stage.worker(name, home=PLACES, ahead=ahead)
        for place in PLACES:
            self.stage.gateway(place).mischief = self._vertex_fault
        return worker

    async def restart(self) -> None:
        """Kill a worker, whatever it does, and start it again under its name."""
        worker = self.chance.choice(self.stage.workers)
        await self.stage.kill(worker)
        await self.worker(worker.world.worker_name)

    # --- workers -------------------------------------------------------------------------------

    def take(self) -> None:
        """Workers are offered the runs that are Scheduled, and take some."""
        for run in self.stage.runs.rows.values():
            if run.state is RunState.SCHEDULED and not run.retries_in_process and self.happens(0.4):
                policy = RunPolicy(spot=True, max_restarts=50)
                worker = self.chance.choice(self.stage.workers)
                first, *others = PLACES
                self.stage.submit(
                    worker,
                    run,
                    location=first,
                    regions=others,
                    policy=policy,
                    capacity=PATIENT,
                )

    async def look(self) -> None:
        """Five seconds pass and every worker looks."""
        self.stage.clock._now += 5
        for worker in list(self.stage.workers):
            try:
                await worker.tick()
            except PrefectUnavailableError:
                continue
        if self.happens(0.5):
            await self.stage.rest()

    # --- containers ----------------------------------------------------------------------------

    def run_jobs(self) -> None:
        """Machines come, flows start and end, machines are taken back."""
        for job in self.stage.live():
            run = self.stage.runs.rows[job.flow_run_id]
            if job.state == "JOB_STATE_CANCELLING":
                self._end_cancelled(run, job)
            elif job.state == "JOB_STATE_PENDING" and self.happens(0.3):
                self._start(run, job)
            elif job.state == "JOB_STATE_PENDING" and self.happens(self.trouble / 4):
                self.stage.move(job, "FAILED", STOCKOUT)
            elif job.resource_name.key in self.executing:
                self._execute(run, job)

    def _start(self, run: Run, job: JobSnapshot) -> None:
        self.stage.move(job, "RUNNING")
        key = f"prefect-vertex-start-a{job.attempt}-r0"
        mine = run.claims.setdefault(key, job.resource_name.job_id) == job.resource_name.job_id
        if not mine:
            self.stage.move(job, "FAILED", EXIT_75)
        elif run.state is RunState.PENDING:
            self.stage.runs.put(run.id, RunState.RUNNING)
            self.executed[run.id, job.attempt] += 1
            self.executing.add(job.resource_name.key)
        else:
            # As `prefect flow-run execute` leaves a run alone that is being cancelled, or is over.
            self.stage.move(job, "SUCCEEDED")

    def _execute(self, run: Run, job: JobSnapshot) -> None:
        fate = self.chance.random()
        if fate < 0.1 and run.state is RunState.RUNNING:
            self.stage.runs.put(run.id, RunState.COMPLETED)
            self.finished.add(run.id)
            self.stage.move(job, "SUCCEEDED")
        elif fate < 0.12:
            self.stage.move(job, "FAILED", EXIT_1)
        elif fate < 0.2:
            self._asked_to_leave(run)
            self.stage.move(job, "FAILED", STOCKOUT)
        elif fate < 0.25:
            self._asked_to_leave(run)
        elif fate < 0.27 and run.state is RunState.RUNNING:
            # Somebody stops it in the console, to stop the bill.
            self._asked_to_leave(run)
            self.stage.move(job, "CANCELLED", (1, "CANCELED"))
            self.stopped.add(run.id)

    def _asked_to_leave(self, run: Run) -> None:
        if run.state is RunState.RUNNING:
            run.retries_in_process = self.happens(0.2)
            self.stage.reschedule(run)

    def _end_cancelled(self, run: Run, job: JobSnapshot) -> None:
        if job.resource_name.key in self.executing and self.happens(0.5):
            self._asked_to_leave(run)
        if self.happens(0.5):
            # The error may come late, or not at all.
            error = (1, "CANCELED") if self.happens(0.7) else None
            self.stage.move(job, "CANCELLED", error)

    def cancel(self) -> None:
        """A person cancels a run; Prefect itself cancels one that nobody has taken."""
        runs = [run for run in self.stage.runs.rows.values() if not run.state.is_final]
        if not runs:
            return
        run = self.chance.choice(runs)
        self.asked_to_end.add(run.id)
        waits = run.state is RunState.SCHEDULED and not run.identifier
        state = RunState.CANCELLED if waits else RunState.CANCELLING
        self.stage.runs.put(run.id, state)

    # --- the course ----------------------------------------------------------------------------

    async def unfold(self, looks: int) -> None:
        """Let things happen."""
        for _ in range(looks):
            self.take()
            self.run_jobs()
            if self.happens(self.trouble / 4):
                await self.restart()
            if self.happens(self.trouble / 8):
                self.cancel()
            await self.look()
            self.check()

    def check(self) -> None:
        """What holds at every moment."""
        jobs = Counter((job.flow_run_id, job.attempt) for job in self.stage.jobs())
        assert max(jobs.values(), default=0) <= 1
        assert max(self.executed.values(), default=0) <= 1
        running = [job for job in self.stage.live() if job.resource_name.key in self.executing]
        assert max(Counter(job.flow_run_id for job in running).values(), default=0) <= 1


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens(seed: int, stage: Stage) -> None:
    story = Story(stage, seed)
    for name in ("one", "two"):
        await story.worker(name)
    runs = [stage.runs.add() for _ in range(8)]
    story.trouble = 0.3
    await story.unfold(120)
    story.trouble = 0
    await story.unfold(300)

    unfinished = {run.id: run.names for run in runs if not run.state.is_final}
    assert unfinished == {}
    assert stage.live() == []
    assert [worker.book for worker in stage.workers if worker.book] == []
    assert [slots.taken for slots in stage.slots.values() if slots.taken] == []
    for run in runs:
        if run.id in story.finished:
            assert run.name == "Completed"
        elif run.id in story.stopped:
            assert run.name == "Cancelled"
        elif run.id not in story.asked_to_end:
            # Its own failure, a last resort of ours with a reason, or a job cancelled by nobody.
            assert run.name == "Crashed"
            assert run.message
        else:
            assert run.name in {"Cancelled", "Crashed"}
