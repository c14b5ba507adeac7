"""A worker's word that reaches Prefect after the run has gone on changes nothing in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.lifecycle.run import RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["InfrastructurePending", "Provisioning"])
@pytest.mark.parametrize("end", [RunState.COMPLETED, RunState.FAILED])
async def test_a_waiting_state_takes_no_end_away(end: RunState, name: str, stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.runs.put(run.id, end)
    stage.move(stage.job(run), "SUCCEEDED")
    stage.runs.put(run.id, RunState.PENDING, name)
    await stage.tick(30)

    assert run.state is end
    assert RunState.CRASHED not in {state for state, *_ in run.history}


async def test_not_even_once_the_run_was_forgotten(stage: Stage) -> None:
    worker = await stage.worker()
    run, ticket = await stage.running(worker)
    stage.complete(run)
    await stage.tick(3)
    assert (await ticket.wait_ended()).exit_status == 0
    stage.runs.put(run.id, RunState.PENDING, "InfrastructurePending")
    await stage.tick(30)

    assert run.state is RunState.COMPLETED
    assert RunState.CRASHED not in {state for state, *_ in run.history}


async def test_a_run_that_waits_for_its_retry_is_offered_again(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.reschedule(run)
    stage.runs.put(run.id, RunState.PENDING, "InfrastructurePending")
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(3)
    assert run.name == "AwaitingRetry"
    stage.submit(worker, run)
    await stage.tick(3)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_a_second_worker_that_takes_an_ended_run_creates_nothing(stage: Stage) -> None:
    """Its Pending was on its way while another worker's job ran the flow."""
    one, two = await stage.worker("one"), await stage.worker("two")
    run, _ = await stage.running(one)
    stage.complete(run)
    await stage.tick(3)
    _, ticket = stage.submit(two, run)
    await stage.tick(30)

    assert run.state is RunState.COMPLETED
    assert len(stage.jobs(run)) == 1
    assert (await ticket.wait_ended()).exit_status == 0


async def test_a_run_that_never_started_crashes_as_before(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    await stage.tick()
    stage.move(stage.job(run), "FAILED", (3, "The replica workerpool0-0 exited with 1."))
    await stage.tick(40)

    assert run.state is RunState.CRASHED


async def test_a_run_that_was_read_long_ago_is_read_again_before_it_is_said_to_wait(
    stage: Stage,
) -> None:
    """Many runs' steps of one tick take a while, and a short flow may end meanwhile."""
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    view = await stage.runs.read(run.id)
    stage.move(stage.job(run), "PENDING")
    stage.runs.put(run.id, RunState.RUNNING)
    stage.complete(run)
    await stage.clock.advance(2)
    care = worker.book[run.id]
    await worker._attendant.attend(care, view)

    assert run.state is RunState.COMPLETED
    assert "Provisioning" not in run.names
