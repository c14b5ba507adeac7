"""A worker whose clock is minutes wrong is as patient with a run as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.lifecycle.states import JobPhase

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

STOCKOUT = (8, "Resources are insufficient in region: us-central1.")

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("ahead", [-300, -30, 30, 300])]


def is_asked_to_end(stage: Stage, run: Run) -> bool:
    """Whether the run's job was cancelled."""
    return stage.job(run).phase is JobPhase.CANCELLING


async def test_a_container_has_its_time_to_start_the_flow(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    policy = RunPolicy(start_grace_seconds=120)
    run, _ = await stage.submitted(worker, policy=policy)
    stage.move(stage.job(run), "RUNNING")
    await stage.tick(22)
    assert not is_asked_to_end(stage, run)
    await stage.tick(5)
    assert is_asked_to_end(stage, run)


async def test_a_job_has_its_time_to_get_machines(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    policy = RunPolicy(provisioning_timeout_seconds=200)
    run, _ = await stage.submitted(worker, policy=policy)
    await stage.tick(38)
    assert not is_asked_to_end(stage, run)
    await stage.tick(5)
    assert is_asked_to_end(stage, run)


async def test_a_flow_has_its_time_to_give_a_sign_of_life(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    run, _ = await stage.running(worker, policy=RunPolicy(stall_timeout_seconds=120))
    for _ in range(20):
        stage.runs.signs[run.id] = stage.wall.now()
        await stage.tick(4)
    assert not is_asked_to_end(stage, run)
    await stage.tick(50)
    assert is_asked_to_end(stage, run)


async def test_a_running_flow_has_its_time_to_cancel_itself(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    run, _ = await stage.running(worker)
    stage.runs.put(run.id, RunState.CANCELLING)
    await stage.tick(10)
    assert not is_asked_to_end(stage, run)
    await stage.tick(5)
    assert is_asked_to_end(stage, run)


async def test_a_container_has_its_time_to_leave_after_its_run(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    run, _ = await stage.running(worker)
    stage.runs.put(run.id, RunState.FAILED)
    await stage.tick(10)
    assert not is_asked_to_end(stage, run)
    await stage.tick(5)
    assert is_asked_to_end(stage, run)


async def test_the_reason_of_an_end_is_waited_for(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    run, _ = await stage.running(worker)
    stage.move(stage.job(run), "FAILED")
    await stage.tick(20)
    assert run.state is RunState.RUNNING
    stage.move(stage.job(run), "FAILED", (3, "The replica workerpool0-0 exited with 1."))
    await stage.tick(5)
    assert "workerpool0-0 exited with 1" in run.message


async def test_but_no_longer_than_it_may_take_to_come(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    run, _ = await stage.running(worker)
    stage.move(stage.job(run), "FAILED")
    await stage.tick(30)

    assert run.state is RunState.CRASHED


async def test_an_end_that_a_new_worker_finds_is_waited_for_once_more(
    ahead: float, stage: Stage
) -> None:
    """Nobody knows how long ago it was: the clocks may differ."""
    first = await stage.worker()
    run, _ = await stage.running(first)
    await stage.kill(first)
    stage.move(stage.job(run), "FAILED")
    stage.clock._now += 60
    await stage.worker(ahead=ahead)
    await stage.tick(10)
    assert run.name == "Running"
    await stage.tick(30)
    assert run.name == "Crashed"


async def test_a_run_that_another_worker_has_just_taken_is_left_to_it(
    ahead: float, stage: Stage
) -> None:
    await stage.worker("other")
    await stage.worker(ahead=ahead, sweep_seconds=5)
    run = stage.runs.add()
    stage.pick_up(run, "another")
    await stage.tick(10)
    assert run.name == "Submitting"
    await stage.tick(50)
    assert run.name == "Scheduled"


async def test_a_run_that_this_worker_has_just_taken_is_nobody_elses(
    ahead: float, stage: Stage
) -> None:
    """It is not one of an earlier process of the same name."""
    worker = await stage.worker(ahead=ahead, sweep_seconds=5)
    run = stage.runs.add()
    await stage.tick(2)
    stage.pick_up(run, "w")
    stage.slots["w"].submitting.add(run.id)
    await stage.tick(10)
    assert run.state is RunState.PENDING
    stage.submit(worker, run)
    await stage.rest()
    assert len(stage.jobs(run)) == 1


async def test_a_run_that_ended_is_seen_at_the_next_look(ahead: float, stage: Stage) -> None:
    """Not only when all runs are gone through."""
    worker = await stage.worker(ahead=ahead, sweep_seconds=1e6)
    run, _ = await stage.running(worker)
    await stage.tick(10)
    stage.runs.put(run.id, RunState.FAILED)
    await stage.tick(20)

    assert is_asked_to_end(stage, run)


async def test_a_walk_lasts_as_long_as_it_may(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    capacity = CapacityPolicy(max_wall_seconds=100)
    run, _ = await stage.submitted(worker, capacity=capacity)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(16)
    stage.move(stage.jobs(run)[-1], "FAILED", STOCKOUT)
    await stage.tick(2)

    assert len(stage.jobs(run)) == 2
    assert "capacity.max_wall_seconds allows 100 s" in run.message


async def test_the_time_that_a_walk_took_is_told(ahead: float, stage: Stage) -> None:
    worker = await stage.worker(ahead=ahead)
    run, _ = await stage.submitted(worker)
    await stage.tick(2)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(18)
    stage.move(stage.jobs(run)[-1], "RUNNING")
    await stage.tick()

    found = [
        payload["message"]
        for (_, event, _), payload in stage.runs.events.items()
        if event == "prefect-vertex.capacity.found"
    ]
    assert found == ["Found machines in us-central1 after 100 s, with attempt 2."]


async def test_a_holder_that_lives_goes_on_with_its_walk_itself(ahead: float, stage: Stage) -> None:
    holder = await stage.worker("holder")
    await stage.worker("watcher", ahead=ahead, sweep_seconds=5)
    run, _ = await stage.submitted(holder)
    stage.workers.remove(holder)
    await stage.tick(2)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(20)
    stage.workers.append(holder)
    assert run.state is RunState.PENDING
    await stage.tick(20)
    assert [job.attempt for job in stage.jobs(run)] == [1, 2]
