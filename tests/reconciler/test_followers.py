"""Jobs of several replicas: when they may be given up, and what becomes of their flow runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler

pytestmark = pytest.mark.anyio

A, B = "us-central1", "europe-west4"
EXIT_1 = (3, "The replica workerpool0-0 exited with a non-zero status of 1.")
LATE = "prefect-vertex: only 2 of 3 replicas after 30 s, not ranks [2]"
EXIT_79 = (3, f"The replica workerpool0-0 exited with a non-zero status of 79.\n{LATE}")
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")


async def at_work(
    stage: Stage, worker: Reconciler, policy: RunPolicy | None = None
) -> tuple[Run, list[Run]]:
    """A run of three replicas, all of which run the flow."""
    run, _ = await stage.submitted(worker, replicas=3, policy=policy)
    stage.start(run)
    followers = [stage.runs.add_follower(run, 1, rank) for rank in (1, 2)]
    await stage.tick()
    return run, followers


def check_in(run: Run, *ranks: int) -> None:
    """Replicas of the first attempt wait for the others."""
    run.claims.update({f"prefect-vertex-here-a1-j1-r{rank}": '{"job": "1"}' for rank in ranks})


# --- half of the machines ------------------------------------------------------------------------


async def test_a_job_whose_machines_come_only_in_part_is_given_up_and_tried_elsewhere(
    stage: Stage,
) -> None:
    """Its replicas have checked in and wait; none has begun."""
    policy = RunPolicy(provisioning_timeout_seconds=60)
    run, _ = await stage.submitted(
        await stage.worker(), replicas=3, regions=[B], policies=(policy, policy)
    )
    stage.move(stage.job(run), "PENDING")
    check_in(run, 0, 1)
    await stage.tick(14)
    (first,) = stage.jobs(run)
    assert first.state == "JOB_STATE_CANCELLING"
    stage.move(first, "CANCELLED", (1, "CANCELED"))
    await stage.tick(2)

    first, second = sorted(stage.jobs(run), key=lambda job: job.attempt)
    assert (first.is_terminal, second.is_terminal) == (True, False)
    assert second.resource_name.location == B
    assert run.state is RunState.PENDING


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_replicas_that_waited_in_vain_let_the_run_be_tried_elsewhere(
    state: str, stage: Stage
) -> None:
    """Also when Vertex AI calls the job RUNNING: a container may hang while it starts."""
    run, _ = await stage.submitted(await stage.worker(), replicas=3, regions=[B])
    stage.move(stage.job(run), state)
    check_in(run, 0, 1)
    await stage.tick(2)
    stage.move(stage.job(run), "FAILED", EXIT_79)
    await stage.tick(2)

    first, second = sorted(stage.jobs(run), key=lambda job: job.attempt)
    assert (first.is_terminal, second.is_terminal) == (True, False)
    assert second.resource_name.location == B


@pytest.mark.parametrize("others", ["all there", "nobody waited"])
async def test_a_command_that_ends_with_that_status_itself_is_not_tried_elsewhere(
    others: str, stage: Stage
) -> None:
    """Where Vertex AI may start containers again, no start is claimed."""
    run, _ = await stage.submitted(await stage.worker(), replicas=3, regions=[B])
    if others == "all there":
        check_in(run, 0, 1, 2)
        run.claims["prefect-vertex-gang-a1"] = '{"job": "1"}'
    stage.move(stage.job(run), "RUNNING")
    stage.move(stage.job(run), "FAILED", EXIT_79)
    await stage.tick(2)

    assert run.state is RunState.CRASHED
    assert len(stage.jobs(run)) == 1


@pytest.mark.parametrize("rank", ["r0", "r63"])
async def test_a_job_of_which_any_replica_had_begun_is_not_tried_elsewhere(
    rank: str, stage: Stage
) -> None:
    """One that came at the very last moment."""
    run, _ = await stage.submitted(await stage.worker(), replicas=64, regions=[B])
    stage.move(stage.job(run), "PENDING")
    run.claims[f"prefect-vertex-start-a1-{rank}"] = '{"nonce": "n", "job": "1"}'
    reads = stage.runs.calls["read_claim"]
    stage.move(stage.job(run), "FAILED", EXIT_79)
    await stage.tick(2)

    assert run.state is RunState.CRASHED
    assert "exited with status 79: not all replicas had checked in" in run.message
    assert len(stage.jobs(run)) == 1
    assert stage.runs.calls["read_claim"] == reads + 1


# --- the followers' flow runs --------------------------------------------------------------------


async def test_what_a_dead_job_leaves_of_its_replicas_is_crashed(stage: Stage) -> None:
    """One that could still report its own end keeps that."""
    run, (first, second) = await at_work(stage, await stage.worker())
    stage.runs.put(first.id, RunState.FAILED)
    stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick(2)

    assert [run.name, first.name, second.name] == ["Crashed", "Failed", "Crashed"]
    number = stage.job(run).resource_name.job_id
    assert second.message == (
        f"Replica 2 of attempt 1: CustomJob {number} ended before its flow run did."
    )


async def test_they_live_as_long_as_their_job(stage: Stage) -> None:
    run, followers = await at_work(stage, await stage.worker())
    stage.runs.put(run.id, RunState.COMPLETED)
    await stage.tick(3)

    assert [follower.name for follower in followers] == ["Running", "Running"]


async def test_those_of_a_cancelled_run_are_cancelled(stage: Stage) -> None:
    run, followers = await at_work(stage, await stage.worker())
    stage.runs.put(run.id, RunState.CANCELLING)
    stage.runs.put(followers[0].id, RunState.CANCELLING)
    await stage.tick(15)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(2)

    assert [run.name, *(each.name for each in followers)] == ["Cancelled"] * 3


async def test_those_of_a_job_that_somebody_cancelled_elsewhere_are_cancelled(
    stage: Stage,
) -> None:
    run, followers = await at_work(stage, await stage.worker())
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(2)

    assert [run.name, *(each.name for each in followers)] == ["Cancelled"] * 3


async def test_one_that_was_about_to_be_cancelled_when_its_job_died_is_cancelled(
    stage: Stage,
) -> None:
    """The server refuses Crashed over Cancelling."""
    run, (first, second) = await at_work(stage, await stage.worker())
    stage.runs.put(first.id, RunState.CANCELLING)
    stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick(2)

    assert [run.name, first.name, second.name] == ["Crashed", "Cancelled", "Crashed"]


async def test_a_preempted_runs_next_attempt_has_followers_of_its_own(stage: Stage) -> None:
    """The last one's are over before the run is handed out again; nobody touches the new ones."""
    worker = await stage.worker()
    run, old = await at_work(stage, worker, RunPolicy(spot=True))
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(2)
    assert [run.name, *(each.name for each in old)] == ["AwaitingRetry", "Crashed", "Crashed"]
    stage.submit(worker, run, replicas=3)
    await stage.rest()
    new = stage.runs.add_follower(run, 2, 1)
    stage.start(run)
    await stage.tick(2)

    assert len(stage.live()) == 1
    assert new.name == "Running"


async def test_a_rescheduled_runs_followers_end_with_its_job(stage: Stage) -> None:
    run, followers = await at_work(stage, await stage.worker())
    stage.reschedule(run)
    await stage.tick(2)
    assert [follower.name for follower in followers] == ["Running", "Running"]
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(2)

    assert run.name == "AwaitingRetry"
    assert [follower.name for follower in followers] == ["Crashed", "Crashed"]


async def test_those_of_a_deleted_run_end_with_its_job(stage: Stage) -> None:
    run, followers = await at_work(stage, await stage.worker())
    del stage.runs.rows[run.id]
    await stage.tick(30)
    assert [follower.name for follower in followers] == ["Running", "Running"]
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(3)

    assert [follower.name for follower in followers] == ["Crashed", "Crashed"]


async def test_those_of_a_deleted_job_are_crashed(stage: Stage) -> None:
    run, followers = await at_work(stage, await stage.worker())
    stage.vanish(stage.job(run))
    await stage.tick(40)

    assert [run.name, *(each.name for each in followers)] == ["Crashed"] * 3
    assert followers[0].message.startswith("Replica 1 of attempt 1: its job ended")


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_worker_that_comes_later_settles_them(*, is_over: bool, stage: Stage) -> None:
    """Nobody looked when the leader and its job ended; the job is described before that."""
    worker = await stage.worker()
    run, followers = await at_work(stage, worker)
    await stage.kill(worker)
    stage.runs.put(run.id, RunState.FAILED)
    if is_over:
        stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.worker("another")
    await stage.tick(2)

    name = "Crashed" if is_over else "Running"
    assert [follower.name for follower in followers] == [name, name]
    assert run.name == "Failed"


async def test_they_are_settled_even_if_prefect_fails_at_first(stage: Stage) -> None:
    run, followers = await at_work(stage, await stage.worker())
    faults = iter([True, True])

    def mischief(method: str) -> tuple[Exception, bool] | None:
        fails = method == "propose" and next(faults, False)
        return (PrefectUnavailableError("The Prefect API answered 503."), True) if fails else None

    stage.runs.mischief = mischief
    stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick(10)

    assert [run.name, *(each.name for each in followers)] == ["Crashed"] * 3


@pytest.mark.parametrize("method", ["followers", "unfinished", "roster", "read_many"])
async def test_those_of_a_run_that_ended_while_nobody_looked_are_settled_even_if_prefect_fails(
    method: str, stage: Stage
) -> None:
    """A worker looks back once, when it starts."""
    first = await stage.worker()
    run, followers = await at_work(stage, first)
    await stage.kill(first)
    stage.complete(run)
    await stage.clock.advance(600)
    second = await stage.worker()
    stage.runs.mischief = lambda called: (
        (PrefectUnavailableError("503"), False) if called == method else None
    )
    with suppress(PrefectUnavailableError):
        await second.tick()
    stage.runs.mischief = None
    await stage.tick(3, seconds=30)

    assert {each.name for each in followers} == {"Crashed"}


async def test_a_run_of_one_replica_is_not_asked_for_followers(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.complete(run)
    await stage.tick(3)

    assert run.name == "Completed"
    assert stage.runs.calls["followers"] == 0
