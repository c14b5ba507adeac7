"""What is true of every JobGateway, whatever is behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types

from prefect_vertex.errors import JobNotFoundError, RequestRejectedError
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName

pytestmark = pytest.mark.anyio

Request = Callable[..., types.CreateCustomJobRequest]
NOBODY = ResourceName("demo-project", "us-central1", "1")


def _keys(jobs: Any) -> set[tuple[str, str]]:
    return {job.resource_name.key for job in jobs}


async def test_a_turn_to_submit_comes_and_creates_nothing(world: Any) -> None:
    await world.gateway.submission_turn()

    assert await world.gateway.list_live("pool") == ()


async def test_a_created_job_is_live_named_in_its_location_and_labelled_as_asked(
    world: Any, a_request: Request
) -> None:
    job = await world.gateway.create(a_request("a job", flow_run_id="run-1", attempt=3))

    assert job.resource_name.location == "us-central1"
    assert job.resource_name.job_id.isdecimal()
    assert job.display_name == "a job"
    assert (job.flow_run_id, job.attempt) == ("run-1", 3)
    assert job.phase in {JobPhase.QUEUED, JobPhase.PROVISIONING}
    assert (job.start_time, job.end_time, job.error) == (None, None, None)


async def test_a_job_can_be_described_as_soon_as_it_is_created(
    world: Any, a_request: Request
) -> None:
    created = await world.gateway.create(a_request())

    seen = await world.gateway.describe(created.resource_name)

    assert seen.resource_name.key == created.resource_name.key
    assert seen.create_time == created.create_time
    assert seen.described


async def test_the_project_may_be_written_as_its_id_or_its_number(
    world: Any, a_request: Request
) -> None:
    created = await world.gateway.create(a_request())
    by_id = ResourceName("demo-project", "us-central1", created.resource_name.job_id)

    assert (await world.gateway.describe(by_id)).resource_name.key == by_id.key


async def test_two_creates_are_two_jobs(world: Any, a_request: Request) -> None:
    """The service has no idempotency token, whatever the request looks like."""
    request = a_request(flow_run_id="run-1")

    first = await world.gateway.create(request)
    second = await world.gateway.create(request)

    found = await world.gateway.find("run-1")
    assert [job.resource_name.key for job in found] == [
        first.resource_name.key,
        second.resource_name.key,
    ]


async def test_a_request_without_a_display_name_is_refused_and_leaves_nothing(
    world: Any, a_request: Request
) -> None:
    request = a_request(flow_run_id="run-1")
    request.custom_job.display_name = ""

    with pytest.raises(RequestRejectedError) as caught:
        await world.gateway.create(request)

    assert caught.value.code == "INVALID_ARGUMENT"
    assert await world.gateway.find("run-1") == ()


async def test_a_request_without_worker_pools_is_refused(world: Any, a_request: Request) -> None:
    with pytest.raises(RequestRejectedError):
        await world.gateway.create(a_request(job_spec={}))


async def test_a_job_that_never_was_is_not_found(world: Any) -> None:
    with pytest.raises(JobNotFoundError) as caught:
        await world.gateway.describe(NOBODY)

    assert caught.value.code == "NOT_FOUND"
    assert str(NOBODY) in str(caught.value)


async def test_a_run_without_jobs_finds_none(world: Any, a_request: Request) -> None:
    await world.gateway.create(a_request(flow_run_id="run-1"))

    assert await world.gateway.find("run-2") == ()


async def test_a_run_finds_its_jobs_in_any_state(world: Any, a_request: Request) -> None:
    ended = await world.gateway.create(a_request("one", flow_run_id="run-1", attempt=1))
    await world.end(ended)
    live = await world.gateway.create(a_request("two", flow_run_id="run-1", attempt=2))

    found = await world.gateway.find("run-1")

    assert _keys(found) == _keys([ended, live])
    assert {job.attempt for job in found} == {1, 2}
    assert not any(job.described for job in found)


async def test_a_pools_live_jobs_are_those_that_have_not_ended(
    world: Any, a_request: Request
) -> None:
    live = await world.gateway.create(a_request("live"))
    running = await world.gateway.create(a_request("running"))
    await world.run(running.resource_name)
    ended = await world.gateway.create(a_request("ended"))
    await world.end(ended)
    await world.gateway.create(a_request("other", work_pool_id="another-pool"))

    assert _keys(await world.gateway.list_live("pool")) == _keys([live, running])
    assert _keys(await world.gateway.list_ended("pool")) == _keys([ended])


async def test_ended_jobs_can_be_limited_to_those_created_since(
    world: Any, a_request: Request
) -> None:
    job = await world.gateway.create(a_request())
    await world.end(job)

    since_then = await world.gateway.list_ended("pool", job.create_time)
    since_later = await world.gateway.list_ended("pool", job.create_time.replace(year=2100))

    assert _keys(since_then) == _keys([job])
    assert since_later == ()


async def test_a_running_job_has_started(world: Any, a_request: Request) -> None:
    job = await world.gateway.create(a_request())

    await world.run(job.resource_name)

    seen = await world.gateway.describe(job.resource_name)
    assert seen.phase is JobPhase.RUNNING
    assert seen.start_time is not None
    assert seen.start_time >= seen.create_time
    assert seen.end_time is None


@pytest.mark.parametrize(("exit_status", "phase"), [(0, JobPhase.SUCCEEDED), (3, JobPhase.FAILED)])
async def test_a_job_ends_as_its_container_did(
    exit_status: int, phase: JobPhase, world: Any, a_request: Request
) -> None:
    job = await world.gateway.create(a_request())
    await world.run(job.resource_name)

    await world.end(job, exit_status)

    seen = await world.gateway.describe(job.resource_name)
    assert seen.phase is phase
    assert seen.end_time is not None


async def test_a_live_job_that_is_cancelled_ends_so(world: Any, a_request: Request) -> None:
    job = await world.gateway.create(a_request())
    await world.run(job.resource_name)

    await world.gateway.cancel(job.resource_name)

    asked = await world.gateway.describe(job.resource_name)
    assert asked.phase in {JobPhase.CANCELLING, JobPhase.CANCELLED}
    await world.confirm_cancel(job.resource_name)
    assert (await world.gateway.describe(job.resource_name)).phase is JobPhase.CANCELLED


async def test_cancelling_twice_is_cancelling_once(world: Any, a_request: Request) -> None:
    job = await world.gateway.create(a_request())

    await world.gateway.cancel(job.resource_name)
    await world.gateway.cancel(job.resource_name)

    await world.confirm_cancel(job.resource_name)
    assert (await world.gateway.describe(job.resource_name)).phase is JobPhase.CANCELLED


async def test_cancelling_a_job_that_has_ended_changes_nothing(
    world: Any, a_request: Request
) -> None:
    job = await world.gateway.create(a_request())
    await world.end(job)

    await world.gateway.cancel(job.resource_name)

    assert (await world.gateway.describe(job.resource_name)).phase is JobPhase.SUCCEEDED


async def test_cancelling_or_deleting_what_is_not_there_is_no_error(world: Any) -> None:
    await world.gateway.cancel(NOBODY)
    await world.gateway.delete(NOBODY)


async def test_a_deleted_job_is_gone_from_everywhere(world: Any, a_request: Request) -> None:
    job = await world.gateway.create(a_request(flow_run_id="run-1"))
    await world.end(job)

    await world.gateway.delete(job.resource_name)

    with pytest.raises(JobNotFoundError):
        await world.gateway.describe(job.resource_name)
    assert await world.gateway.find("run-1") == ()
    assert await world.gateway.list_ended("pool") == ()


async def test_a_gateway_says_for_what_it_speaks(world: Any) -> None:
    assert world.gateway.target.parent == "projects/demo-project/locations/us-central1"
