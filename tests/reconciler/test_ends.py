"""Ends of jobs and of runs, as they meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.errors import ServiceUnavailableError, ServiceVerdict
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import VERDICT_LABEL, RunState
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio

TRACEBACK = "Traceback (most recent call last):\nValueError: no such column"
EXIT_3 = (3, f"The replica workerpool0-0 exited with a non-zero status of 3.\n{TRACEBACK}")


async def test_a_job_that_fails_under_its_run_crashes_it_with_the_services_own_words(
    stage: Stage,
) -> None:
    run, ticket = await stage.running(await stage.worker())
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick()

    assert run.name == "Crashed"
    assert run.message.startswith("Replica workerpool0-0 of CustomJob")
    assert run.message.endswith("ValueError: no such column")
    assert ticket.crashed
    assert (await ticket.wait_ended()).exit_status == 3


async def test_an_error_that_comes_late_is_waited_for(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.move(stage.job(run), "FAILED")
    await stage.tick(12)
    assert run.name == "Running"
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick(4)

    assert "ValueError: no such column" in run.message
    assert stage.gateway().calls["describe"] <= 6


async def test_an_error_that_never_comes_is_not_waited_for_for_ever(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.move(stage.job(run), "FAILED")
    await stage.tick(25)

    assert run.name == "Crashed"
    assert "Vertex AI gave no reason." in run.message


@pytest.mark.parametrize("started", [True, False])
async def test_a_container_that_leaves_without_a_word_crashes_its_run(
    *, started: bool, stage: Stage
) -> None:
    run, _ = await stage.submitted(await stage.worker())
    if started:
        stage.start(run)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick()

    assert run.name == "Crashed"
    assert ("never reported an end" if started else "without starting the flow") in run.message


async def test_a_run_that_ends_between_two_looks_keeps_its_end(stage: Stage) -> None:
    """The job is read first: a run read after its job was over cannot change any more."""
    run, ticket = await stage.running(await stage.worker())
    stage.runs.put(run.id, RunState.FAILED)
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick()

    assert run.name == "Failed"
    assert (await ticket.wait_ended()).exit_status == 0


async def test_a_suspended_run_is_left_alone(stage: Stage) -> None:
    worker = await stage.worker()
    run, ticket = await stage.running(worker)
    run.suspended = True
    stage.runs.put(run.id, RunState.PAUSED, "Suspended")
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(2)
    assert (await ticket.wait_ended()).exit_status == 0
    stage.runs.put(run.id, RunState.SCHEDULED, "Resuming")
    stage.submit(worker, run)
    await stage.rest()

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_a_blocking_pause_whose_job_is_over_is_crashed(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.runs.put(run.id, RunState.PAUSED)
    stage.move(stage.job(run), "FAILED", EXIT_3)
    await stage.tick()

    assert run.name == "Crashed"


async def test_a_job_cancelled_in_vertex_ai_cancels_its_run_and_says_so(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick()

    assert run.name == "Cancelled"
    assert "outside Prefect" in run.message


async def test_a_job_that_reached_its_maximum_run_time_crashes_its_run(stage: Stage) -> None:
    policy = RunPolicy(timeout_seconds=60)
    run, _ = await stage.running(await stage.worker(), policy=policy)
    await stage.tick(12)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick()

    assert run.name == "Crashed"
    assert "maximum run time" in run.message


async def test_a_job_without_machines_is_cancelled_and_then_its_run_crashed(stage: Stage) -> None:
    policy = RunPolicy(provisioning_timeout_seconds=30)
    capacity = CapacityPolicy(max_attempts=1)
    run, _ = await stage.submitted(await stage.worker(), policy=policy, capacity=capacity)
    await stage.tick(8)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    assert run.name == "Provisioning"
    stage.move(stage.job(run), "CANCELLED")
    await stage.tick()

    assert run.name == "Crashed"
    assert "no capacity in us-central1" in run.message
    assert "had no machines after 30 s" in run.message


async def test_the_reason_of_our_own_cancel_outlives_the_worker(stage: Stage) -> None:
    worker = await stage.worker()
    policy = RunPolicy(start_grace_seconds=30)
    run, _ = await stage.submitted(worker, policy=policy)
    stage.move(stage.job(run), "RUNNING")
    await stage.tick(8)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    await stage.kill(worker)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.worker()
    await stage.tick(2)

    assert run.name == "Crashed"
    assert "had not started after 30 s" in run.message


@pytest.mark.parametrize(
    ("policy", "waits_in"),
    [
        (RunPolicy(provisioning_timeout_seconds=60), "PENDING"),
        (RunPolicy(start_grace_seconds=60), "RUNNING"),
    ],
)
async def test_a_reason_that_was_not_carried_out_does_not_speak_for_a_later_cancel(
    policy: RunPolicy, waits_in: str, stage: Stage
) -> None:
    run, _ = await stage.submitted(await stage.worker(), policy=policy)
    stage.move(stage.job(run), waits_in)
    stage.gateway().down["cancel"] = ServiceUnavailableError(
        "Lost.", verdict=ServiceVerdict(code="UNAVAILABLE")
    )
    await stage.tick(14)
    assert run.labels[VERDICT_LABEL]
    del stage.gateway().down["cancel"]
    stage.start(run)
    await stage.tick(3)
    assert not run.labels[VERDICT_LABEL]
    stage.move(stage.job(run), "CANCELLED", (1, "stopped by a person"))
    await stage.tick(3)

    assert run.name == "Cancelled"


async def test_a_reason_is_not_withdrawn_while_its_cancel_takes_effect(stage: Stage) -> None:
    """The flow begins in the moment of the cancel, and lists show the job as it was."""
    run, _ = await stage.submitted(
        await stage.worker(), policy=RunPolicy(provisioning_timeout_seconds=60)
    )
    stage.move(stage.job(run), "PENDING")
    await stage.tick(13)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.runs.put(run.id, RunState.RUNNING)
    await stage.tick(3)
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick(3)

    assert run.name == "Crashed"
    assert "had no machines after 60 s" in run.message


# --- leaks ----------------------------------------------------------------------------------------


async def test_a_job_that_outlives_its_run_is_cancelled_until_it_is_gone(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.runs.put(run.id, RunState.COMPLETED)
    await stage.tick(11)
    assert stage.gateway().calls["cancel"] == 0
    for sent in (1, 2, 3):
        await stage.tick(1)
        assert stage.gateway().calls["cancel"] == sent
        stage.move(stage.job(run), "RUNNING")
        await stage.tick(11)
    stage.move(stage.job(run), "CANCELLED")
    await stage.tick()

    assert run.name == "Completed"
    assert worker.book == {}


async def test_a_deleted_runs_job_is_cancelled(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    del stage.runs.rows[run.id]
    await stage.tick(12)
    assert stage.gateway().calls["cancel"] == 0
    await stage.tick(14)
    assert stage.jobs()[0].state == "JOB_STATE_CANCELLING"
    stage.move(stage.jobs()[0], "CANCELLED")
    await stage.tick(14)

    assert worker.book == {}


async def test_a_flow_that_gives_no_sign_of_life_is_ended(stage: Stage) -> None:
    policy = RunPolicy(stall_timeout_seconds=60)
    run, _ = await stage.running(await stage.worker(), policy=policy)
    await stage.tick(8)
    stage.runs.signs[run.id] = stage.wall.now()
    await stage.tick(11)
    assert stage.job(run).state == "JOB_STATE_RUNNING"
    await stage.tick(3)
    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    stage.move(stage.job(run), "CANCELLED", (1, "CANCELED"))
    await stage.tick()

    assert run.name == "Crashed"
    assert "no sign of life for 60 s" in run.message


async def test_signs_of_life_that_cannot_be_read_are_no_evidence(stage: Stage) -> None:
    policy = RunPolicy(stall_timeout_seconds=60)
    run, _ = await stage.running(await stage.worker(), policy=policy)

    def unreadable(method: str) -> tuple[Exception, bool] | None:
        return (PrefectUnavailableError("500"), False) if method == "last_sign" else None

    stage.runs.mischief = unreadable
    await stage.tick(60)

    assert stage.job(run).state == "JOB_STATE_RUNNING"
