"""Restarts: what a new worker knows from labels and identifiers alone; runs without a holder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import (
    INSTANCE_LABEL,
    RunState,
)
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler

pytestmark = pytest.mark.anyio


async def restarted(stage: Stage, worker: Reconciler) -> Reconciler:
    """Kill a worker and start it again under its name."""
    await stage.kill(worker)
    return await stage.worker(worker.world.worker_name)


async def test_live_jobs_are_adopted_within_two_ticks(stage: Stage) -> None:
    worker = await stage.worker("w")
    runs = [(await stage.running(worker))[0] for _ in range(5)]
    await restarted(stage, worker)
    await stage.tick(2)

    assert {run.labels[INSTANCE_LABEL] for run in runs} == {"w/instance-1"}
    assert stage.slots["w"].taken == {run.id for run in runs}
    assert len(stage.jobs()) == 5


async def test_an_adopted_run_ends_as_any_other(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    other, _ = await stage.running(worker)
    successor = await restarted(stage, worker)
    await stage.tick(2)
    stage.complete(run)
    stage.move(stage.job(other), "FAILED", (3, "exited with a non-zero status of 1."))
    await stage.tick(2)

    assert (run.name, other.name) == ("Completed", "Crashed")
    assert stage.slots["w"].taken == set()
    assert successor.book == {}


async def test_places_in_the_limit_are_taken_as_they_become_free(stage: Stage) -> None:
    worker = await stage.worker()
    first, _ = await stage.running(worker)
    second, _ = await stage.running(worker)
    await restarted(stage, worker)
    stage.slots["w"].limit = 1
    await stage.tick(2)
    assert len(stage.slots["w"].taken) == 1
    for run in (first, second):
        if run.id in stage.slots["w"].taken:
            stage.complete(run)
    await stage.tick(14)

    assert len(stage.slots["w"].taken) == 1


@pytest.mark.parametrize("identifier", ["kept", "lost"])
@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PENDING])
async def test_a_job_that_ended_meanwhile_is_settled(
    identifier: str, state: RunState, stage: Stage
) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    if state is RunState.RUNNING:
        stage.start(run)
    await stage.kill(worker)
    if identifier == "lost":
        run.identifier = ""
    stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 3."))
    await stage.worker()
    # A run that names no job is looked for by its label once its holder is known to be gone.
    await stage.tick(2 if identifier == "kept" or state is RunState.RUNNING else 15)

    assert run.name == "Crashed"
    assert "exited with status 3" in run.message


@pytest.mark.parametrize("identifier", ["kept", "lost"])
async def test_a_job_in_another_place_than_the_templates_is_found(
    identifier: str, stage: Stage
) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker, location="europe-west4")
    await stage.kill(worker)
    if identifier == "lost":
        run.identifier = ""
    await stage.worker("other")
    stage.runs.offline.add("w")
    await stage.tick(2)
    assert stage.slots["other"].taken == set() or run.id in stage.slots["other"].taken
    stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 3."))
    await stage.tick(2)

    assert run.name == "Crashed"


async def test_a_leak_in_a_place_that_only_an_ended_run_names_is_found(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker, location="europe-west4")
    await stage.kill(worker)
    stage.runs.put(run.id, RunState.CANCELLED)
    await stage.clock.advance(3600)
    await stage.worker("other")
    await stage.tick(3)

    assert stage.job(run).state == "JOB_STATE_CANCELLING"


async def test_a_job_that_was_deleted_meanwhile_crashes_its_run(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    await stage.kill(worker)
    stage.vanish(stage.job(run))
    await stage.worker()
    await stage.tick(14)

    assert run.name == "Crashed"
    assert "no longer exists" in run.message


async def test_another_workers_live_runs_are_left_to_it(stage: Stage) -> None:
    one = await stage.worker("one")
    run, _ = await stage.running(one)
    await stage.worker("two")
    await stage.tick(30)

    assert run.labels[INSTANCE_LABEL] == "one/instance-0"
    assert stage.slots["two"].taken == set()


async def test_an_offline_workers_runs_are_adopted_by_one_other(stage: Stage) -> None:
    one = await stage.worker("one")
    run, _ = await stage.running(one)
    await stage.kill(one)
    for name in ("two", "three"):
        await stage.worker(name)
    stage.runs.offline.add("one")
    await stage.tick(15)

    assert run.labels[INSTANCE_LABEL].partition("/")[0] in {"two", "three"}
    assert len(stage.slots["two"].taken | stage.slots["three"].taken) == 1
    assert not stage.slots["two"].taken & stage.slots["three"].taken


# --- many -----------------------------------------------------------------------------------------


async def test_two_workers_twenty_runs_twenty_jobs(stage: Stage) -> None:
    workers = [await stage.worker("one"), await stage.worker("two")]
    runs = [stage.submit(workers[number % 2])[0] for number in range(20)]
    await stage.tick(3)
    assert len(stage.jobs()) == 20
    for run in runs:
        stage.start(run)
    await stage.tick()
    for number, run in enumerate(runs):
        if number % 3:
            stage.complete(run)
        else:
            stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 1."))
    await stage.tick(3)

    assert {run.name for run in runs} == {"Completed", "Crashed"}
    assert all(run.names.count(run.name) == 1 for run in runs)
    assert len(stage.jobs()) == 20
    assert all(worker.book == {} for worker in workers)


async def test_a_restart_with_many_live_jobs_reads_pages_and_not_jobs(stage: Stage) -> None:
    worker = await stage.worker()
    for _ in range(60):
        stage.submit(worker)
    await stage.rest()
    for job in stage.jobs():
        stage.move(job, "RUNNING")
    for run in stage.runs.rows.values():
        stage.runs.put(run.id, RunState.RUNNING)
    await stage.kill(worker)
    gateway = stage.gateway()
    gateway.calls.clear()
    stage.runs.calls.clear()
    await stage.worker()
    await stage.tick(3)

    assert gateway.calls == {"list_live": 3}
    assert stage.runs.calls["read"] == 0


async def test_a_run_that_began_elsewhere_while_it_was_to_be_found_here_is_watched(
    stage: Stage,
) -> None:
    """And adopted, once that other worker is gone."""
    first, second = await stage.worker("a"), await stage.worker("b")
    run = stage.runs.add()
    stage.runs.poison[run.id] = PrefectUnavailableError("503")
    _, ticket = stage.submit(first, run)
    await stage.rest()
    del stage.runs.poison[run.id]
    stage.workers.remove(first)
    stage.runs.offline.add("a")
    await stage.tick(30, seconds=15)
    stage.submit(second, run)
    await stage.rest()
    stage.start(run)
    await stage.tick(2)
    stage.runs.offline.discard("a")
    stage.workers.append(first)
    await stage.tick(20, seconds=15)

    assert first.waiting_submissions == 0
    assert ticket.resource_name == stage.job(run).resource_name
    await stage.kill(second)
    stage.runs.offline.add("b")
    await stage.tick(20, seconds=15)
    assert run.id in stage.slots["a"].taken


async def deleted_without_a_name(stage: Stage) -> tuple[Run, Reconciler]:
    """A Running run that names no job, and whose job was deleted while no worker looked."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    job = stage.job(run)
    await stage.kill(worker)
    run.identifier = ""
    stage.vanish(job)
    run.claims["prefect-vertex-start-a1-r0"] = json.dumps(
        {"nonce": "c0ffee" * 5, "job": job.resource_name.job_id}
    )
    return run, await stage.worker()


async def test_a_deleted_job_that_only_its_container_named_crashes_its_run(stage: Stage) -> None:
    run, _ = await deleted_without_a_name(stage)
    await stage.tick(20, seconds=30)

    assert run.name == "Crashed"
    assert "no longer exists" in run.message


async def test_a_run_whose_job_nothing_names_is_looked_for_without_end(stage: Stage) -> None:
    """It may still come; but what is remembered of the looks does not grow."""
    run, worker = await deleted_without_a_name(stage)
    run.claims.clear()
    await stage.tick(60, seconds=60)

    assert run.name == "Running"
    assert len(worker.book[run.id].looks) == RunPolicy().create_settle_looks
