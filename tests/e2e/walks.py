"""Runs that look for machines: a cloud with faults and quotas, a pool in it, and its worker."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import Artifact, FlowRun
from prefect.client.schemas.sorting import ArtifactSort

from prefect_vertex.cli.children import Child
from prefect_vertex.cli.local import program, share
from prefect_vertex.emulator.control_client import ControlClient
from prefect_vertex.emulator.quotas import QuotaLimit

if TYPE_CHECKING:
    # The fixture's class, which stands in a conftest.
    Installation = Any

POOL = "vertex-forecast"  # as the example's prefect.yaml has it
IMAGE = "us-docker.pkg.dev/demo-project/e2e/image:1"
STUB = Path(__file__).parents[1] / "chaos" / "stub.py"

A, B, C = "us-central1", "europe-west4", "asia-east1"
NONE_ALLOWED = ("us-east1", "us-west1")
"""Where the project may have no CPUs."""


def until(holds: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait for a condition; returns what it gave."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)
    return value


@dataclass
class Walks:
    """An emulator with faults beside the installation's own, a pool and a worker in it."""

    installation: Installation
    cloud: ControlClient
    env: dict[str, str]
    folder: Path
    deployment: UUID
    workers: list[Child] = field(default_factory=list)

    def start_worker(self) -> None:
        """Start the pool's worker, always under the same name."""
        command = [*program("prefect"), "worker", "start", "--pool", POOL, "--name", "walker"]
        name = f"walk worker {len(self.workers)}"
        worker = self.installation.children.start(name, command, env=self.env)
        self.workers.append(worker)
        self.installation.workers[POOL] = worker
        worker.wait_until(lambda: "started!" in worker.output(), seconds=60, what="it had started")

    def kill_worker(self) -> None:
        """SIGKILL."""
        self.workers[-1].process.kill()
        self.workers[-1].process.wait()
        self.installation.children.forget(self.workers[-1])

    def start(self, *regions: str, container: str = "", **job_variables: Any) -> FlowRun:
        """Start a run of the stub container; `container` holds its options."""
        command = shlex.join([sys.executable, str(STUB), str(self.notes)])
        run: FlowRun = self.installation.start(
            self.deployment,
            region=regions[0],
            regions=list(regions[1:]),
            command=f"{command} {container}".strip(),
            **job_variables,
        )
        return run

    @property
    def notes(self) -> Path:
        """Where the stub containers note that user code ran."""
        return self.folder / "notes"

    def ran(self, run: FlowRun) -> list[int]:
        """The attempts in which the run's code ran, once for each time."""
        lines = [json.loads(line) for line in self.notes.read_text().splitlines()]
        return [line["attempt"] for line in lines if line["run"] == str(run.id)]

    def is_waiting(self, run: FlowRun) -> bool:
        """Whether the run waits for its next try."""
        state = self.installation.client.read_flow_run(run.id).state
        return state.name == "AwaitingCapacity" and " UTC" in (state.message or "")

    def states(self, run: FlowRun) -> list[str]:
        """The names of the run's states, in order."""
        states = self.installation.client.read_flow_run_states(run.id)
        return [state.name for state in sorted(states, key=lambda state: state.timestamp)]

    def jobs(self, run: FlowRun) -> list[dict[str, Any]]:
        """Every job that the run ever had, anywhere, the oldest first."""
        ours = [
            job
            for job in self.cloud.call("jobs")
            if job["labels"].get("prefect-io_flow-run-id") == str(run.id)
        ]
        return sorted(ours, key=lambda job: job["create_time"])

    def ended_jobs(self, run: FlowRun) -> list[dict[str, Any]]:
        """The same, once all of them are over."""
        until(lambda: all(job["end_time"] for job in self.jobs(run)), f"{run.name}'s jobs are over")
        return self.jobs(run)

    def places(self, run: FlowRun) -> list[tuple[str, str]]:
        """Attempt and location of each of them."""
        return [
            (job["labels"]["prefect-vertex_attempt"], job["location"]) for job in self.jobs(run)
        ]

    def artifacts(self, run: FlowRun) -> list[Artifact]:
        """What the run has published, the newest first."""
        found: list[Artifact] = self.installation.client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id])),
            sort=ArtifactSort.CREATED_DESC,
        )
        return found

    def ledger(self, run: FlowRun) -> list[dict[str, str]]:
        """The rows of the run's ledger, empty while there is none."""
        key = f"vertex-capacity-{run.id}"
        newest = next((each for each in self.artifacts(run) if each.key == key), None)
        return list(json.loads(str(newest.data))) if newest else []

    def told(self, run: FlowRun) -> list[tuple[str, str]]:
        """Candidate and reason of each of those rows."""
        return [(row["candidate"], row["reason"]) for row in self.ledger(run)]


def _template() -> dict[str, Any]:
    path = share("work_pool_templates", "vertex-forecast.json")
    template: dict[str, Any] = json.loads(path.read_text())
    usual = {"image": IMAGE, "region": A, "cancel_grace_seconds": 2, "maximum_run_time_hours": 1}
    for variable, value in usual.items():
        template["variables"]["properties"][variable]["default"] = value
    return template


@contextmanager
def walking(installation: Installation) -> Iterator[Walks]:
    """Start a cloud beside the installation's own, so that its faults meet no other test."""
    stack, client = installation.stack, installation.client
    command = [sys.executable, "-m", "prefect_vertex.emulator", "--control-port", "0"]
    command += ["--replica-env", f"STORAGE_EMULATOR_HOST={stack.storage_url}"]
    emulator = installation.children.start("walk emulator", command, env=stack.env)
    # Beside what it may have to say of other things.
    printed = re.compile(r"^(127\.0\.0\.1:\d+)\n(http://\S+)\n", re.MULTILINE)
    emulator.wait_until(
        lambda: printed.search(emulator.output()) is not None, seconds=60, what="it served"
    )
    ((address, control),) = printed.findall(emulator.output())
    metric = "custom_model_training_cpus"
    limits = [QuotaLimit(metric=metric, limit=0, location=location) for location in NONE_ALLOWED]
    cloud = ControlClient(control)
    cloud.call("set_quotas", limits=[asdict(limit) for limit in limits], mode="reject")
    client.create_work_pool(
        WorkPoolCreate(name=POOL, type="vertex-custom-job", base_job_template=_template())
    )
    deployment = client.create_deployment(
        client.create_flow_from_name("walk"),
        "stub",
        work_pool_name=POOL,
        entrypoint="nowhere.py:main",  # the stub reads none
    )
    folder = installation.home / "walks"
    folder.mkdir()
    env = {
        **stack.env,
        "VERTEX_AI_EMULATOR_HOST": address,
        "CLOUD_LOGGING_EMULATOR_HOST": address,
        "CLOUD_QUOTAS_EMULATOR_HOST": address,
        "PREFECT_INTEGRATIONS_VERTEX_TICK_SECONDS": "1",
        "PREFECT_INTEGRATIONS_VERTEX_REQUEUE_GRACE_SECONDS": "0",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }
    walks = Walks(installation, cloud, env, folder, deployment)
    walks.start_worker()
    yield walks
    walks.kill_worker()
    installation.children.forget(emulator)
