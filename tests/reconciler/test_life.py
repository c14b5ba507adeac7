"""A run's ordinary life."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    INSTANCE_LABEL,
    LOCATION_LABEL,
    POLICY_LABEL,
    PROJECT_LABEL,
    RunState,
)

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio


async def test_a_fresh_run_gets_its_job_at_once(stage: Stage) -> None:
    worker = await stage.worker()

    run, ticket = stage.submit(worker)
    await stage.rest()

    job = stage.job(run)
    assert job.attempt == 1
    assert await ticket.wait_started() == job.resource_name
    assert run.identifier == str(job.resource_name)
    assert worker.waiting_submissions == 0
    assert stage.gateway().calls["find"] == 0


async def test_the_run_says_who_creates_what_and_where_before_it_exists(stage: Stage) -> None:
    worker = await stage.worker("w")
    stage.gateway().script("create", RuntimeError("the process dies here"))

    run, _ = stage.submit(worker, location="us-central1", policy=RunPolicy(spot=True))
    await stage.rest()

    assert stage.jobs(run) == []
    assert run.labels[INSTANCE_LABEL] == "w/instance-0"
    assert run.labels[ATTEMPT_LABEL] == "1"
    assert (run.labels[PROJECT_LABEL], run.labels[LOCATION_LABEL]) == (
        "demo-project",
        "us-central1",
    )
    assert run.labels[POLICY_LABEL] == '{"spot":true}'


async def test_the_states_of_a_run_that_ends_well(stage: Stage) -> None:
    worker = await stage.worker()
    run, ticket = await stage.submitted(worker)
    stage.move(stage.job(run), "QUEUED")
    await stage.tick(2)
    stage.move(stage.job(run), "PENDING")
    await stage.tick(2)
    stage.start(run)
    await stage.tick(2)
    stage.complete(run)
    await stage.tick(2)

    assert run.names == [
        "Scheduled", "Pending", "Submitting", "InfrastructurePending", "Provisioning", "Running",
        "Completed",
    ]  # fmt: skip
    outcome = await ticket.wait_ended()
    assert outcome.exit_status == 0
    assert not ticket.crashed
    assert outcome.resource_name == stage.job(run).resource_name


async def test_a_job_that_is_provisioned_at_once_is_shown_as_queued_first(stage: Stage) -> None:
    worker = await stage.worker()

    run, _ = await stage.submitted(worker)
    await stage.tick()

    assert run.names[-2:] == ["InfrastructurePending", "Provisioning"]


async def test_each_phase_is_one_event_whoever_saw_it(stage: Stage) -> None:
    first, _ = await stage.worker("one"), await stage.worker("two")
    run, _ = await stage.running(first)
    await stage.tick(3)
    stage.complete(run)
    await stage.tick(3)

    assert [event for _, event, _ in stage.runs.events] == [
        "prefect-vertex.job.provisioning",
        "prefect-vertex.job.running",
        "prefect-vertex.job.succeeded",
    ]


async def test_the_log_names_the_job_and_where_to_see_it(stage: Stage) -> None:
    run, _ = await stage.submitted(await stage.worker())

    text = "\n".join(stage.runs.logs[run.id])
    assert str(stage.job(run).resource_name) in text
    assert "Console: https://" in text
    assert "Logs: https://" in text


async def test_nothing_is_kept_of_what_is_over(stage: Stage) -> None:
    worker = await stage.worker()
    for _ in range(3):
        run, _ = await stage.running(worker)
        stage.complete(run)
    other, _ = await stage.running(worker)
    stage.runs.put(other.id, RunState.FAILED)
    stage.move(stage.job(other), "FAILED", (3, "exited with a non-zero status of 1."))
    await stage.tick(2)

    assert worker.book == {}


async def test_a_run_that_was_deleted_while_nobody_looked_is_let_go(stage: Stage) -> None:
    worker = await stage.worker()
    run = stage.runs.add()
    stage.runs.put(run.id, RunState.RUNNING)
    await stage.tick()
    del stage.runs.rows[run.id]
    await stage.tick(40)

    assert worker.book == {}


async def test_a_run_that_cannot_be_asked_for_is_crashed_with_the_reason(stage: Stage) -> None:
    worker = await stage.worker()
    run = stage.runs.add()
    stage.pick_up(run)

    ticket = worker.refuse(run.id, RunPolicy(), "machine_type is n1-ultra-4.")
    await stage.rest()

    assert run.name == "Crashed"
    assert run.message == "machine_type is n1-ultra-4."
    assert ticket.crashed
    assert await ticket.wait_started() is None
    assert stage.jobs() == []


async def test_the_reason_is_told_until_the_server_has_taken_it(stage: Stage) -> None:
    worker = await stage.worker()
    run = stage.runs.add()
    stage.pick_up(run)
    stage.runs.down = True
    ticket = worker.refuse(run.id, RunPolicy(), "No such machine.")
    await stage.rest()
    stage.runs.down = False
    await stage.tick(2)

    assert run.message == "No such machine."
    assert (await ticket.wait_ended()).reason is TerminationReason.UNKNOWN


async def test_a_run_that_ends_by_itself_before_it_has_a_job_gets_none(stage: Stage) -> None:
    worker = await stage.worker()
    run = stage.runs.add()
    stage.pick_up(run)
    stage.runs.put(run.id, RunState.CRASHED)

    ticket = worker.take(stage.assignment(run))
    await stage.rest()

    assert stage.jobs() == []
    assert await ticket.wait_started() is None
    assert (await ticket.wait_ended()).exit_status == 0


# --- the loop -------------------------------------------------------------------------------------


async def test_the_interval_is_the_pools_tick(stage: Stage) -> None:
    assert (await stage.worker()).interval == 5


async def test_a_run_may_ask_for_a_shorter_interval_while_it_lives(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker, policy=RunPolicy(poll_interval_seconds=2))
    assert worker.interval == 2
    stage.complete(run)
    await stage.tick(2)

    assert worker.interval == 5


async def test_no_interval_is_shorter_than_a_second(stage: Stage) -> None:
    worker = await stage.worker()
    await stage.running(worker, policy=RunPolicy(poll_interval_seconds=0.1))

    assert worker.interval == 1


async def test_due_looks_wait_for_the_next_tick(stage: Stage) -> None:
    """A hundred runs that are shown to be queued must not cause a hundred lists."""
    worker = await stage.worker()
    for _ in range(10):
        stage.submit(worker)
        await stage.clock.advance(0.3)
    await stage.rest()

    assert worker.interval == 5
