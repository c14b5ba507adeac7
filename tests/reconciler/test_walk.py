"""The walk over candidates: machines that are not there, and where the run goes instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.capacity.refusals import SCOPE_OF, Refusal, RefusalReason
from prefect_vertex.errors import (
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy, parse_policy
from prefect_vertex.lifecycle.run import (
    BUNDLE_LABEL,
    BUNDLE_OF_RETRY,
    POLICY_LABEL,
    RunState,
)

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler

pytestmark = pytest.mark.anyio

A, B, C = "us-central1", "europe-west4", "us-east1"
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")
QUOTA_WORDS = (
    "The following quota metrics exceed quota limits: "
    "aiplatform.googleapis.com/custom_model_training_nvidia_t4_gpus"
)
NO_ROOM_WORDS = "Resources are insufficient in region: us-central1."


def refused(words: str, code: str = "RESOURCE_EXHAUSTED") -> ServiceError:
    kind = QuotaExceededError if code == "RESOURCE_EXHAUSTED" else RequestRejectedError
    verdict = ServiceVerdict(code=code, words=words)
    return kind(f"Could not create: {code}: {' '.join(words.split())}.", verdict=verdict)


def places(stage: Stage, run: Run) -> list[str]:
    """Where the run's attempts were, the first first."""
    jobs = sorted(stage.jobs(run), key=lambda job: job.attempt)
    return [job.resource_name.location for job in jobs]


def creates(stage: Stage) -> int:
    """Creates that were sent, wherever."""
    return sum(gateway.calls["create"] for gateway in stage.gateways.values())


def no_room(stage: Stage, *locations: str) -> None:
    """Every create in these locations is refused from now on."""
    for location in locations:
        stage.gateway(location).down["create"] = refused(NO_ROOM_WORDS)


def ledger(stage: Stage, run: Run) -> list[tuple[str, str, str]]:
    """The latest: attempts, places and reasons."""
    rows = stage.runs.tables[f"vertex-capacity-{run.id}"][-1]
    return [(row["attempt"], row["candidate"], row["reason"]) for row in rows]


async def fail(stage: Stage, run: Run, error: tuple[int, str] = STOCKOUT) -> None:
    """The newest job ends before it had machines."""
    newest = max(stage.jobs(run), key=lambda job: job.attempt)
    stage.move(newest, "FAILED", error)
    await stage.tick()
    assert len(stage.live()) <= 1


# --- machines that are not there ------------------------------------------------------------------


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


# --- workers that die -----------------------------------------------------------------------------


async def taken_again(stage: Stage, worker: Reconciler, run: Run, **wishes: Any) -> Reconciler:
    """Kill the worker; its successor puts the run back, and takes it as any worker would."""
    await stage.kill(worker)
    successor = await stage.worker(worker.world.worker_name)
    await stage.tick(15)
    assert run.name == "Scheduled"
    stage.submit(successor, run, **wishes)
    await stage.rest()
    return successor


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


# --- restarts -------------------------------------------------------------------------------------


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
