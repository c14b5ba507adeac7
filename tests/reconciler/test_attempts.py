"""Further attempts: what began them, and whether they may begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio

TRACEBACK = "Traceback (most recent call last):\nValueError: no such column"
EXIT_3 = (3, f"The replica workerpool0-0 exited with a non-zero status of 3.\n{TRACEBACK}")
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")


async def rescheduled_and_taken(stage: Stage) -> Run:
    """A run whose container put it back to Scheduled and that was taken before its job was over."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.reschedule(run)
    await stage.tick()
    stage.submit(worker, run)
    await stage.tick(2)
    assert len(stage.jobs(run)) == 1
    return run


async def test_a_rescheduled_run_gets_its_next_job_once_the_old_one_is_over(stage: Stage) -> None:
    run = await rescheduled_and_taken(stage)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(2)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_a_rescheduled_run_whose_job_a_person_stopped_does_not_come_back(
    stage: Stage,
) -> None:
    run = await rescheduled_and_taken(stage)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(2)

    assert run.name == "Cancelled"
    assert len(stage.jobs(run)) == 1


async def test_where_a_run_came_from_is_asked_until_it_is_known(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the answer, a job that a person stopped would come back."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.reschedule(run)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))

    def fail(method: str) -> tuple[Exception, bool] | None:
        return (PrefectUnavailableError("500"), False) if method == "came_from" else None

    stage.runs.mischief = fail
    stage.submit(worker, run)
    await stage.rest()
    stage.runs.mischief = None
    await stage.tick(3)

    assert run.name == "Cancelled"


async def test_a_rescheduled_run_whose_replica_failed_is_crashed(stage: Stage) -> None:
    run = await rescheduled_and_taken(stage)
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick(2)

    assert run.name == "Crashed"


async def test_an_old_job_that_does_not_leave_is_cancelled_and_followed(stage: Stage) -> None:
    run = await rescheduled_and_taken(stage)
    await stage.tick(12)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(2)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_an_old_job_whose_time_was_over_is_cancelled_and_not_followed(stage: Stage) -> None:
    """Its container asks for another attempt at SIGTERM, whatever that was sent for."""
    worker, policy = await stage.worker(), RunPolicy(timeout_seconds=3600)
    run, _ = await stage.running(worker, policy=policy)
    stage.clock._now += 3600
    stage.reschedule(run)
    stage.submit(worker, run, policy=policy)
    await stage.tick(16)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(3)

    assert run.name == "Crashed"
    assert "maximum run time" in run.message


async def test_a_job_that_stalled_is_not_followed_though_it_had_to_be_cancelled_again(
    stage: Stage,
) -> None:
    worker, policy = await stage.worker(), RunPolicy(stall_timeout_seconds=300)
    run, _ = await stage.running(worker, policy=policy)
    await stage.tick(70)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.reschedule(run)
    stage.move(stage.job(run), "RUNNING")
    stage.submit(worker, run, policy=policy)
    await stage.tick(30)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(3)

    assert run.name == "Crashed"
    assert "no sign of life" in run.message


async def test_the_waiter_of_the_last_attempt_is_done_when_the_next_begins(stage: Stage) -> None:
    worker = await stage.worker()
    run, first = await stage.running(worker)
    stage.reschedule(run)
    _, second = stage.submit(worker, run)
    await stage.rest()
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(2)

    assert (await first.wait_ended()).exit_status == 0
    assert second.resource_name == stage.jobs(run)[-1].resource_name
    assert second.outcome is None


async def test_a_rescheduled_run_that_nobody_takes_is_judged_all_the_same(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.reschedule(run)
    await stage.tick()
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick()

    assert run.name == "Cancelled"


@pytest.mark.parametrize("restart", [True, False])
async def test_a_retry_that_waited_in_a_dead_container_is_handed_to_the_workers(
    *, restart: bool, stage: Stage
) -> None:
    """No worker is ever offered a run that retries in process."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    run.retries_in_process = True
    stage.reschedule(run)
    await stage.tick()
    if restart:
        await stage.kill(worker)
        await stage.worker()
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick(2)

    assert run.name == "AwaitingRetry"
    assert not run.retries_in_process


@pytest.mark.parametrize("in_process", [True, False])
async def test_a_preempted_run_comes_back_through_the_pool(
    *, in_process: bool, stage: Stage
) -> None:
    worker = await stage.worker()
    run, ticket = await stage.running(worker, policy=RunPolicy(spot=True))
    run.retries_in_process = in_process
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    await stage.tick()

    assert run.name == "AwaitingRetry"
    assert not run.retries_in_process
    assert (await ticket.wait_ended()).reason is TerminationReason.PREEMPTED
    stage.submit(worker, run, policy=RunPolicy(spot=True))
    await stage.rest()
    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_a_persons_retry_is_a_new_attempt(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick(2)
    stage.runs.put(run.id, RunState.SCHEDULED)
    stage.submit(worker, run)
    await stage.rest()

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]
    assert run.identifier == str(stage.jobs(run)[-1].resource_name)


async def test_another_worker_does_not_judge_a_retry_by_the_attempt_before(stage: Stage) -> None:
    """Nor by its lingering job's start grace, nor by its end, nor by its deletion."""
    one, _ = await stage.worker("one"), await stage.worker("two", sweep_seconds=5)
    run, _ = await stage.running(one)
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick(2)
    turn = anyio.Event()
    stage.gateway().script("submission_turn", until=turn)
    stage.runs.put(run.id, RunState.SCHEDULED)
    stage.submit(one, run)
    await stage.tick(10)
    assert run.name == "Submitting"
    stage.vanish(stage.job(run))
    await stage.tick(40)
    assert run.name == "Submitting"
    turn.set()
    await stage.rest()

    assert stage.job(run).attempt == 2


@pytest.mark.parametrize("ticks", [0, 1, 3])
async def test_a_rescheduled_run_whose_job_was_deleted_is_not_run_again(
    ticks: int, stage: Stage
) -> None:
    """Somebody cancelled the job, and deleted it before its end was seen."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    run.claims["prefect-vertex-start-a1-r0"] = "nonce"
    stage.reschedule(run)
    job = stage.job(run)
    stage.submit(worker, run)
    # It may be known to be due while its job is still there.
    await stage.rest()
    await stage.tick(ticks)
    stage.vanish(job)
    await stage.tick(40)

    assert stage.jobs(run) == []
    assert run.state is RunState.CRASHED
    assert "attempt 1 had started the flow run and was deleted in Vertex AI" in run.message


async def test_a_job_that_is_once_not_found_may_be_at_work_still(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.reschedule(run)
    stage.submit(worker, run)
    await stage.rest()
    job = stage.job(run)
    known = stage.gateway()._jobs
    hidden = known.pop(job.resource_name.key)
    await stage.tick(3)
    assert stage.jobs(run) == []
    known[job.resource_name.key] = hidden
    await stage.tick(20)
    assert stage.job(run).resource_name == job.resource_name
    stage.move(job, "CANCELLED")
    await stage.tick(2)

    assert [each.attempt for each in stage.jobs(run)] == [1, 2]


async def test_a_retry_long_after_the_job_was_deleted_is_a_new_attempt(stage: Stage) -> None:
    """A container that claimed the first attempt's start would forbid it to the next."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    run.claims["prefect-vertex-start-a1-r0"] = "nonce"
    stage.complete(run)
    await stage.tick(3)
    stage.vanish(stage.job(run))
    stage.runs.put(run.id, RunState.SCHEDULED, "AwaitingRetry")
    stage.submit(worker, run)
    await stage.tick(40)

    assert stage.job(run).attempt == 2
    assert any("Attempt 1 may have a CustomJob" in line for line in stage.runs.logs[run.id])
