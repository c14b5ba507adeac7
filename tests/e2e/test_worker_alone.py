"""A worker that was never started: a script or a test calls its methods."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.aiplatform_v1 import JobState
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Pending

from prefect_vertex import VertexWorker
from prefect_vertex.template import VertexJobConfiguration

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

pytestmark = pytest.mark.anyio

FLOW = """
    from prefect import flow

    @flow
    def main():
        return 1
"""


@pytest.fixture(scope="module")
def alone(installation: Installation) -> Any:
    """A deployment to a pool that has no worker."""
    return installation.deploy(installation.pool("alone"), "alone", FLOW)


@asynccontextmanager
async def _worker(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[VertexWorker]:
    """A worker on that pool in this process, entered but not started."""
    monkeypatch.setenv("VERTEX_AI_EMULATOR_HOST", installation.stack.vertex_address)
    monkeypatch.setenv("CLOUD_LOGGING_EMULATOR_HOST", installation.stack.vertex_address)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", installation.stack.storage_url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "demo-project")
    monkeypatch.setenv("PREFECT_INTEGRATIONS_VERTEX_TICK_SECONDS", "1")
    with temporary_settings({PREFECT_API_URL: installation.stack.api_url}):
        async with VertexWorker(work_pool_name="alone", name="alone") as worker:
            yield worker


async def _prepare(
    installation: Installation, worker: VertexWorker, deployment: Any
) -> tuple[FlowRun, VertexJobConfiguration]:
    run = installation.start(deployment)
    installation.client.set_flow_run_state(run.id, Pending())
    configuration = await VertexJobConfiguration.resolve_for_flow_run(
        run,
        client=worker.client,
        work_pool=copy.deepcopy(worker.work_pool),
        worker_name=worker.name,
    )
    return run, configuration


async def test_run_without_start_drives_a_reconciler_of_its_own(
    installation: Installation, alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It returns the final outcome, as the seed's worker does."""
    async with _worker(installation, monkeypatch) as worker:
        run, configuration = await _prepare(installation, worker, alone)
        result = await worker.run(run, configuration)
    (job,) = installation.jobs(run)
    seen = installation.client.read_flow_run(run.id)

    assert (result.status_code, result.identifier) == (0, job.name)
    assert seen.state is not None
    assert seen.state.is_completed()
    assert seen.infrastructure_pid == job.name


async def test_a_crash_is_told_in_the_result_and_in_the_run(
    installation: Installation, alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is the container's own."""
    async with _worker(installation, monkeypatch) as worker:
        run, configuration = await _prepare(installation, worker, alone)
        configuration.command = "sh -c 'echo broken >&2; exit 42'"
        result = await worker.run(run, configuration)
    seen = installation.client.read_flow_run(run.id)

    assert result.status_code == 42
    assert seen.state is not None
    assert seen.state.is_crashed()
    assert "exited with status 42" in (seen.state.message or "")
    assert "broken" in (seen.state.message or "")


async def test_killing_cancels_the_job_that_the_identifier_names(
    installation: Installation, alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second kill is as good as one; a job that is not there is told apart from a wrong name."""
    async with _worker(installation, monkeypatch) as worker:
        run, configuration = await _prepare(installation, worker, alone)
        configuration.command = "sleep 600"
        await worker._initiate_run(run, configuration)
        (job,) = installation.jobs(run)
        assert installation.client.read_flow_run(run.id).infrastructure_pid == job.name

        await worker.kill_infrastructure(job.name, configuration)
        await worker.kill_infrastructure(job.name, configuration)
        installation.job_that(run, lambda each: each.state == JobState.JOB_STATE_CANCELLED)

        with pytest.raises(InfrastructureNotFound):
            await worker.kill_infrastructure(job.name[:-4] + "0000", configuration)
        with pytest.raises(InfrastructureNotAvailable):
            await worker.kill_infrastructure("pod/some-other-worker", configuration)
