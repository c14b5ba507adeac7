"""Runs that nobody holds any more: when they go back, and who creates for them then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
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

pytestmark = pytest.mark.anyio


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


async def test_a_run_that_names_no_process_is_nobodys_after_three_minutes(stage: Stage) -> None:
    """Another worker is online, and may have just taken it."""
    run = stage.runs.add()
    stage.pick_up(run)
    stage.runs.online.add("another")
    await stage.worker("w")
    await stage.tick(35)
    assert run.name == "Submitting"
    await stage.tick(14)

    assert run.name == "Scheduled"


async def test_a_run_that_names_no_process_goes_back_where_no_other_worker_is_online(
    stage: Stage,
) -> None:
    run = stage.runs.add()
    stage.pick_up(run)
    await stage.worker("w")
    await stage.tick(15)

    assert run.name == "Scheduled"


async def test_an_ad_hoc_run_may_be_anybodys_for_three_minutes(stage: Stage) -> None:
    """Whoever submits one is no worker, and may still be staging its code."""
    run = stage.runs.add(deployment_id="")
    stage.runs.put(run.id, RunState.PENDING)
    await stage.worker("w")
    await stage.tick(35)
    assert run.name == "Pending"
    await stage.tick(14)

    assert run.name == "Crashed"


async def test_a_run_that_this_worker_is_taking_is_left_to_it(stage: Stage) -> None:
    """Between Pending and its care the base class may wait for the Prefect API for minutes."""
    run = stage.runs.add()
    stage.pick_up(run)
    worker = await stage.worker("w")
    stage.slots["w"].submitting.add(run.id)
    await stage.tick(100)
    assert run.name == "Submitting"
    worker.take(stage.assignment(run))
    await stage.rest()

    assert stage.job(run).attempt == 1


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
    stage.runs.online.add("two")
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
