"""The five methods through Google's own clients, and what the rest answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceAsyncClient, JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator import Behaviour, Emulator

pytestmark = pytest.mark.anyio

ABSENT = "projects/demo/locations/us-central1/customJobs/1234567890123456789"


async def test_created_job_has_the_name_and_times_of_a_new_one(
    client: JobServiceAsyncClient, a_job: Callable[..., CustomJob], parent: str
) -> None:
    """The name carries the project's number and 19 digits, whatever the client sent."""
    request = a_job("sleep", "60", labels={"team": "forecast"}, name="mine", state=4)

    created = await client.create_custom_job(parent=parent, custom_job=request)

    assert re.fullmatch(r"projects/\d{12}/locations/us-central1/customJobs/\d{19}", created.name)
    assert created.state == JobState.JOB_STATE_QUEUED
    assert created.create_time == created.update_time
    assert "start_time" not in created
    assert "end_time" not in created
    assert "error" not in created
    assert created.labels == {"team": "forecast"}
    assert created.job_spec == request.job_spec


async def test_job_is_found_by_project_id_and_by_number(
    client: JobServiceAsyncClient, a_job: Callable[..., CustomJob], parent: str
) -> None:
    created = await client.create_custom_job(parent=parent, custom_job=a_job("true"))
    by_id = f"{parent}/customJobs/{created.name.rpartition('/')[2]}"

    assert (await client.get_custom_job(name=created.name)).name == created.name
    assert (await client.get_custom_job(name=by_id)).name == created.name


async def test_given_project_number_is_used(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    emulator = await start_emulator(behaviour=Behaviour(project_numbers={"demo": "42"}))

    created = await connect(emulator.address).create_custom_job(
        parent=parent, custom_job=a_job("true")
    )

    assert created.name.startswith("projects/42/")


async def test_jobs_are_kept_by_project_and_location(
    client: JobServiceAsyncClient, a_job: Callable[..., CustomJob], parent: str
) -> None:
    await client.create_custom_job(parent=parent, custom_job=a_job("true"))
    elsewhere = ("projects/demo/locations/europe-west4", "projects/other/locations/us-central1")

    assert len([job async for job in await client.list_custom_jobs(parent=parent)]) == 1
    for other in elsewhere:
        assert [job async for job in await client.list_custom_jobs(parent=other)] == []


@pytest.mark.parametrize(
    "parent",
    [
        "projects/demo",
        "projects/demo/locations/-",
        "projects/demo/locations/global",
        "projects/demo/locations/us",
        "projects/demo/locations/us-central1/customJobs",
    ],
)
async def test_parent_that_is_no_region_is_refused(
    client: JobServiceAsyncClient, a_job: Callable[..., CustomJob], parent: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        await client.create_custom_job(parent=parent, custom_job=a_job("true"))
    with pytest.raises(exceptions.InvalidArgument):
        await client.list_custom_jobs(parent=parent)


async def test_absent_job_is_not_found_and_a_malformed_name_invalid(
    client: JobServiceAsyncClient,
) -> None:
    for method in (client.get_custom_job, client.cancel_custom_job, client.delete_custom_job):
        with pytest.raises(exceptions.NotFound, match=r"customJobs/1234567890123456789"):
            await method(name=ABSENT)
        with pytest.raises(exceptions.InvalidArgument):
            await method(name="customJobs/1")


async def test_refused_job_leaves_nothing_behind(
    client: JobServiceAsyncClient,
    emulator: Emulator,
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    with pytest.raises(exceptions.InvalidArgument, match=r"List of found errors:\t1\.Field: "):
        await client.create_custom_job(parent=parent, custom_job=a_job("true", display_name=""))

    assert emulator.jobs() == []


async def test_cancel_of_an_ended_job_is_a_failed_precondition(
    client: JobServiceAsyncClient, run_job: Callable[..., Any]
) -> None:
    job = await run_job("true")

    with pytest.raises(exceptions.FailedPrecondition) as refusal:
        await client.cancel_custom_job(name=job.name)

    assert refusal.value.message == (
        f'The CustomJob "{job.name}" is in state JOB_STATE_SUCCEEDED and cannot be canceled.'
    )


async def test_deleted_job_is_gone_with_its_files(
    client: JobServiceAsyncClient, run_job: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    job = await run_job("sh", "-c", "echo hello")

    operation = await client.delete_custom_job(name=job.name)

    assert operation.operation.name.startswith(f"{job.name}/operations/")
    assert operation.metadata.generic_metadata.create_time is not None
    assert operation.operation.done
    with pytest.raises(exceptions.NotFound):
        await client.get_custom_job(name=job.name)
    await eventually(lambda: not job.directory.exists())


async def test_live_job_is_not_deleted(
    client: JobServiceAsyncClient, a_job: Callable[..., CustomJob], parent: str
) -> None:
    created = await client.create_custom_job(parent=parent, custom_job=a_job("sleep", "60"))

    with pytest.raises(exceptions.FailedPrecondition):
        await client.delete_custom_job(name=created.name)

    assert (await client.get_custom_job(name=created.name)).name == created.name


async def test_live_job_is_cancelled_by_a_delete_where_that_is_the_choice(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    marked: Callable[[str], list[int]],
    eventually: Callable[..., Any],
    parent: str,
) -> None:
    emulator = await start_emulator(behaviour=Behaviour(delete_live_job="cancel"))
    client = connect(emulator.address)
    created = await client.create_custom_job(parent=parent, custom_job=a_job("sleep", "60"))
    job = emulator.job(created.name)
    await job.wait_until(lambda resource: resource.state == JobState.JOB_STATE_RUNNING)

    await client.delete_custom_job(name=created.name)

    assert emulator.jobs() == []
    await eventually(lambda: not marked(emulator.marker))
    assert (await job.wait_for_end()).state == JobState.JOB_STATE_CANCELLED


async def test_synchronous_client_is_served_as_well(
    emulator: Emulator, a_job: Callable[..., CustomJob], parent: str
) -> None:
    def create_and_delete() -> str:
        with grpc.insecure_channel(emulator.address) as channel:
            client = JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
            created = client.create_custom_job(parent=parent, custom_job=a_job("true"))
            listed = [job.name for job in client.list_custom_jobs(parent=parent)]
            assert listed == [created.name]
            return created.name

    name = await asyncio.to_thread(create_and_delete)

    assert [job.name for job in emulator.jobs(parent)] == [name]


async def test_other_methods_are_unimplemented_by_name(client: JobServiceAsyncClient) -> None:
    with pytest.raises(exceptions.MethodNotImplemented) as refusal:
        await client.get_batch_prediction_job(name="projects/p/locations/l/batchPredictionJobs/1")

    method = "google.cloud.aiplatform.v1.JobService.GetBatchPredictionJob"
    assert method in refusal.value.message


async def test_data_that_cannot_be_kept_is_an_os_error(
    start_emulator: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match="Not a directory"):
        await start_emulator(data=tmp_path / "file" / "jobs")


async def test_port_in_use_is_an_os_error(
    emulator: Emulator, start_emulator: Callable[..., Any]
) -> None:
    with pytest.raises(OSError, match="in use"):
        await start_emulator(port=int(emulator.address.rpartition(":")[2]))


async def test_job_looked_up_in_process_is_a_lookup_error_when_absent(emulator: Emulator) -> None:
    with pytest.raises(LookupError, match="1234567890123456789"):
        emulator.job(ABSENT)
