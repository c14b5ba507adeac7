"""A whole installation for tests with real processes: server, emulator, storage and workers."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
from google.cloud.aiplatform_v1 import CustomJob, JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import (
    JobServiceGrpcTransport,
)
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import LogSort
from tests.laptop import opened_laptop

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import PROJECT, LocalStack

BUCKET = "e2e-bucket"
REGION = "us-central1"
IMAGE = "us-docker.pkg.dev/demo-project/e2e/image:1"


@dataclass
class Installation:
    """What a test needs to deploy, run and look."""

    stack: LocalStack
    children: Children
    client: SyncPrefectClient
    jobs_client: JobServiceClient
    home: Path
    workers: dict[str, Child] = field(default_factory=dict)

    def pool(self, name: str, **variables: Any) -> str:
        """Create a work pool that runs in the emulator."""
        self.stack.create_pool(name, **{"region": REGION, "image": IMAGE, **variables})
        return name

    def worker(self, pool: str, **env: str) -> Child:
        """Start a worker on a pool, with a short tick."""
        quick = {
            "PREFECT_INTEGRATIONS_VERTEX_TICK_SECONDS": "1",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }
        self.workers[pool] = self.stack.start_worker(pool, env={**quick, **env})
        return self.workers[pool]

    def end_workers(self) -> None:
        """End every worker: one that polls each second takes much from the tests that follow."""
        for worker in self.workers.values():
            worker.stop()
        self.workers.clear()

    def deploy(
        self,
        pool: str,
        name: str,
        source: str,
        *,
        flow: str = "main",
        **job_variables: Any,
    ) -> UUID:
        """Write a flow to a directory of its own, stage and deploy it; returns the deployment."""
        folder = self.home / name
        folder.mkdir()
        (folder / "flow.py").write_text(textwrap.dedent(source))
        (folder / "data.txt").write_text("12 months\n")
        lines = "".join(f"        {key}: {value!r}\n" for key, value in job_variables.items())
        (folder / "prefect.yaml").write_text(
            f"""
name: {name}
build:
  - prefect_vertex.deployments.stage_code: {{id: code, staging_bucket: {BUCKET}}}
pull:
  - prefect.deployments.steps.set_working_directory: {{directory: "."}}
deployments:
  - name: {name}
    entrypoint: flow.py:{flow}
    work_pool:
      name: {pool}
      job_variables:
        code_uri: "{{{{ code.code_uri }}}}"
        code_sha256: "{{{{ code.code_sha256 }}}}"
{lines}""",
        )
        self.stack.prefect("deploy", "--all", cwd=folder)
        return self.client.read_deployment_by_name(f"{flow}/{name}").id

    def start(self, deployment: UUID, **job_variables: Any) -> FlowRun:
        """Start a run of a deployment."""
        return self.client.create_flow_run_from_deployment(
            deployment,
            job_variables=job_variables or None,
        )

    def wait(
        self,
        run: FlowRun,
        until: Callable[[FlowRun], bool] = lambda run: bool(run.state and run.state.is_final()),
        seconds: float = 90,
    ) -> FlowRun:
        """Wait until a condition holds for a run; by default its end."""
        deadline = time.monotonic() + seconds
        while True:
            seen = self.client.read_flow_run(run.id)
            if until(seen):
                return seen
            if time.monotonic() > deadline:
                state = seen.state
                logs = "\n".join(child.output()[-3000:] for child in self.workers.values())
                raise AssertionError(f"{run.name} stayed {state!r}\n{logs}")
            time.sleep(0.2)

    def logs_with(self, run: FlowRun, text: str) -> str:
        """The run's log lines in Prefect, once a text is among them; they arrive late."""
        deadline = time.monotonic() + 30
        while text not in (logs := "\n".join(self.logs(run))):
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} is not in:\n{logs}")
            time.sleep(0.2)
        return logs

    def logs(self, run: FlowRun) -> list[str]:
        """The run's log lines in Prefect so far."""
        found = self.client.read_logs(
            log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])),
            sort=LogSort.TIMESTAMP_ASC,
            limit=200,
        )
        return [log.message for log in found]

    def job_that(self, run: FlowRun, holds: Callable[[CustomJob], bool]) -> CustomJob:
        """The run's only job, once a condition holds for it."""
        deadline = time.monotonic() + 60
        while True:
            (job,) = self.jobs(run)
            if holds(job):
                return job
            if time.monotonic() > deadline:
                raise AssertionError(f"{job.name} stayed {job.state!r}")
            time.sleep(0.2)

    def jobs(self, run: FlowRun) -> list[CustomJob]:
        """The emulator's jobs for a run."""
        listed = self.jobs_client.list_custom_jobs(
            request={
                "parent": f"projects/{PROJECT}/locations/{REGION}",
                "filter": f'labels.prefect-io_flow-run-id="{run.id}"',
            },
            timeout=10,
        )
        return list(listed)


@contextmanager
def installed(name: str, *, control_port: int | None = None) -> Iterator[Installation]:
    """Server, emulator and storage in a new directory; all of it is gone after the block."""
    with opened_laptop(name) as (stack, children):
        stack.start_cloud(control_port=control_port)
        stack.create_bucket(BUCKET)
        channel = grpc.insecure_channel(stack.vertex_address)
        transport = JobServiceGrpcTransport(channel=channel)
        with SyncPrefectClient(api=stack.api_url) as client:
            yield Installation(
                stack=stack,
                children=children,
                client=client,
                jobs_client=JobServiceClient(transport=transport),
                home=stack.home,
            )
        channel.close()
