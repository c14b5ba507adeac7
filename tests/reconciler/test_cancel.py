"""Cancelled in every phase of a run's life; Cancelled once the job is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from prefect_vertex.errors import ServiceUnavailableError
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.run import RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler

pytestmark = pytest.mark.anyio


def ask(stage: Stage, run: Run) -> None:
    """A person asks for the run's end."""
    stage.runs.put(run.id, RunState.CANCELLING)


async def gone(stage: Stage, run: Run) -> None:
    """The job that was asked to end does so; then the run is Cancelled, and not before."""
    assert run.name == "Cancelling"
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick()
    assert run.name == "Cancelled"


async def test_before_its_worker_has_begun(stage: Stage) -> None:
    worker = await stage.worker()
    run = stage.runs.add()
    stage.pick_up(run)
    ask(stage, run)
    ticket = worker.take(stage.assignment(run))
    await stage.rest()

    assert run.name == "Cancelled"
    assert stage.jobs() == []
    assert (await ticket.wait_ended()).reason is TerminationReason.CANCELLED


@pytest.fixture
async def waiting(stage: Stage) -> tuple[Reconciler, Run, anyio.Event]:
    """A run that waits for its worker's turn to submit, until the event is set."""
    worker = await stage.worker()
    turn = anyio.Event()
    stage.gateway().script("submission_turn", until=turn)
    run, _ = stage.submit(worker)
    await stage.rest()
    return worker, run, turn


@pytest.mark.parametrize("nudged", [True, False])
async def test_while_it_waits_for_its_turn(
    *, nudged: bool, stage: Stage, waiting: tuple[Reconciler, Run, anyio.Event]
) -> None:
    """The turn may be minutes away; Prefect's own limit is 300 s."""
    worker, run, _ = waiting
    ask(stage, run)
    if nudged:
        worker.nudge(run.id)
        await stage.rest()
    else:
        await stage.tick()

    assert run.name == "Cancelled"
    assert stage.jobs() == []
    assert worker.waiting_submissions == 0


async def test_at_the_moment_of_its_turn(
    stage: Stage, waiting: tuple[Reconciler, Run, anyio.Event]
) -> None:
    _, run, turn = waiting
    ask(stage, run)
    turn.set()
    await stage.rest()

    assert run.name == "Cancelled"
    assert stage.jobs() == []


async def test_a_sweep_does_not_cost_a_waiting_run_its_turn(
    stage: Stage, waiting: tuple[Reconciler, Run, anyio.Event]
) -> None:
    _, run, turn = waiting
    await stage.tick(30)
    turn.set()
    await stage.rest()

    assert stage.job(run).attempt == 1
    assert stage.gateway().calls["submission_turn"] == 1


async def test_while_its_create_is_on_its_way(stage: Stage) -> None:
    worker = await stage.worker()
    answer = anyio.Event()
    stage.gateway().script("create", until=answer)
    run, _ = stage.submit(worker)
    await stage.rest()
    ask(stage, run)
    await stage.tick()
    answer.set()
    await stage.rest()

    await gone(stage, run)


async def test_while_its_create_is_unanswered_and_the_job_exists(stage: Stage) -> None:
    worker = await stage.worker()
    lost = ServiceUnavailableError("Could not create: DEADLINE_EXCEEDED.")
    stage.gateway().script("create", lost, after_effect=True)
    run, _ = stage.submit(worker)
    await stage.rest()
    ask(stage, run)
    await stage.tick()

    await gone(stage, run)


async def test_while_its_create_is_unanswered_and_there_is_no_job(stage: Stage) -> None:
    """Cancelled only once that is certain."""
    worker = await stage.worker()
    stage.gateway().script("create", ServiceUnavailableError("Could not create: UNAVAILABLE."))
    run, _ = stage.submit(worker)
    await stage.rest()
    ask(stage, run)
    await stage.tick(20)
    assert run.name == "Cancelling"
    await stage.tick(20)

    assert run.name == "Cancelled"
    assert stage.jobs() == []


@pytest.mark.parametrize("job_state", ["QUEUED", "PENDING", "RUNNING"])
async def test_before_its_flow_has_started(job_state: str, stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker())
    stage.move(stage.job(run), job_state)
    await stage.tick()
    ask(stage, run)
    await stage.tick()

    await gone(stage, run)


async def test_a_running_flow_may_cancel_itself(stage: Stage) -> None:
    run, ticket = await stage.running(await stage.worker())
    ask(stage, run)
    await stage.tick(11)
    assert stage.gateway().calls["cancel"] == 0
    stage.runs.put(run.id, RunState.CANCELLED)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick()

    assert stage.gateway().calls["cancel"] == 0
    assert (await ticket.wait_ended()).reason is TerminationReason.CANCELLED


async def test_a_hung_flows_job_is_cancelled_after_the_grace(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    ask(stage, run)
    await stage.tick(13)

    await gone(stage, run)


async def test_a_cancel_without_effect_is_sent_again_each_minute(stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker())
    ask(stage, run)
    await stage.tick()
    for sent in (1, 2, 3):
        stage.move(stage.job(run), "RUNNING")
        await stage.tick(11)
        assert stage.gateway().calls["cancel"] == sent
        await stage.tick()


async def test_its_job_has_ended_already(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 1."))
    ask(stage, run)
    await stage.tick()

    assert run.name == "Cancelled"


async def test_its_job_was_deleted(stage: Stage) -> None:
    """Once the job is not found twice, a minute apart."""
    run, _ = await stage.running(await stage.worker())
    stage.vanish(stage.job(run))
    ask(stage, run)
    await stage.tick(12)
    assert run.name == "Cancelling"
    await stage.tick(2)

    assert run.name == "Cancelled"


async def test_put_straight_to_cancelled(stage: Stage) -> None:
    """By force, or because its concurrency slot was taken: nobody ever says Cancelling."""
    run, ticket = await stage.running(await stage.worker())
    stage.runs.put(run.id, RunState.CANCELLED)
    await stage.tick(11)
    assert stage.job(run).state == "JOB_STATE_RUNNING"
    await stage.tick()
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick()

    assert (await ticket.wait_ended()).reason is TerminationReason.CANCELLED


async def test_put_straight_to_cancelled_before_its_job_has_a_machine(stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker())
    stage.runs.put(run.id, RunState.CANCELLED)
    await stage.tick()

    assert stage.job(run).state == "JOB_STATE_CANCELLING"


async def test_a_worker_that_never_saw_the_run_finds_its_job_by_the_identifier(
    stage: Stage,
) -> None:
    """Also in a place that no template names."""
    first = await stage.worker("one")
    run, _ = await stage.running(first, location="europe-west4")
    await stage.kill(first)
    ask(stage, run)
    await stage.worker("two")
    await stage.tick(14)

    await gone(stage, run)


async def test_a_worker_that_never_saw_the_run_finds_its_job_by_the_label(stage: Stage) -> None:
    first = await stage.worker("one")
    run, _ = await stage.submitted(first)
    await stage.kill(first)
    run.identifier = ""
    ask(stage, run)
    await stage.worker("two")
    await stage.tick()

    await gone(stage, run)
