"""What several workers see of one run in the same moment is said of it once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from prefect_vertex.cli.jobs.deeds import settle
from prefect_vertex.cli.jobs.looking import Look
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio

STOCKOUT = (8, "Resources are insufficient in region: us-central1.")
STOPPED = (1, "CANCELED")


async def seen_by_three(stage: Stage, policy: RunPolicy | None = None) -> Run:
    """A running run that three workers look at; none of them has read it for a while."""
    holder = await stage.worker("one")
    for name in ("two", "three"):
        await stage.worker(name)
    run, _ = await stage.running(holder, policy=policy)
    await stage.tick(3)
    return run


async def look_together(stage: Stage) -> None:
    """Time passes, and all workers look at the same moment."""
    stage.clock._now += 5
    async with anyio.create_task_group() as group:
        for worker in stage.workers:
            group.start_soon(worker.tick)
    await stage.rest()


def said(stage: Stage, run: Run, text: str) -> int:
    """How many lines of the run's log have a text in them."""
    return sum(text in line for line in stage.runs.logs[run.id])


async def test_a_cancelled_run_is_cancelled_once(stage: Stage) -> None:
    run = await seen_by_three(stage)
    stage.runs.put(run.id, RunState.CANCELLING)
    await stage.tick()
    stage.move(stage.job(run), "CANCELLED", STOPPED)
    for _ in range(20):
        await look_together(stage)

    assert Counter(run.names)["Cancelled"] == 1
    assert said(stage, run, "is gone.") == 1


async def test_a_run_whose_job_was_stopped_by_others_is_cancelled_once(stage: Stage) -> None:
    run = await seen_by_three(stage)
    stage.move(stage.job(run), "CANCELLED", STOPPED)
    for _ in range(20):
        await look_together(stage)

    assert Counter(run.names)["Cancelled"] == 1


async def test_a_preempted_run_is_scheduled_again_once(stage: Stage) -> None:
    run = await seen_by_three(stage, RunPolicy(spot=True))
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    for _ in range(20):
        await look_together(stage)

    assert Counter(run.names)["AwaitingRetry"] == 1


async def test_a_failed_run_is_crashed_once(stage: Stage) -> None:
    run = await seen_by_three(stage)
    stage.move(stage.job(run), "FAILED", (3, "The replica workerpool0-0 exited with 1."))
    for _ in range(20):
        await look_together(stage)

    assert Counter(run.names)["Crashed"] == 1
    assert said(stage, run, "exited with 1.") == 1


async def test_whoever_was_to_say_it_and_died_is_followed_by_another(stage: Stage) -> None:
    run = await seen_by_three(stage)
    stage.runs.put(run.id, RunState.CANCELLING)
    await stage.tick()
    stage.move(stage.job(run), "CANCELLED", STOPPED)
    stage.runs.refused.add(RunState.CANCELLED)
    await stage.tick(3)
    assert run.name == "Cancelling"
    winner = next(owner for key, owner in run.claims.items() if "-end-" in key)
    (dead,) = [each for each in stage.workers if each.world.signature == winner]
    await stage.kill(dead)
    stage.runs.offline.add(dead.world.worker_name)
    stage.runs.refused.clear()
    await stage.tick(30)

    assert Counter(run.names)["Cancelled"] == 1


async def test_a_process_that_no_list_of_workers_names_is_waited_for_in_vain_only_so_long(
    stage: Stage,
) -> None:
    """Such as a command that settles runs: it may be stopped between its claim and its word."""
    run = await seen_by_three(stage)
    stage.runs.put(run.id, RunState.CANCELLING)
    run.claims[f"prefect-vertex-end-{run.history[-1][2]}"] = "prefect-vertex/ended-since"
    await stage.tick()
    stage.move(stage.job(run), "CANCELLED", STOPPED)
    for _ in range(20):
        await look_together(stage)
    assert run.name == "Cancelling"
    for _ in range(30):
        await look_together(stage)

    assert Counter(run.names)["Cancelled"] == 1


async def test_nor_does_it_keep_a_run_whose_worker_is_gone_from_the_others(stage: Stage) -> None:
    first = await stage.worker("one")
    run = stage.runs.add()
    stage.pick_up(run, "one")
    await stage.kill(first)
    stage.runs.offline.add("one")
    run.claims[f"prefect-vertex-adopt-{run.history[-1][2]}"] = "prefect-vertex/ended-since"
    await stage.worker("two")
    await stage.tick(20)
    assert "Scheduled" not in run.names[1:]
    await stage.tick(60)

    assert run.name == "Scheduled"


async def test_a_command_that_settles_runs_goes_on_at_once_where_a_worker_ended(
    stage: Stage,
) -> None:
    """It is asked for when no worker is there; it has less time than others are waited for."""
    dead = await stage.worker("one")
    run, _ = await stage.running(dead)
    stage.runs.put(run.id, RunState.CANCELLING)
    stage.move(stage.job(run), "CANCELLED", STOPPED)
    run.claims[f"prefect-vertex-end-{run.history[-1][2]}"] = dead.world.signature
    await stage.kill(dead)
    stage.runs.offline.add("one")
    seen = Look(now=stage.wall.now())
    (target,) = dead.world.home()
    seen.see(stage.jobs(run), target)
    world = replace(dead.world, worker_name="prefect-vertex-cli", instance="a-command")
    told: list[str] = []
    left = await settle(world, seen, [run.id], tell=told.append, seconds=0)

    assert run.name == "Cancelled"
    assert not left
