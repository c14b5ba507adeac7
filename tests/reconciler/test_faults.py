"""Faults of the services and of single runs: nothing is lost, and nothing spreads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from prefect_vertex.errors import (
    AccessDeniedError,
    JobNotFoundError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.reconciler.recorder import Recorder
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

    from prefect_vertex.reconciler.care import Care

pytestmark = pytest.mark.anyio

# Every gRPC code and the error that it becomes; NOT_FOUND of a job has tests of its own.
CODES: dict[str, type[ServiceError]] = {
    "CANCELLED": ServiceUnavailableError,
    "UNKNOWN": ServiceUnavailableError,
    "INVALID_ARGUMENT": RequestRejectedError,
    "DEADLINE_EXCEEDED": ServiceUnavailableError,
    "ALREADY_EXISTS": RequestRejectedError,
    "PERMISSION_DENIED": AccessDeniedError,
    "RESOURCE_EXHAUSTED": QuotaExceededError,
    "RATE_LIMIT_EXCEEDED": RateLimitedError,
    "FAILED_PRECONDITION": RequestRejectedError,
    "ABORTED": ServiceUnavailableError,
    "OUT_OF_RANGE": RequestRejectedError,
    "UNIMPLEMENTED": RequestRejectedError,
    "INTERNAL": ServiceUnavailableError,
    "UNAVAILABLE": ServiceUnavailableError,
    "DATA_LOSS": ServiceError,
    "UNAUTHENTICATED": AccessDeniedError,
}
EXIT_1 = (3, "The replica workerpool0-0 exited with a non-zero status of 1.")
every_code = pytest.mark.parametrize("code", CODES)
either_way = pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])


def error_of(code: str) -> ServiceError:
    return CODES[code](f"Could not: {code}.", verdict=ServiceVerdict(code=code))


# --- Vertex AI ------------------------------------------------------------------------------------


@every_code
async def test_a_list_that_fails_tells_nothing(code: str, stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.gateway().script("list_live", error_of(code))
    stage.gateway().script("list_live", error_of(code))
    await stage.tick(2)
    assert run.name == "Running"
    stage.complete(run)
    await stage.tick(2)

    assert worker.book == {}
    assert stage.gateway().calls["cancel"] == 0
    assert stage.gateway().calls["create"] == 1


async def test_a_place_that_answers_nothing_holds_up_no_other(stage: Stage) -> None:
    """Packets that are swallowed take a call's whole deadline, many ticks long."""
    worker = await stage.worker(home=("us-central1", "us-east4"), tick_seconds=0.01)
    near, _ = await stage.running(worker)
    far, _ = await stage.running(worker, location="us-east4")
    answer = anyio.Event()
    stage.gateway("us-east4").script("list_live", until=answer)
    for run in (near, far):
        stage.move(stage.job(run), "FAILED", EXIT_1)
    asked = stage.gateway("us-east4").calls["list_live"]
    await stage.tick(8)

    assert (near.name, far.name) == ("Crashed", "Running")
    assert stage.gateway("us-east4").calls["list_live"] == asked + 1
    answer.set()
    await stage.tick(8)
    assert far.name == "Crashed"


async def test_it_is_waited_for_no_longer_than_a_run_wants_its_job_watched(stage: Stage) -> None:
    """The health check counts in these intervals."""
    worker = await stage.worker(tick_seconds=600)
    await stage.running(worker, policy=RunPolicy(poll_interval_seconds=1))
    stage.gateway().script("list_live", until=anyio.Event())
    with anyio.move_on_after(20) as patience:
        await worker.tick()

    assert not patience.cancelled_caught
    assert worker.is_alive


@every_code
async def test_a_describe_that_fails_is_asked_again(code: str, stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    for _ in range(2):
        stage.gateway().script("describe", error_of(code))
    stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick()
    assert run.name == "Running"
    await stage.tick(6)

    assert run.name == "Crashed"


@every_code
@either_way
async def test_a_cancel_that_fails_is_sent_again(
    code: str, *, after_effect: bool, stage: Stage
) -> None:
    run, _ = await stage.submitted(await stage.worker())
    stage.gateway().script("cancel", error_of(code), after_effect=after_effect)
    stage.runs.put(run.id, RunState.CANCELLING)
    await stage.tick(4)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(4)

    assert run.name == "Cancelled"


@every_code
async def test_a_find_that_fails_finds_nothing_out(code: str, stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.complete(run)
    await stage.tick(2)
    stage.runs.put(run.id, RunState.SCHEDULED)
    for _ in range(3):
        stage.gateway().script("find", error_of(code))
    stage.submit(worker, run)
    await stage.tick()
    assert len(stage.jobs(run)) == 1
    await stage.tick(20)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


@every_code
async def test_a_list_of_ended_jobs_that_fails_is_asked_again(code: str, stage: Stage) -> None:
    worker = await stage.worker()
    runs = [(await stage.running(worker))[0] for _ in range(5)]
    stage.gateway().script("list_ended", error_of(code))
    for run in runs:
        stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick(4)

    assert {run.name for run in runs} == {"Crashed"}
    assert stage.gateway().calls["list_ended"] == 2


async def test_a_job_that_is_not_found_once_is_still_there(stage: Stage) -> None:
    """One answer may be a hiccup."""
    run, _ = await stage.running(await stage.worker())
    missing = JobNotFoundError("Could not describe.", verdict=ServiceVerdict(code="NOT_FOUND"))
    stage.gateway().hide(stage.job(run).resource_name)
    stage.gateway().script("describe", missing)
    await stage.tick(3)
    stage.gateway().hide(stage.job(run).resource_name, hidden=False)
    await stage.tick(30)

    assert run.name == "Running"


async def test_a_job_that_is_missing_from_every_list_is_described(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.gateway().hide(stage.job(run).resource_name)
    await stage.tick(5)
    assert run.name == "Running"
    stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick()

    assert run.name == "Crashed"


async def test_a_place_that_cannot_be_listed_does_not_hide_another(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await stage.worker(home=("us-central1", "europe-west4"))
    run, _ = await stage.running(worker, location="europe-west4")
    stage.gateway().down["list_live"] = RuntimeError("a fault that nobody foresaw")
    with caplog.at_level(logging.WARNING):
        await stage.tick(5)
    stage.move(stage.job(run), "FAILED", EXIT_1)
    await stage.tick()

    assert run.name == "Crashed"
    assert caplog.text.count("Cannot see the pool's jobs in us-central1") == 1


@pytest.mark.parametrize(
    ("method", "ended"), [("list_live", 1), ("list_ended", 5), ("describe", 1)]
)
async def test_an_unforeseen_fault_in_one_place_is_no_matter_of_another(
    method: str, ended: int, stage: Stage
) -> None:
    worker = await stage.worker(home=("us-central1", "europe-west4"))
    left = [(await stage.running(worker))[0] for _ in range(ended)]
    run, _ = await stage.running(worker, location="europe-west4")
    for each in [*left, run]:
        stage.move(stage.job(each), "FAILED", EXIT_1)
    stage.gateway().down[method] = ValueError("a row that cannot be read")
    await stage.tick(2)

    assert run.name == "Crashed"
    assert {each.name for each in left} == {"Running"}


async def test_a_fault_of_what_tells_of_runs_ends_no_look(stage: Stage) -> None:
    """They are attended in one group of tasks."""
    worker = await stage.worker()

    class Deaf(Recorder):
        def note(self, care: Care) -> None:
            raise RuntimeError("a fault that nobody foresaw")

    nowhere: Any = None
    worker.recorder = Deaf(worker.world, nowhere)
    run, _ = await stage.running(worker)
    stage.complete(run)
    await stage.tick(2)

    assert worker.book == {}


async def test_an_unreachable_place_of_another_deployment_holds_up_no_retry(stage: Stage) -> None:
    """A run is looked for where it was and where it may go, not wherever the pool has jobs."""
    worker = await stage.worker(home=("us-central1", "europe-west4"))
    stage.gateway("europe-west4").down["find"] = error_of("PERMISSION_DENIED")
    run, _ = await stage.running(worker)
    stage.complete(run)
    await stage.tick(2)
    stage.runs.put(run.id, RunState.SCHEDULED)
    stage.submit(worker, run)
    await stage.rest()

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "UNAVAILABLE", "INVALID_ARGUMENT"])
async def test_a_restart_is_not_held_up_by_another_candidates_place(
    code: str, stage: Stage
) -> None:
    """The last attempt's place is announced, and can be seen; so no job is anywhere else."""
    worker = await stage.worker()
    stage.gateway("europe-west4").down["find"] = error_of(code)
    run, _ = await stage.running(worker, regions=("europe-west4",))
    stage.reschedule(run)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(3)
    stage.submit(worker, run, regions=("europe-west4",))
    await stage.tick(3)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]
    told = [line for line in stage.runs.logs[run.id] if "Cannot look" in line]
    assert len(told) == 1
    assert "europe-west4" in told[0]


async def test_a_restart_waits_until_the_last_attempts_own_place_can_be_seen(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker, regions=("europe-west4",))
    stage.gateway().down["find"] = error_of("UNAVAILABLE")
    stage.reschedule(run)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(3)
    stage.submit(worker, run, regions=("europe-west4",))
    await stage.tick(300)
    assert len(stage.jobs(run)) == 1
    assert sum("Cannot look" in line for line in stage.runs.logs[run.id]) == 1
    del stage.gateway().down["find"]
    await stage.tick(20)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_an_attempt_that_is_announced_nowhere_is_looked_for_in_all_places_or_given_up(
    stage: Stage,
) -> None:
    """Somebody had claimed it, and may be about to begin in the place that cannot be seen."""
    worker = await stage.worker()
    stage.gateway("europe-west4").down["find"] = error_of("PERMISSION_DENIED")
    run = stage.runs.add()
    run.claims["prefect-vertex-create-a1"] = "another/instance"
    stage.submit(worker, run, regions=("europe-west4",))
    await stage.tick(100)
    assert run.state is RunState.PENDING
    await stage.tick(100)

    assert run.name == "Crashed"
    assert "PERMISSION_DENIED" in run.message
    assert stage.jobs(run) == []


async def test_a_long_trouble_of_a_run_is_told_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    run, _ = await stage.submitted(await stage.worker())
    stage.gateway().down["cancel"] = error_of("UNAVAILABLE")
    stage.runs.put(run.id, RunState.CANCELLING)
    with caplog.at_level(logging.WARNING):
        await stage.tick(30)

    assert caplog.text.count(run.id) == 1


# --- Prefect --------------------------------------------------------------------------------------


async def test_while_prefect_is_down_nothing_is_done_and_afterwards_all_of_it(
    stage: Stage,
) -> None:
    worker = await stage.worker()
    crashed, _ = await stage.running(worker)
    cancelled, _ = await stage.submitted(worker)
    stage.runs.put(cancelled.id, RunState.CANCELLING)
    stage.runs.down = True
    stage.move(stage.job(crashed), "FAILED", EXIT_1)
    for _ in range(4):
        await stage.clock.advance(5)
        with pytest.raises(PrefectUnavailableError):
            await worker.tick()
        await stage.rest()
    assert stage.gateway().calls["cancel"] == 0
    stage.runs.down = False
    await stage.tick()

    assert crashed.name == "Crashed"
    assert stage.job(cancelled).state == "JOB_STATE_CANCELLING"


@pytest.mark.parametrize(
    "method",
    ["read", "label", "claim", "propose", "name_infrastructure", "came_from", "read_claim"],
)
async def test_a_call_to_prefect_that_fails_once_costs_a_tick_and_no_job(
    method: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 1
    original = stage.runs._call

    async def call(name: str, run_id: str = "") -> None:
        nonlocal failures
        if name == method and failures:
            failures -= 1
            raise PrefectUnavailableError("The Prefect API answered 500.")
        await original(name, run_id)

    monkeypatch.setattr(stage.runs, "_call", call)
    run, ticket = stage.submit(await stage.worker())
    await stage.tick(4)

    assert stage.job(run).attempt == 1
    assert ticket.resource_name == stage.job(run).resource_name
    assert run.identifier == str(stage.job(run).resource_name)
    assert run.name == "Provisioning"


async def test_a_changed_job_is_not_forgotten_because_prefect_failed_in_its_tick(
    stage: Stage,
) -> None:
    """A change is seen once: the row of an ended job is not listed again."""
    worker = await stage.worker(sweep_seconds=10_000)
    run, _ = await stage.running(worker)
    await stage.tick()
    stage.move(stage.job(run), "FAILED", EXIT_1)
    stage.runs.down = True
    await stage.clock.advance(5)
    with pytest.raises(PrefectUnavailableError):
        await worker.tick()
    stage.runs.down = False
    await stage.tick()

    assert run.name == "Crashed"


@pytest.mark.parametrize("fault", [RuntimeError("poison"), PrefectUnavailableError("500 for one")])
async def test_one_runs_fault_touches_no_other(fault: Exception, stage: Stage) -> None:
    worker = await stage.worker()
    poisoned, _ = await stage.submitted(worker)
    others = [(await stage.submitted(worker))[0] for _ in range(3)]
    stage.runs.poison[poisoned.id] = fault
    await stage.tick(3)
    for run in others:
        stage.start(run)
        stage.complete(run)
    await stage.tick(2)
    assert {run.name for run in others} == {"Completed"}
    assert worker.book.keys() == {poisoned.id}
    del stage.runs.poison[poisoned.id]
    await stage.tick(20)

    assert poisoned.name == "Provisioning"


async def test_the_loop_outlives_ticks_that_fail(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await stage.worker()
    stage.runs.down = True
    with caplog.at_level(logging.INFO):
        async with anyio.create_task_group() as group:
            group.start_soon(worker.run_forever)
            while worker.failures < 3:
                worker.nudge()
                await anyio.lowlevel.checkpoint()
            stage.runs.down = False
            while worker.failures:
                worker.nudge()
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    assert caplog.text.count("The Prefect API answered 503") == 1
    assert caplog.text.count("The Prefect API answers again.") == 1


async def test_a_loop_without_a_tick_for_three_intervals_is_not_alive(stage: Stage) -> None:
    worker = await stage.worker()
    await stage.tick()
    alive = []
    for seconds in (14, 2):
        await stage.clock.advance(seconds)
        alive.append(worker.is_alive)
    await stage.tick()

    assert [*alive, worker.is_alive] == [True, False, True]


async def test_leaving_changes_nothing(stage: Stage) -> None:
    """A signal cancels what is under way; the next process goes on from what is recorded."""
    worker = await stage.worker()
    run, ticket = await stage.submitted(worker)
    turn = anyio.Event()
    stage.gateway().script("submission_turn", until=turn)
    waiting, _ = stage.submit(worker)
    await stage.rest()
    before = (list(run.names), list(waiting.names), dict(stage.gateway().calls))
    await stage.kill(worker)

    assert before == (run.names, waiting.names, dict(stage.gateway().calls))
    assert ticket.outcome is None
