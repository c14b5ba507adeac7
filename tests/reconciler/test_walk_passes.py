"""The walk over candidates: its passes and pauses, its limits, and its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from tests.reconciler.walks import (
    NO_ROOM_WORDS,
    STOCKOUT,
    A,
    B,
    creates,
    fail,
    no_room,
    places,
    refused,
)

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.errors import RateLimitedError
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy, parse_policy
from prefect_vertex.lifecycle.run import POLICY_LABEL

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio


# --- passes and limits ----------------------------------------------------------------------------


async def test_one_candidate_is_tried_again_in_ever_longer_passes(stage: Stage) -> None:
    no_room(stage, A)
    run, _ = stage.submit(await stage.worker(), capacity=CapacityPolicy(max_attempts=0))
    await stage.rest()
    seen = []
    for tick in range(1, 100):
        before = creates(stage)
        await stage.tick()
        seen += [tick * 5] * (creates(stage) - before)

    assert seen == [60, 180, 420]
    assert run.name == "AwaitingCapacity"


async def test_a_new_pause_gives_the_waiting_state_a_new_message(stage: Stage) -> None:
    no_room(stage, A)
    run, _ = stage.submit(await stage.worker())
    await stage.rest()
    first = run.message
    await stage.tick(13)

    assert "at 00:01:00 UTC" in first
    assert "at 00:03:00 UTC" in run.message
    assert run.names[-3:] == ["AwaitingCapacity", "Submitting", "AwaitingCapacity"]


async def test_a_busy_network_is_come_back_to_where_there_is_no_other(stage: Stage) -> None:
    words = "Couldn't find free blocks in allocated IP ranges. Please allocate new ranges."
    stage.gateway().script("create", refused(words, "FAILED_PRECONDITION"))
    run, _ = stage.submit(await stage.worker())
    await stage.rest()
    assert run.name == "AwaitingCapacity"
    assert "a fault of the network here" in run.message
    await stage.tick(13)

    assert places(stage, run) == [A]


async def test_images_that_can_be_read_nowhere_are_no_want_of_machines(stage: Stage) -> None:
    words = "The service agent should be granted access to the image gcr.io/p/flows:latest"
    for location in (A, B):
        stage.gateway(location).script("create", refused(words, "FAILED_PRECONDITION"))
    run, ticket = stage.submit(await stage.worker(), regions=[B])
    await stage.tick(3)

    assert run.name == "Crashed"
    assert run.message.startswith(f"The job could not begin in {A}, {B} after 2 attempts: ")
    assert (await ticket.wait_ended()).reason is TerminationReason.UNKNOWN


@pytest.mark.parametrize(
    ("capacity", "expected", "because"),
    [
        (CapacityPolicy(max_attempts=3), 3, "capacity.max_attempts allows 3 attempts"),
        (CapacityPolicy(max_passes=1), 2, "capacity.max_passes allows 1 pass"),
        (CapacityPolicy(max_wall_seconds=100), 4, "capacity.max_wall_seconds allows 100 s"),
    ],
)
async def test_all_out_is_the_end_with_every_candidates_last_answer(
    capacity: CapacityPolicy, expected: int, because: str, stage: Stage
) -> None:
    no_room(stage, A, B)
    run, ticket = stage.submit(await stage.worker(), regions=[B], capacity=capacity)
    await stage.tick(60)

    assert creates(stage) == expected
    assert run.name == "Crashed"
    head, *lines = run.message.splitlines()
    assert head.startswith(f"There is no capacity in {A}, {B} after {expected} attempts: {because}")
    assert [line.partition(":")[0] for line in lines] == [A, B]
    assert all(NO_ROOM_WORDS in line for line in lines)
    assert (await ticket.wait_ended()).reason is TerminationReason.NO_CAPACITY
    assert ticket.crashed


async def test_the_ledger_grows_with_the_walk(stage: Stage) -> None:
    no_room(stage, B)
    capacity = CapacityPolicy(max_passes=1)
    worker = await stage.worker()
    run, _ = await stage.submitted(worker, regions=[B], capacity=capacity)
    await stage.tick(4)
    await fail(stage, run)

    versions = stage.runs.tables[f"vertex-capacity-{run.id}"]
    assert [len(rows) for rows in versions] == [1, 2]
    first, second = versions[-1]
    assert first == {
        "attempt": "1",
        "candidate": A,
        "reason": "no machines free now",
        "message": STOCKOUT[1],
        "seconds": "20",
    }
    assert NO_ROOM_WORDS in second["message"]
    events = [event for _, event, _ in stage.runs.events if "capacity" in event]
    assert events == ["prefect-vertex.capacity.refused", "prefect-vertex.capacity.exhausted"]


async def test_the_ledger_tells_where_machines_were_found(stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    await fail(stage, run)
    await stage.tick(3)
    stage.start(run)
    await stage.tick(3)

    (rows,) = stage.runs.tables[f"vertex-capacity-{run.id}"][1:]
    assert [(row["candidate"], row["reason"]) for row in rows] == [
        (A, "no machines free now"),
        (B, "running"),
    ]


async def test_a_run_that_finds_machines_at_once_has_no_ledger(stage: Stage) -> None:
    await stage.running(await stage.worker(), regions=[B])

    assert stage.runs.tables == {}


async def test_each_candidate_has_its_own_patience(stage: Stage) -> None:
    policies = (RunPolicy(spot=True), RunPolicy(timeout_seconds=60))
    run, _ = await stage.submitted(await stage.worker(), regions=[B], policies=policies)
    assert parse_policy(run.labels[POLICY_LABEL]) == policies[0]
    await fail(stage, run)

    assert parse_policy(run.labels[POLICY_LABEL]) == policies[1]


async def test_runs_that_wait_for_machines_keep_no_others_from_being_taken(stage: Stage) -> None:
    no_room(stage, A)
    worker = await stage.worker()
    run, _ = stage.submit(worker)
    await stage.rest()

    assert run.name == "AwaitingCapacity"
    assert worker.waiting_submissions == 0


async def test_a_run_that_waits_for_machines_keeps_its_concurrency_slot(stage: Stage) -> None:
    from datetime import timedelta

    no_room(stage, A)
    worker = await stage.worker()
    run, _ = stage.submit(worker, capacity=CapacityPolicy(max_attempts=0))
    run.lease_id = "a-lease"
    stage.runs.leases["a-lease"] = stage.wall.now() + timedelta(seconds=300)
    await stage.tick(200)

    assert run.name == "AwaitingCapacity"
    assert stage.runs.leases["a-lease"] > stage.wall.now()


# --- the turn to submit ---------------------------------------------------------------------------


async def test_the_time_of_a_walk_counts_while_it_waits_for_its_turn(stage: Stage) -> None:
    turn = anyio.Event()
    capacity = CapacityPolicy(max_wall_seconds=100)
    run, _ = await stage.submitted(await stage.worker(), regions=[B], capacity=capacity)
    stage.gateway(B).script("submission_turn", until=turn)
    await fail(stage, run)
    await stage.tick(30)
    turn.set()
    await stage.tick(2)

    assert run.name == "Crashed"
    assert "capacity.max_wall_seconds allows 100 s" in run.message
    assert places(stage, run) == [A]


async def test_the_time_of_a_walk_counts_while_requests_are_too_many(stage: Stage) -> None:
    stage.gateway().down["create"] = RateLimitedError("Too many requests.")
    capacity = CapacityPolicy(max_wall_seconds=100)
    run, _ = stage.submit(await stage.worker(), regions=[B], capacity=capacity)
    await stage.tick(40)

    assert run.name == "Crashed"
    assert "capacity.max_wall_seconds allows 100 s" in run.message
    assert places(stage, run) == []


async def test_what_a_user_should_know_is_said_though_every_create_is_refused(
    stage: Stage,
) -> None:
    no_room(stage, A, B)
    run, _ = stage.submit(await stage.worker(), regions=[B], warnings=("No candidate fits.",))
    await stage.tick(60)

    assert run.name == "Crashed"
    assert stage.runs.logs[run.id].count("No candidate fits.") == 1
