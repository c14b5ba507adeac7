"""The walk over candidates: workers that die, and others that go on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.reconciler.walks import (
    NO_ROOM_WORDS,
    QUOTA_WORDS,
    STOCKOUT,
    A,
    B,
    C,
    creates,
    fail,
    no_room,
    places,
    refused,
    taken_again,
)

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.lifecycle.run import BUNDLE_LABEL, BUNDLE_OF_RETRY, RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio


async def test_a_walk_goes_on_where_a_killed_worker_left_it(stage: Stage) -> None:
    """A had no room, B's quota refused; so C is next, and then A again, but never B."""
    worker = await stage.worker()
    no_room(stage, C)
    stage.gateway(B).script("create", refused(QUOTA_WORDS))
    run, _ = await stage.submitted(worker, regions=[B, C])
    await fail(stage, run)
    assert run.name == "AwaitingCapacity"
    before = creates(stage)
    await taken_again(stage, worker, run, regions=[B, C])
    await stage.tick(2)

    assert places(stage, run) == [A, A]
    assert stage.jobs(run)[-1].attempt == 2
    assert creates(stage) == before + 1


async def test_a_pause_that_another_worker_waits_out_is_told_by_it(stage: Stage) -> None:
    worker = await stage.worker()
    wishes: dict[str, Any] = {"regions": [B], "capacity": CapacityPolicy(max_attempts=0)}
    no_room(stage, A, B)
    run, _ = stage.submit(worker, **wishes)
    await stage.tick(13)
    said = run.message
    assert "Next: us-central1, at 00:03:" in said
    await taken_again(stage, worker, run, **wishes)

    assert run.names[-3:] == ["Pending", "Submitting", "AwaitingCapacity"]
    assert run.message == said
    await stage.tick(3)
    assert run.names[-2:] == ["Submitting", "AwaitingCapacity"]
    assert stage.runs.logs[run.id].count(said) == 2
    assert creates(stage) == 4
    await stage.tick(10)
    assert creates(stage) == 6


async def test_a_pause_whose_worker_is_lost_twice_ends_in_time(stage: Stage) -> None:
    worker = await stage.worker()
    wishes: dict[str, Any] = {"capacity": CapacityPolicy(max_attempts=0)}
    no_room(stage, A)
    run, _ = stage.submit(worker, **wishes)
    await stage.tick(40)
    second = await taken_again(stage, worker, run, **wishes)
    await taken_again(stage, second, run, **wishes)
    assert run.name == "AwaitingCapacity"
    stage.gateway(A).down.clear()
    await stage.tick(17)

    assert places(stage, run) == [A]
    assert stage.job(run).attempt == 1
    assert run.name == "Provisioning"


async def test_a_run_that_is_cancelled_while_another_worker_waits_is_not_tried_again(
    stage: Stage,
) -> None:
    worker = await stage.worker()
    wishes: dict[str, Any] = {"capacity": CapacityPolicy(max_attempts=0)}
    no_room(stage, A)
    run, _ = stage.submit(worker, **wishes)
    await stage.tick(13)
    await taken_again(stage, worker, run, **wishes)
    stage.runs.put(run.id, RunState.CANCELLING)
    await stage.tick(60)

    assert run.name == "Cancelled"
    assert creates(stage) == 2


async def test_a_stockout_while_no_worker_looked_is_understood_by_the_next(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker, regions=[B])
    await stage.kill(worker)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    successor = await stage.worker("w")
    await stage.tick(15)
    stage.submit(successor, run, regions=[B])
    await stage.rest()

    assert places(stage, run) == [A, B]


async def test_a_stockout_of_an_adopted_job_sends_the_run_back_to_the_workers(
    stage: Stage,
) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker, regions=[B])
    await stage.kill(worker)
    successor = await stage.worker("w")
    await stage.tick(2)
    await fail(stage, run)
    assert run.name == "Scheduled"
    stage.submit(successor, run, regions=[B])
    await stage.rest()

    assert places(stage, run) == [A, B]
    assert stage.jobs(run)[-1].attempt == 2


async def test_the_time_of_a_walk_counts_over_its_workers(stage: Stage) -> None:
    worker = await stage.worker()
    capacity = CapacityPolicy(max_wall_seconds=90)
    run, _ = await stage.submitted(worker, regions=[B], capacity=capacity)
    await stage.kill(worker)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    successor = await stage.worker("w")
    await stage.tick(30)
    stage.submit(successor, run, regions=[B], capacity=capacity)
    await stage.tick(2)

    assert run.name == "Crashed"
    assert f"no capacity in {A}, {B}" in run.message
    assert places(stage, run) == [A]


async def test_a_retried_ad_hoc_run_whose_submitter_has_left_ends_with_its_jobs_answer(
    stage: Stage,
) -> None:
    """Nobody else could create its next job: its code is known to its submitter alone."""
    submitter, _ = await stage.worker("submitter"), await stage.worker("other")
    run = stage.runs.add(deployment_id="")
    run.labels[BUNDLE_LABEL] = BUNDLE_OF_RETRY
    stage.submit(submitter, run, regions=[B])
    await stage.rest()
    await stage.kill(submitter)
    await fail(stage, run)
    assert run.name != "Crashed"
    await stage.tick(40)

    assert run.name == "Crashed"
    assert STOCKOUT[1] in run.message


async def test_a_holder_that_is_silent_for_long_is_gone(stage: Stage) -> None:
    """Its heartbeat may still be fresh, or another worker has its name."""
    silent, other = await stage.worker("silent"), await stage.worker("other")
    run, _ = await stage.submitted(silent, regions=[B])
    await stage.kill(silent)
    await fail(stage, run)
    await stage.tick(40)
    assert run.name == "Scheduled"
    stage.submit(other, run, regions=[B])
    await stage.rest()

    assert places(stage, run) == [A, B]


async def test_another_worker_leaves_a_walk_to_its_holder(stage: Stage) -> None:
    one = await stage.worker("one", home=(A, B))
    await stage.worker("two", home=(A, B), sweep_seconds=5)
    no_room(stage, B)
    run, _ = await stage.submitted(one, regions=[B])
    await fail(stage, run)
    await stage.tick(100)

    assert "Scheduled" not in run.names[1:]
    assert places(stage, run) == [A, A]


async def test_a_prefect_api_that_fails_between_attempts_doubles_none(stage: Stage) -> None:
    """Each answer is told until the API has taken it, and then once."""
    import itertools

    from prefect_vertex.runs.port import PrefectUnavailableError

    turn = itertools.count()

    def sometimes(method: str) -> tuple[Exception, bool] | None:
        if method not in {"label", "propose", "publish"} or next(turn) % 2:
            return None
        return PrefectUnavailableError("503"), next(turn) % 3 == 0

    no_room(stage, B)
    run, _ = await stage.submitted(await stage.worker(), regions=[B, C])
    stage.runs.mischief = sometimes
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(40)
    stage.runs.mischief = None
    await stage.tick(10)

    assert places(stage, run) == [A, C]
    assert creates(stage) == 3


async def test_a_refused_create_that_took_effect_all_the_same_is_taken_back(stage: Stage) -> None:
    worker = await stage.worker()
    stage.gateway().script("create", refused(NO_ROOM_WORDS), after_effect=True)
    run, ticket = stage.submit(worker)
    await stage.tick(4)
    stage.start(run)
    await stage.tick()

    assert ticket.resource_name == stage.job(run).resource_name
    assert run.names[-3:] == ["InfrastructurePending", "Provisioning", "Running"]
