"""The walk over candidates: restarts after a preemption, and retries that begin anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.reconciler.walks import STOCKOUT, A, B, C, fail, ledger, no_room, places, taken_again

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.capacity.refusals import SCOPE_OF, Refusal, RefusalReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler

pytestmark = pytest.mark.anyio

SPOT = RunPolicy(spot=True)


async def preempted(
    stage: Stage, worker: Reconciler, run: Run, **wishes: Any
) -> Callable[[], list[str]]:
    """The newest job loses its machines, and the run is taken again."""
    newest = max(stage.jobs(run), key=lambda job: job.attempt)
    stage.move(newest, "FAILED", STOCKOUT)
    await stage.tick()
    assert run.name == "AwaitingRetry"
    stage.submit(worker, run, **wishes)
    await stage.rest()
    return lambda: places(stage, run)


async def test_a_preempted_run_goes_on_at_the_next_candidate(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker, regions=[B, C], policy=SPOT)
    await preempted(stage, worker, run, regions=[B, C], policy=SPOT)
    assert places(stage, run) == [A, B]
    await fail(stage, run)
    assert places(stage, run) == [A, B, C]
    await fail(stage, run)
    await stage.tick(2)

    assert places(stage, run) == [A, B, C, A]
    assert "no capacity" not in run.message


async def test_machines_that_were_taken_back_are_in_the_ledger(stage: Stage) -> None:
    worker = await stage.worker()
    wishes: dict[str, Any] = {"regions": [B], "policy": SPOT}
    run, _ = await stage.running(worker, **wishes)
    await preempted(stage, worker, run, **wishes)
    assert ledger(stage, run) == [("1", A, "the machines were taken back")]
    await stage.tick()
    stage.start(run)
    await stage.tick()

    assert ledger(stage, run) == [("1", A, "the machines were taken back"), ("2", B, "running")]
    assert "prefect-vertex.capacity.lost" in {event for _, event, _ in stage.runs.events}


async def test_a_run_that_is_preempted_to_the_end_has_every_try_in_its_ledger(
    stage: Stage,
) -> None:
    wishes: dict[str, Any] = {
        "regions": [B],
        "policy": RunPolicy(spot=True, max_restarts=1),
        "capacity": CapacityPolicy(max_restarts=1),
    }
    worker = await stage.worker()
    run, _ = await stage.running(worker, **wishes)
    await preempted(stage, worker, run, **wishes)
    stage.start(run)
    await stage.tick()
    newest = max(stage.jobs(run), key=lambda job: job.attempt)
    stage.move(newest, "FAILED", STOCKOUT)
    await stage.tick()

    assert run.name == "Crashed"
    taken = "the machines were taken back"
    assert ledger(stage, run) == [("1", A, taken), ("2", B, taken)]


async def test_a_first_preemption_that_may_not_be_followed_has_a_ledger(stage: Stage) -> None:
    policy = RunPolicy(spot=True, max_restarts=0)
    run, _ = await stage.running(await stage.worker(), policy=policy)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick()

    assert ledger(stage, run) == [("1", A, "the machines were taken back")]


async def test_the_end_knows_where_the_run_had_been_preempted(stage: Stage) -> None:
    wishes: dict[str, Any] = {
        "regions": [B],
        "policy": SPOT,
        "capacity": CapacityPolicy(max_attempts=1),
    }
    worker = await stage.worker()
    run, _ = await stage.running(worker, **wishes)
    no_room(stage, B)
    await preempted(stage, worker, run, **wishes)
    await stage.tick(3)

    assert run.name == "Crashed"
    assert f"{A}: the machines were taken back. {STOCKOUT[1]}" in run.message.splitlines()


async def test_a_job_that_ran_for_less_than_a_tick_is_in_the_ledger(stage: Stage) -> None:
    no_room(stage, A)
    run, _ = stage.submit(await stage.worker(), regions=[B])
    await stage.rest()
    stage.start(run)
    stage.complete(run)
    await stage.tick(2)

    assert [reason for _, _, reason in ledger(stage, run)] == ["no machines free now", "running"]


@pytest.mark.parametrize(
    "error",
    [
        *((code, STOCKOUT[1]) for code in (2, 3, 9, 13)),
        (13, "The machine was preempted."),
        (2, "Spot VM instance was preempted"),
        (0, "The zone 'projects/p/zones/z' does not have enough resources available."),
    ],
)
async def test_a_preemption_is_known_by_its_words_under_any_number(
    error: tuple[int, str], stage: Stage
) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker, regions=[B], policy=SPOT)
    stage.move(stage.job(run), "FAILED", error)
    await stage.tick()
    assert run.name == "AwaitingRetry"
    stage.submit(worker, run, regions=[B], policy=SPOT)
    await stage.rest()

    assert places(stage, run) == [A, B]


async def test_a_replica_that_fails_on_spot_is_no_preemption(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker(), regions=[B], policy=SPOT)
    words = f"The replica workerpool0-0 exited with a non-zero status of 1. \n{STOCKOUT[1]}"
    stage.move(stage.job(run), "FAILED", (3, words))
    await stage.tick()

    assert run.name == "Crashed"


async def test_only_restarts_count_as_restarts(stage: Stage) -> None:
    """Two preemptions are allowed, and hops in between do not use them up."""
    wishes: dict[str, Any] = {
        "regions": [B],
        "policy": RunPolicy(spot=True, max_restarts=2),
        "capacity": CapacityPolicy(max_restarts=2),
    }
    worker = await stage.worker()
    run, _ = await stage.submitted(worker, **wishes)
    for _ in range(2):
        await fail(stage, run)
        await stage.tick()
        stage.start(run)
        await stage.tick()
        await preempted(stage, worker, run, **wishes)
    stage.start(run)
    await stage.tick()
    assert len(stage.jobs(run)) == 5
    await fail(stage, run)

    assert run.name == "Crashed"
    assert "capacity.max_restarts allows 2" in run.message


async def test_attempts_count_anew_once_a_container_had_started(stage: Stage) -> None:
    wishes: dict[str, Any] = {
        "regions": [B],
        "policy": SPOT,
        "capacity": CapacityPolicy(max_attempts=2),
    }
    worker = await stage.worker()
    run, _ = await stage.submitted(worker, **wishes)
    await fail(stage, run)
    await stage.tick()
    stage.start(run)
    await stage.tick()
    await preempted(stage, worker, run, **wishes)
    await fail(stage, run)

    assert places(stage, run) == [A, B, A, B]
    await fail(stage, run)
    assert run.name == "Crashed"


async def test_a_stockout_after_a_preemption_survives_the_worker(stage: Stage) -> None:
    """The run had been Running; its next attempt never began, so its end is no restart."""
    wishes: dict[str, Any] = {"regions": [B, C], "policy": RunPolicy(spot=True, max_restarts=1)}
    worker = await stage.worker()
    run, _ = await stage.running(worker, **wishes)
    await preempted(stage, worker, run, **wishes)
    await stage.kill(worker)
    stage.move(stage.jobs(run)[-1], "FAILED", STOCKOUT)
    successor = await stage.worker("w")
    await stage.tick(15)
    stage.submit(successor, run, **wishes)
    await stage.rest()

    assert places(stage, run) == [A, B, C]


async def test_a_persons_retry_begins_a_new_walk(stage: Stage) -> None:
    worker = await stage.worker()
    capacity = CapacityPolicy(max_attempts=2)
    run, _ = await stage.submitted(worker, regions=[B], capacity=capacity)
    for _ in range(2):
        await fail(stage, run)
        await stage.tick()
    assert run.name == "Crashed"
    stage.runs.put(run.id, RunState.SCHEDULED)
    stage.submit(worker, run, regions=[B], capacity=capacity)
    await stage.rest()

    assert places(stage, run) == [A, B, A]


async def test_a_persons_retry_of_a_run_that_was_preempted_tells_of_no_loss(stage: Stage) -> None:
    worker = await stage.worker()
    wishes: dict[str, Any] = {"regions": [B], "policy": SPOT}
    run, _ = await stage.running(worker, **wishes)
    await preempted(stage, worker, run, **wishes)
    stage.start(run)
    await stage.tick()
    await fail(stage, run, (3, "The replica workerpool0-0 exited with a non-zero status of 1."))
    assert run.name == "Crashed"
    before = len(stage.runs.events)
    stage.runs.put(run.id, RunState.SCHEDULED)
    stage.submit(worker, run, **wishes)
    await stage.rest()

    assert places(stage, run) == [A, B, A]
    told = [event for _, event, _ in list(stage.runs.events)[before:]]
    assert not [event for event in told if "capacity" in event]


async def test_the_event_of_a_loss_names_the_candidate_that_was_lost(stage: Stage) -> None:
    """Not one that the quotas have ruled out since."""
    worker = await stage.worker()
    wishes: dict[str, Any] = {"regions": [B, C], "policy": SPOT}
    run, _ = await stage.running(worker, **wishes)
    reason = RefusalReason.QUOTA
    skipped = {1: Refusal(reason, SCOPE_OF[reason], "the limit is 0")}
    await preempted(stage, worker, run, **wishes, skipped=skipped)

    assert places(stage, run) == [A, C]
    (payload,) = [
        payload for (_, event, _), payload in stage.runs.events.items() if event.endswith(".lost")
    ]
    assert (payload["candidate"], payload["next_candidate"]) == (A, C)


async def test_other_candidates_than_before_begin_a_new_walk(stage: Stage) -> None:
    worker = await stage.worker()
    no_room(stage, A, B)
    run, _ = stage.submit(worker, regions=[B])
    await stage.rest()
    await taken_again(stage, worker, run, location=C)

    assert places(stage, run) == [C]
