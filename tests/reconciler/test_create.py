"""Find-or-create: one job, whatever is lost, refused or doubled on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.errors import (
    AccessDeniedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import INSTANCE_LABEL, RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio

UNANSWERED = ["CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "UNAVAILABLE"]
REFUSED: dict[str, type[ServiceError]] = {
    "INVALID_ARGUMENT": RequestRejectedError,
    "NOT_FOUND": ServiceError,
    "ALREADY_EXISTS": RequestRejectedError,
    "PERMISSION_DENIED": AccessDeniedError,
    "FAILED_PRECONDITION": RequestRejectedError,
    "OUT_OF_RANGE": RequestRejectedError,
    "UNIMPLEMENTED": RequestRejectedError,
    "UNAUTHENTICATED": AccessDeniedError,
}


def unanswered(code: str = "UNAVAILABLE") -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"Could not create CustomJob: {code}.", verdict=ServiceVerdict(code=code)
    )


@pytest.mark.parametrize("code", UNANSWERED)
async def test_an_answer_that_is_lost_after_the_effect_costs_no_second_job(
    code: str, stage: Stage
) -> None:
    worker = await stage.worker()
    stage.gateway().script("create", unanswered(code), after_effect=True)

    run, ticket = stage.submit(worker)
    await stage.tick(2)

    assert ticket.resource_name == stage.job(run).resource_name
    assert run.identifier == str(stage.job(run).resource_name)
    assert worker.waiting_submissions == 0
    await stage.tick(60)
    assert len(stage.jobs()) == 1


@pytest.mark.parametrize("code", UNANSWERED)
async def test_a_request_that_is_lost_before_the_effect_is_sent_again_once_that_is_certain(
    code: str, stage: Stage
) -> None:
    worker = await stage.worker()
    stage.gateway().script("create", unanswered(code))

    run, _ = stage.submit(worker)
    await stage.tick(23)
    assert stage.jobs() == []
    await stage.tick(3)

    assert stage.job(run).attempt == 1
    assert stage.gateway().calls["create"] == 2


async def test_a_job_that_lists_show_late_is_found(stage: Stage) -> None:
    stage.list_lag_seconds = 100
    worker = await stage.worker()
    stage.gateway().script("create", unanswered(), after_effect=True)

    run, ticket = stage.submit(worker)
    await stage.tick(40)

    assert ticket.resource_name == stage.job(run).resource_name
    assert stage.gateway().calls["create"] == 1


async def test_while_nothing_can_be_seen_nothing_is_settled(stage: Stage) -> None:
    """An outage of minutes: looks that fail are no empty looks."""
    worker = await stage.worker()
    gateway = stage.gateway()
    gateway.script("create", unanswered(), after_effect=True)
    run, _ = stage.submit(worker)
    await stage.rest()
    for method in ("find", "list_live", "describe"):
        gateway.down[method] = unanswered()
    await stage.tick(60)
    assert len(stage.jobs(run)) == 1
    gateway.down.clear()
    await stage.tick(20)

    assert gateway.calls["create"] == 1
    assert run.identifier == str(stage.job(run).resource_name)


@pytest.mark.parametrize(("code", "kind"), REFUSED.items())
async def test_a_refusal_for_good_crashes_the_run_with_its_root_cause(
    code: str, kind: type[ServiceError], stage: Stage
) -> None:
    worker = await stage.worker()
    error = kind(f"Could not create: {code}.", verdict=ServiceVerdict(code=code), hint="Do this.")
    stage.gateway().script("create", error)

    run, ticket = stage.submit(worker)
    await stage.rest()

    assert run.name == "Crashed"
    assert run.message == f"Could not create: {code}. Do this."
    assert ticket.crashed
    assert stage.gateway().calls["create"] == 1


@pytest.mark.parametrize(("code", "kind"), REFUSED.items())
async def test_a_refusal_that_took_effect_all_the_same_leaves_no_live_job(
    code: str, kind: type[ServiceError], stage: Stage
) -> None:
    worker = await stage.worker()
    error = kind(f"Could not create: {code}.", verdict=ServiceVerdict(code=code))
    stage.gateway().script("create", error, after_effect=True)

    run, _ = stage.submit(worker)
    await stage.tick(2)

    assert run.name == "Crashed"
    assert stage.job(run).state == "JOB_STATE_CANCELLING"


@pytest.mark.parametrize("kind", [QuotaExceededError, RateLimitedError])
async def test_a_quota_denial_that_took_effect_all_the_same_leaves_one_live_job(
    kind: type[ServiceError], stage: Stage
) -> None:
    worker = await stage.worker()
    stage.gateway().script("create", kind("Denied."), after_effect=True)

    run, ticket = stage.submit(worker)
    await stage.tick(4)

    (job,) = [job for job in stage.jobs(run) if job.state != "JOB_STATE_CANCELLING"]
    assert ticket.resource_name == job.resource_name


async def test_five_minutes_of_too_many_requests_are_waited_for(stage: Stage) -> None:
    worker = await stage.worker()
    gateway = stage.gateway()
    gateway.down["create"] = RateLimitedError("Could not create: RESOURCE_EXHAUSTED.")

    run, _ = stage.submit(worker)
    await stage.tick(60)
    gateway.down.clear()
    await stage.tick(13)

    assert stage.job(run).attempt == 1
    assert RunState.CRASHED not in {kind for kind, *_ in run.history}


async def test_where_requests_are_too_many_for_too_long_the_next_candidate_is_tried(
    stage: Stage,
) -> None:
    worker = await stage.worker()
    gateway = stage.gateway()
    gateway.down["create"] = RateLimitedError("Too many requests.", hint="Ask for more.")

    policy = RunPolicy(create_budget_seconds=60)
    run, ticket = stage.submit(worker, policy=policy, regions=["europe-west4"])
    await stage.tick(20)

    assert ticket.resource_name == stage.job(run).resource_name
    assert stage.job(run).resource_name.location == "europe-west4"


async def test_the_budget_of_the_last_attempt_ends_with_the_root_cause(stage: Stage) -> None:
    worker = await stage.worker()
    gateway = stage.gateway()
    gateway.down["create"] = RateLimitedError("Too many requests.", hint="Ask for more.")

    policy, capacity = RunPolicy(create_budget_seconds=60), CapacityPolicy(max_attempts=1)
    run, ticket = stage.submit(worker, policy=policy, capacity=capacity)
    await stage.tick(20)

    assert run.name == "Crashed"
    assert "Too many requests. Ask for more. Tried for 60 s." in run.message
    assert ticket.crashed


async def test_queueing_for_the_turn_is_not_in_the_budget(stage: Stage) -> None:
    import anyio

    worker = await stage.worker()
    gateway, turn = stage.gateway(), anyio.Event()
    gateway.script("submission_turn", until=turn)
    gateway.script("create", RateLimitedError("Too many requests."))
    run, _ = stage.submit(worker, policy=RunPolicy(create_budget_seconds=60))
    await stage.tick(40)
    turn.set()
    await stage.rest()
    await stage.tick(3)

    assert stage.job(run).attempt == 1


async def test_an_answer_that_stays_open_crashes_the_run_and_its_late_job_is_cancelled(
    stage: Stage,
) -> None:
    worker = await stage.worker()
    gateway = stage.gateway()
    gateway.script("create", unanswered(), after_effect=True)
    run, _ = stage.submit(worker, policy=RunPolicy(create_budget_seconds=60))
    await stage.rest()
    gateway.hide(stage.job(run).resource_name)
    await stage.tick(20)
    assert run.name == "Crashed"
    assert "whether the CustomJob of attempt 1 exists" in run.message
    assert stage.job(run).state == "JOB_STATE_PENDING"
    gateway.hide(stage.job(run).resource_name, hidden=False)
    await stage.tick()

    assert stage.job(run).state == "JOB_STATE_CANCELLING"


async def test_a_late_job_in_a_place_that_only_its_run_names_is_found_too(stage: Stage) -> None:
    worker = await stage.worker()
    gateway = stage.gateway("europe-west4")
    gateway.script("create", unanswered(), after_effect=True)
    run, _ = stage.submit(worker, location="europe-west4")
    await stage.rest()
    stage.runs.put(run.id, RunState.CANCELLED)
    await stage.tick(3)

    assert stage.job(run).state == "JOB_STATE_CANCELLING"


# --- duplicates -----------------------------------------------------------------------------------


async def twins(stage: Stage) -> Any:
    """A run with two jobs for its first attempt: a create that took effect very late."""
    worker = await stage.worker()
    run, ticket = await stage.submitted(worker)
    await stage.clock.advance(1)
    await stage.gateway().create(stage.gateway().request(stage.job(run).resource_name))
    return run, ticket


async def test_of_two_jobs_for_one_attempt_the_younger_is_cancelled(stage: Stage) -> None:
    run, _ = await twins(stage)
    await stage.tick()

    older, younger = stage.jobs(run)
    assert [older.state, younger.state] == ["JOB_STATE_PENDING", "JOB_STATE_CANCELLING"]


async def test_the_job_whose_container_started_first_stays(stage: Stage) -> None:
    run, _ = await twins(stage)
    older, younger = stage.jobs(run)
    run.claims["prefect-vertex-start-a1-r0"] = f"nonce-17 {younger.resource_name.job_id}"
    await stage.tick()
    older, younger = stage.jobs(run)
    assert [older.state, younger.state] == ["JOB_STATE_CANCELLING", "JOB_STATE_PENDING"]
    stage.move(older, "CANCELLED", (1, "CANCELED"))
    await stage.tick(2)

    assert run.identifier == str(younger.resource_name)


async def test_a_duplicate_that_started_as_it_was_cancelled_is_followed_by_the_next_attempt(
    stage: Stage,
) -> None:
    """Its container claims the start, then reschedules the run at SIGTERM: nobody stopped it."""
    run, _ = await twins(stage)
    await stage.tick()
    older, younger = stage.jobs(run)
    run.claims["prefect-vertex-start-a1-r0"] = f"nonce-17 {younger.resource_name.job_id}"
    stage.runs.put(run.id, RunState.RUNNING)
    stage.reschedule(run)
    stage.move(younger, "CANCELLED", (1, "CANCELED"))
    await stage.tick(3)
    stage.move(older, "CANCELLED", (1, "CANCELED"))
    await stage.tick(3)
    assert run.name == "AwaitingRetry"
    stage.submit(stage.workers[0], run)
    await stage.tick(3)

    assert [job.attempt for job in stage.jobs(run)] == [1, 1, 2]


async def test_a_duplicates_end_never_decides_the_run(stage: Stage) -> None:
    run, ticket = await twins(stage)
    await stage.tick()
    older, younger = stage.jobs(run)
    stage.move(younger, "CANCELLED", (1, "CANCELED"))
    stage.move(older, "RUNNING")
    stage.runs.put(run.id, RunState.RUNNING)
    await stage.tick(40)
    assert run.name == "Running"
    stage.move(older, "SUCCEEDED")
    stage.runs.put(run.id, RunState.COMPLETED)
    await stage.tick()

    assert (await ticket.wait_ended()).resource_name == older.resource_name


async def test_two_workers_that_take_one_run_create_one_job(stage: Stage) -> None:
    """Prefect lets only one have it; but one may have stood still while the run was taken away."""
    one, two = await stage.worker("one"), await stage.worker("two")
    run = stage.runs.add()
    stage.pick_up(run)

    tickets = [worker.take(stage.assignment(run)) for worker in (one, two)]
    await stage.rest()
    await stage.tick(3)

    assert [ticket.resource_name for ticket in tickets] == [stage.job(run).resource_name] * 2
    assert one.waiting_submissions == two.waiting_submissions == 0


async def test_a_worker_that_stood_still_while_its_run_was_taken_away_only_watches(
    stage: Stage,
) -> None:
    still, other = await stage.worker("still"), await stage.worker("other")
    run = stage.runs.add()
    stage.pick_up(run)
    stage.runs.put(run.id, RunState.SCHEDULED)
    await stage.running(other)
    stage.submit(other, run)
    await stage.rest()
    ticket = still.take(stage.assignment(run))
    await stage.rest()
    await stage.tick(40)

    assert stage.job(run).state == "JOB_STATE_PENDING"
    assert ticket.resource_name == stage.job(run).resource_name
    assert run.labels[INSTANCE_LABEL].startswith("other/")


async def test_a_worker_that_only_watches_adopts_the_run_when_its_holder_dies(
    stage: Stage,
) -> None:
    still, other = await stage.worker("still"), await stage.worker("other")
    run, _ = await stage.submitted(other)
    still.take(stage.assignment(run))
    await stage.rest()
    await stage.kill(other)
    stage.runs.offline.add("other")
    await stage.tick(14)

    assert run.labels[INSTANCE_LABEL].startswith("still/")
    assert len(stage.jobs(run)) == 1
