"""The walk over candidates: what ends it, and places that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.reconciler.walks import NO_ROOM_WORDS, QUOTA_WORDS, A, B, creates, fail, no_room, places

from prefect_vertex.errors import (
    RateLimitedError,
    ServiceError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio


# --- what ends a walk -----------------------------------------------------------------------------


async def test_a_container_that_began_before_the_stockout_is_not_tried_elsewhere(
    stage: Stage,
) -> None:
    """Its replicas may start before the job is RUNNING."""
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    run.claims["prefect-vertex-start-a1-r0"] = "nonce-1"
    await fail(stage, run)

    assert run.name == "Crashed"
    assert places(stage, run) == [A]


@pytest.mark.parametrize(
    "error", [(3, "The replica workerpool0-0 exited with a non-zero status of 1.")]
)
async def test_a_container_that_failed_is_not_tried_elsewhere(
    error: tuple[int, str], stage: Stage
) -> None:
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    await fail(stage, run, error)

    assert run.name == "Crashed"
    assert places(stage, run) == [A]


async def test_a_job_that_a_person_stopped_while_it_waited_does_not_come_back(
    stage: Stage,
) -> None:
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(40)

    assert run.name == "Cancelled"
    assert places(stage, run) == [A]


@pytest.mark.parametrize("had_job", [True, False])
async def test_a_run_that_is_cancelled_between_attempts_is_not_tried_again(
    *, had_job: bool, stage: Stage
) -> None:
    no_room(stage, B)
    if not had_job:
        no_room(stage, A)
    worker = await stage.worker()
    run, ticket = stage.submit(worker, regions=[B])
    await stage.rest()
    if had_job:
        await fail(stage, run)
    assert run.name == "AwaitingCapacity"
    before = creates(stage)
    stage.runs.put(run.id, RunState.CANCELLING)
    await stage.tick(60)

    assert run.name == "Cancelled"
    assert creates(stage) == before
    assert (await ticket.wait_ended()).exit_status == 0
    assert worker.book == {}


# --- places that fail -----------------------------------------------------------------------------


def no_answer(code: str, words: str = "try later") -> ServiceError:
    verdict = ServiceVerdict(code=code, words=words)
    return ServiceUnavailableError(f"Could not create: {code}: {words}", verdict=verdict)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL", "UNKNOWN", "ABORTED"])
async def test_a_place_that_fails_is_tried_once_more_and_then_left(code: str, stage: Stage) -> None:
    stage.gateway().down["create"] = no_answer(code)
    run, ticket = stage.submit(await stage.worker(), regions=[B])
    await stage.tick(23)
    assert stage.gateway().calls["create"] == 1
    await stage.tick(30)

    assert stage.gateway().calls["create"] == 2
    assert ticket.resource_name == stage.job(run).resource_name
    assert places(stage, run) == [B]
    assert stage.job(run).attempt == 1
    (rows,) = stage.runs.tables[f"vertex-capacity-{run.id}"]
    assert [(row["candidate"], row["reason"], row["message"]) for row in rows] == [
        (A, "Vertex AI fails here now", "try later")
    ]
    stage.gateway().down.clear()


async def test_a_place_that_fails_is_come_back_to(stage: Stage) -> None:
    """An outage of many minutes costs no run, though it has nowhere else to go."""
    stage.gateway().down["create"] = no_answer("UNAVAILABLE")
    run, _ = stage.submit(await stage.worker())
    await stage.tick(240)
    assert not run.state.is_final
    stage.gateway().down.clear()
    await stage.tick(130)

    assert places(stage, run) == [A]


async def test_a_stockout_that_comes_as_unavailable_leads_on_once_there_is_no_job(
    stage: Stage,
) -> None:
    stage.gateway().script("create", no_answer("UNAVAILABLE", NO_ROOM_WORDS))
    run, _ = stage.submit(await stage.worker(), regions=[B])
    await stage.tick(30)

    assert stage.gateway().calls["create"] == 1
    assert places(stage, run) == [B]


async def test_while_a_job_may_exist_nothing_is_tried_elsewhere(stage: Stage) -> None:
    stage.gateway().script("create", no_answer("UNAVAILABLE"), after_effect=True)
    stage.submit(await stage.worker(), regions=[B])
    await stage.rest()
    for method in ("find", "list_live", "describe"):
        stage.gateway().down[method] = no_answer("UNAVAILABLE")
    await stage.tick(170)

    assert creates(stage) == 1
    stage.gateway().down.clear()


async def test_a_rate_that_outlasts_its_budget_stays_one_in_the_ledger(stage: Stage) -> None:
    """By its ErrorInfo, though its words say something else."""
    verdict = ServiceVerdict(code="RESOURCE_EXHAUSTED", reason="RATE_LIMIT_EXCEEDED")
    stage.gateway().down["create"] = RateLimitedError(QUOTA_WORDS, verdict=verdict)
    policy = RunPolicy(create_budget_seconds=60)
    run, _ = stage.submit(await stage.worker(), policy=policy, regions=[B])
    await stage.tick(20)

    (rows,) = stage.runs.tables[f"vertex-capacity-{run.id}"]
    assert rows[0]["reason"] == "too many API requests a minute"
    assert places(stage, run) == [B]


async def test_a_failing_place_whose_budget_is_too_short_for_more_is_left_at_once(
    stage: Stage,
) -> None:
    stage.gateway().script("create", no_answer("INTERNAL"))
    policy = RunPolicy(create_budget_seconds=130)
    run, _ = stage.submit(await stage.worker(), policy=policy, regions=[B])
    await stage.tick(30)

    assert stage.gateway().calls["create"] == 1
    assert places(stage, run) == [B]
