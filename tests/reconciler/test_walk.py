"""The walk over candidates: machines that are not there, and where the run goes instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    ledger,
    no_room,
    places,
    refused,
)

from prefect_vertex.capacity.refusals import SCOPE_OF, Refusal, RefusalReason
from prefect_vertex.lifecycle.policy import RunPolicy

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio


async def test_a_stockout_long_after_the_create_leads_to_the_next_candidate(stage: Stage) -> None:
    worker = await stage.worker()
    run, ticket = await stage.submitted(worker, regions=[B])
    await stage.tick(240)
    await fail(stage, run)
    assert len(stage.live()) == 1
    await stage.tick(2)
    stage.start(run)
    await stage.tick()
    assert not ticket.outcome
    stage.complete(run)
    await stage.tick(2)

    assert places(stage, run) == [A, B]
    assert run.identifier == str(stage.jobs(run)[-1].resource_name)
    outcome = await ticket.wait_ended()
    assert str(outcome.resource_name) == run.identifier
    assert run.names[-6:] == [
        "Provisioning",
        "AwaitingCapacity",
        "InfrastructurePending",
        "Provisioning",
        "Running",
        "Completed",
    ]


async def test_the_waiting_state_says_what_was_tried_and_what_is_next(stage: Stage) -> None:
    no_room(stage, B)
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    await stage.tick(2)
    await fail(stage, run)

    assert run.name == "AwaitingCapacity"
    assert run.message.startswith(
        "Tried us-central1 (no machines free now), europe-west4 (no machines free now). "
        "Next: us-central1, at 00:01:"
    )
    assert any("Next: europe-west4, now." in line for line in stage.runs.logs[run.id])


async def test_the_next_attempt_begins_only_once_the_last_ones_job_is_gone(stage: Stage) -> None:
    policy = RunPolicy(provisioning_timeout_seconds=60)
    run, _ = await stage.submitted(await stage.worker(), regions=[B], policy=policy)
    await stage.tick(40)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED")
    await stage.tick(2)

    assert places(stage, run) == [A, B]


@pytest.mark.parametrize("code", [0, 2, 3, 9, 13, 14])
async def test_a_stockout_is_known_by_its_words_under_any_number(code: int, stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    await fail(stage, run, (code, STOCKOUT[1]))

    assert places(stage, run) == [A, B]
    (rows,) = stage.runs.tables[f"vertex-capacity-{run.id}"]
    assert rows[0]["reason"] == "no machines free now"


async def test_a_wait_for_machines_that_is_over_leads_to_the_next_candidate(stage: Stage) -> None:
    """Vertex AI may end it with the number that also says that a run took too long."""
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    await fail(stage, run, (4, "no machines in time"))

    assert places(stage, run) == [A, B]
    assert ledger(stage, run) == [("1", A, "no machines free now")]


async def test_a_quota_that_refuses_is_hopped_over_and_never_asked_again(stage: Stage) -> None:
    for location in (A, B):
        stage.gateway(location).script("create", refused(QUOTA_WORDS))
    run, ticket = stage.submit(await stage.worker(), regions=[B, C])
    await stage.rest()
    assert places(stage, run) == [C]
    for _ in range(2):
        await fail(stage, run)
        await stage.tick(40)

    assert places(stage, run) == [C, C, C]
    assert creates(stage) == 5
    assert ticket.resource_name is not None
    assert ticket.resource_name.location == C


async def test_a_refused_attempt_leaves_its_number_to_the_next(stage: Stage) -> None:
    """So one start claim guards both, should the refusal have been none."""
    stage.gateway(A).script("create", refused(NO_ROOM_WORDS))
    run, _ = stage.submit(await stage.worker(), regions=[B])
    await stage.rest()

    assert (stage.job(run).attempt, run.attempt) == (1, 1)
    (rows,) = stage.runs.tables[f"vertex-capacity-{run.id}"]
    assert [(row["candidate"], row["message"]) for row in rows] == [(A, NO_ROOM_WORDS)]


async def test_the_words_of_a_refused_create_are_in_the_ledger_as_they_came(stage: Stage) -> None:
    words = f"The following quota metrics exceed quota limits:\ta,\tb,{'x' * 1500}\n"
    stage.gateway(A).script("create", refused(words))
    run, _ = stage.submit(await stage.worker(), regions=[B])
    await stage.rest()

    (rows,) = stage.runs.tables[f"vertex-capacity-{run.id}"]
    assert rows[0]["message"] == words


async def test_a_wrong_request_is_sent_once(stage: Stage) -> None:
    words = 'Machine type "n1-standard-1" is not supported.'
    stage.gateway().script("create", refused(words, "INVALID_ARGUMENT"))
    run, ticket = stage.submit(await stage.worker(), regions=[B, C])
    await stage.tick(5)

    assert creates(stage) == 1
    assert run.name == "Crashed"
    assert words in run.message
    assert ticket.crashed


async def test_an_internal_error_is_tried_again_and_then_left(stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker(), regions=[B])
    for _ in range(2):
        await fail(stage, run, (13, "Internal error occurred for the current attempt"))
        await stage.tick()

    assert places(stage, run) == [A, A, B]


async def test_a_candidate_that_is_skipped_beforehand_is_no_attempt(stage: Stage) -> None:
    reason = RefusalReason.QUOTA
    skipped = {0: Refusal(reason, SCOPE_OF[reason], "the limit is 0")}
    run, _ = await stage.submitted(await stage.worker(), regions=[B], skipped=skipped)

    assert places(stage, run) == [B]
    assert stage.job(run).attempt == 1
    stage.start(run)
    await stage.tick()
    assert ledger(stage, run) == [
        ("none", A, "the quota does not allow that much here"),
        ("1", B, "running"),
    ]
