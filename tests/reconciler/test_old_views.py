"""Nothing is decided for a run from a view that is older than what has become of it since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import anyio.lowlevel
import pytest

from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.runs.port import Roster

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio

SPOT = RunPolicy(spot=True)
STOCKOUT = (8, "Resources are insufficient in region: us-central1.")
STOPPED = (1, "CANCELED")


async def stalled_tick(
    stage: Stage, worker: Reconciler, meanwhile: Callable[[], Awaitable[None]]
) -> None:
    """One tick of a worker that reads its runs, then waits for Prefect while others go on."""
    usual = worker._upkeep.mind_holders

    async def stalls(cares: Iterable[Care], roster: Roster) -> None:
        worker._upkeep.mind_holders = usual  # type: ignore[method-assign]
        await usual(cares, roster)
        stage.workers.remove(worker)
        await meanwhile()
        stage.workers.append(worker)

    worker._upkeep.mind_holders = stalls  # type: ignore[method-assign]
    worker._swept_at = None
    await worker.tick()
    await stage.rest()


async def started_again(stage: Stage, worker: Reconciler, run: Run, policy: RunPolicy) -> None:
    """A worker takes the run, and its next attempt's container starts the flow."""
    stage.submit(worker, run, policy=policy)
    for _ in range(300):
        await anyio.lowlevel.checkpoint()
    stage.start(run)
    await stage.tick(2)
    assert run.state is RunState.RUNNING


async def test_a_preempted_run_is_not_rescheduled_once_its_next_attempt_runs(stage: Stage) -> None:
    first, second = await stage.worker("a"), await stage.worker("b")
    run, _ = await stage.running(first, policy=SPOT)
    await stage.tick(15)
    stage.move(stage.job(run), "FAILED", STOCKOUT)

    async def meanwhile() -> None:
        await stage.tick()
        assert run.name == "AwaitingRetry"
        await started_again(stage, first, run, SPOT)

    await stalled_tick(stage, second, meanwhile)

    assert run.state is RunState.RUNNING
    assert [job.is_terminal for job in stage.jobs(run)] == [True, False]


async def test_a_run_that_a_person_retried_is_not_cancelled_for_its_last_attempt(
    stage: Stage,
) -> None:
    first, second = await stage.worker("a"), await stage.worker("b")
    run, _ = await stage.running(first)
    await stage.tick(15)
    stage.runs.put(run.id, RunState.CANCELLING)
    stage.move(stage.job(run), "CANCELLED", STOPPED)

    async def meanwhile() -> None:
        await stage.tick()
        assert run.name == "Cancelled"
        stage.runs.put(run.id, RunState.SCHEDULED, "AwaitingRetry")
        await started_again(stage, first, run, RunPolicy())

    await stalled_tick(stage, second, meanwhile)

    assert run.state is RunState.RUNNING


async def test_a_job_is_not_called_stopped_by_others_where_its_worker_has_just_said_why(
    stage: Stage,
) -> None:
    """The reason stands in a label; the run's state is still the same."""
    policy = RunPolicy(start_grace_seconds=120)
    first, second = await stage.worker("a"), await stage.worker("b")
    run, _ = await stage.submitted(first, policy=policy)
    stage.move(stage.job(run), "RUNNING")
    await stage.tick(20)

    async def meanwhile() -> None:
        await stage.tick(5)
        stage.move(stage.job(run), "CANCELLED", STOPPED)
        second.book[run.id].see(stage.job(run), next(iter(second.world.home())))

    await stalled_tick(stage, second, meanwhile)
    await stage.tick(5)

    assert run.name == "Crashed"
    assert "had not started after 120 s" in run.message


async def test_a_run_that_is_still_the_same_is_read_once_more_and_judged(stage: Stage) -> None:
    first, second = await stage.worker("a"), await stage.worker("b")
    run, _ = await stage.running(first)
    await stage.tick(15)
    stage.move(stage.job(run), "FAILED", STOCKOUT)

    async def meanwhile() -> None:
        stage.clock._now += 30

    stage.workers.remove(first)
    await stalled_tick(stage, second, meanwhile)
    stage.workers.append(first)

    assert run.name == "Crashed"
