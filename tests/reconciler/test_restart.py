"""Restarts: what a new worker knows from labels and identifiers alone; runs without a holder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    HELD_LABEL,
    INSTANCE_LABEL,
    SETTLED_LABEL,
    WAIT_LABEL,
    RunState,
)

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


# --- no job yet -----------------------------------------------------------------------------------


def stranded(stage: Stage, holder: str = "w/dead", **labels: str) -> Run:
    """A run that a worker had taken when it died."""
    run = stage.runs.add()
    stage.pick_up(run)
    run.labels.update({INSTANCE_LABEL: holder, HELD_LABEL: run.history[-1][2], **labels})
    if ATTEMPT_LABEL in labels:
        run.labels[WAIT_LABEL] = run.history[-1][2]
    return run


async def test_a_run_whose_worker_died_before_any_job_goes_back(stage: Stage) -> None:
    run = stranded(stage)
    await stage.worker("w")
    await stage.tick(15)

    assert run.name == "Scheduled"
    assert stage.jobs() == []


async def test_not_before_prefect_itself_calls_the_worker_offline(stage: Stage) -> None:
    run = stranded(stage, "elsewhere/1")
    await stage.worker("w")
    await stage.tick(40)
    assert run.name == "Submitting"
    stage.runs.offline.add("elsewhere")
    await stage.tick(13)

    assert run.name == "Scheduled"


async def test_not_before_the_grace(stage: Stage) -> None:
    await stage.worker("w", sweep_seconds=5)
    run = stranded(stage)
    await stage.tick(5)
    assert run.name == "Submitting"
    await stage.tick(2)

    assert run.name == "Scheduled"


async def test_an_announced_attempt_goes_back_only_once_it_is_sure_to_have_no_job(
    stage: Stage,
) -> None:
    """Its create may have been on its way when the worker died."""
    run = stranded(stage, **{ATTEMPT_LABEL: "1"})
    await stage.worker("w")
    await stage.tick(23)
    assert run.name == "Submitting"
    await stage.tick(30)

    assert run.name == "Scheduled"
    assert run.labels[SETTLED_LABEL] == "1"


async def test_whoever_takes_it_then_creates_the_same_attempt_without_waiting(
    stage: Stage,
) -> None:
    run = stranded(stage, **{ATTEMPT_LABEL: "1"})
    run.claims["prefect-vertex-create-a1"] = "w/dead"
    worker = await stage.worker("w")
    await stage.tick(60)
    stage.submit(worker, run)
    await stage.rest()

    assert stage.job(run).attempt == 1
    assert run.claims["prefect-vertex-create-a1-2"] == "w/instance-0"


async def test_an_attempt_that_was_settled_once_is_looked_for_again_after_a_create(
    stage: Stage,
) -> None:
    stage.list_lag_seconds = 60
    run = stranded(stage, **{ATTEMPT_LABEL: "1"})
    run.claims["prefect-vertex-create-a1"] = "w/dead"
    worker = await stage.worker("w")
    await stage.tick(60)
    stage.submit(worker, run)
    await stage.rest()
    run.identifier = ""
    await stage.kill(worker)
    worker = await stage.worker("w")
    stage.runs.put(run.id, RunState.SCHEDULED)
    stage.submit(worker, run)
    await stage.tick(40)

    assert stage.job(run).attempt == 1


async def test_a_claim_without_an_announcement_is_looked_into(stage: Stage) -> None:
    """Its holder died between the claim and the announcement, or stands still there."""
    worker = await stage.worker("w")
    run = stage.runs.add()
    run.claims["prefect-vertex-create-a1"] = "w/dead"
    stage.submit(worker, run)
    await stage.tick(20)
    assert stage.jobs() == []
    await stage.tick(20)

    assert stage.job(run).attempt == 1


async def test_a_claim_that_was_lost_once_is_no_matter_for_the_next_attempt(stage: Stage) -> None:
    worker = await stage.worker("w")
    run = stage.runs.add()
    run.claims["prefect-vertex-create-a1"] = "w/dead"
    stage.submit(worker, run)
    await stage.tick(40)
    stage.start(run)
    stage.reschedule(run)
    stage.submit(worker, run)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(3)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_a_job_that_appears_after_all_is_the_runs(stage: Stage) -> None:
    worker = await stage.worker("one")
    run, _ = await stage.submitted(worker)
    job = stage.job(run)
    stage.gateway().hide(job.resource_name)
    await stage.kill(worker)
    run.identifier = ""
    stage.runs.offline.add("one")
    await stage.worker("two")
    await stage.tick(20)
    stage.gateway().hide(job.resource_name, hidden=False)
    await stage.tick(20)

    assert run.name == "Provisioning"
    assert run.identifier == str(job.resource_name)


async def test_two_workers_do_not_put_one_run_back_twice(stage: Stage) -> None:
    run = stranded(stage, "gone/1")
    stage.runs.offline.add("gone")
    for name in ("one", "two"):
        await stage.worker(name)
    await stage.tick(14)
    assert run.names.count("Scheduled") == 2
    third = await stage.worker("three")
    stage.submit(third, run)
    await stage.tick(40)

    assert run.names.count("Scheduled") == 2
    assert stage.job(run).attempt == 1


async def test_a_run_that_names_no_process_is_nobodys_after_ten_minutes(stage: Stage) -> None:
    run = stage.runs.add()
    stage.pick_up(run)
    await stage.worker("w")
    await stage.tick(115)
    assert run.name == "Submitting"
    await stage.tick(20)

    assert run.name == "Scheduled"


@pytest.mark.parametrize(("name", "looks"), [("w", 2), ("elsewhere", 14)])
async def test_a_run_that_only_names_its_worker_goes_back_once_that_is_gone(
    name: str, looks: int, stage: Stage
) -> None:
    """An earlier process of our own name, or one that Prefect calls offline."""
    run = stage.runs.add()
    stage.pick_up(run, name)
    await stage.clock.advance(31)
    await stage.worker("w")
    stage.runs.offline.add("elsewhere")
    await stage.tick(looks)

    assert run.name == "Scheduled"


async def test_a_retry_that_died_with_its_taker_is_not_left_to_the_last_attempts_holder(
    stage: Stage,
) -> None:
    one = await stage.worker("one")
    run, _ = await stage.running(one)
    stage.reschedule(run)
    stage.pick_up(run, "two")
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(20)
    assert run.name == "Submitting"
    stage.runs.offline.add("two")
    await stage.tick(14)

    assert run.name == "Scheduled"


async def test_a_worker_that_died_while_it_put_a_run_back_is_followed_by_another(
    stage: Stage,
) -> None:
    run = stranded(stage)
    run.claims[f"prefect-vertex-adopt-{run.history[-1][2]}"] = "w/also-dead"
    await stage.worker("w")
    await stage.tick(15)

    assert run.name == "Scheduled"


async def test_a_run_that_waits_half_an_hour_for_its_turn_is_not_taken_away(stage: Stage) -> None:
    import anyio

    one = await stage.worker("one")
    await stage.worker("two")
    turn = anyio.Event()
    stage.gateway().script("submission_turn", until=turn)
    run, _ = stage.submit(one)
    await stage.tick(360)
    turn.set()
    await stage.rest()

    assert run.names.count("Scheduled") == 1
    assert stage.job(run).attempt == 1


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
