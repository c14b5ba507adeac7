"""Two worlds of jobs that one suite is held against: in memory, and the emulator on a socket.

A `World` is a gateway, and what a test needs to bring a job somewhere without knowing how.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest
from google.cloud.aiplatform_v1 import types

from prefect_vertex.emulator import FAST, Emulator
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.testing import FakeJobGateway, ManualClock
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.gateway import JobGateway
from prefect_vertex.vertex.gateways import Gateways

TARGET = Target("demo-project", "us-central1")
DEADLINE_SECONDS = 20.0
PAUSE_SECONDS = 0.02

# Runs until its file appears, and exits with the status that stands in it.
_CONTAINER = """
import pathlib, sys, time
file = pathlib.Path(sys.argv[1])
while not file.exists():
    time.sleep(0.02)
sys.exit(int(file.read_text()))
"""


class World(Protocol):
    """A gateway, and hands on the jobs behind it."""

    gateway: JobGateway

    def command(self, display_name: str) -> list[str]:
        """What the container of a job runs, so that `end` can end it."""
        ...

    async def run(self, name: ResourceName) -> None:
        """Bring a new job to RUNNING."""
        ...

    async def end(self, job: JobSnapshot, exit_status: int = 0) -> None:
        """Let a job's container exit, and the job end."""
        ...

    async def confirm_cancel(self, name: ResourceName) -> None:
        """Let a job that was asked to end do so."""
        ...


class FakeWorld:
    """Jobs in memory: every step is the test's."""

    def __init__(self) -> None:
        self.fake = FakeJobGateway(TARGET, clock=ManualClock())
        self.gateway: JobGateway = self.fake

    def command(self, display_name: str) -> list[str]:
        return ["true"]

    async def run(self, name: ResourceName) -> None:
        self.fake.advance(name, "JOB_STATE_RUNNING")

    async def end(self, job: JobSnapshot, exit_status: int = 0) -> None:
        state = "JOB_STATE_FAILED" if exit_status else "JOB_STATE_SUCCEEDED"
        self.fake.advance(job.resource_name, state)

    async def confirm_cancel(self, name: ResourceName) -> None:
        self.fake.advance(name, "JOB_STATE_CANCELLED")


class EmulatorWorld:
    """Jobs that run: the test waits until they are where it wants them."""

    def __init__(self, gateway: JobGateway, folder: Path) -> None:
        self.gateway = gateway
        self._folder = folder

    def command(self, display_name: str) -> list[str]:
        return [sys.executable, "-c", _CONTAINER, str(self._folder / display_name)]

    async def run(self, name: ResourceName) -> None:
        await self._until(name, lambda phase: phase is JobPhase.RUNNING)

    async def end(self, job: JobSnapshot, exit_status: int = 0) -> None:
        file = self._folder / job.display_name
        # Renamed into place: the container must not read it half written.
        draft = file.with_suffix(".draft")
        draft.write_text(str(exit_status))
        draft.rename(file)
        await self._until(job.resource_name, lambda phase: phase.is_terminal)

    async def confirm_cancel(self, name: ResourceName) -> None:
        await self._until(name, lambda phase: phase.is_terminal)

    async def _until(self, name: ResourceName, reached: Callable[[JobPhase], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not reached((seen := await self.gateway.describe(name)).phase):
            assert time.monotonic() < deadline, f"still {seen.state}"
            await anyio.sleep(PAUSE_SECONDS)


@pytest.fixture(params=["fake", "emulator"])
async def world(request: Any, tmp_path: Path) -> AsyncIterator[World]:
    """One of the two worlds."""
    if request.param == "fake":
        yield FakeWorld()
        return
    quick = dataclasses.replace(
        FAST,
        queued_seconds=0.01,
        provisioning_seconds=0.01,
        starting_seconds=0.01,
        cancelling_seconds=0.01,
        error_delay_seconds=0.01,
    )
    async with Emulator(timings=quick) as emulator:
        gateways = Gateways(
            submissions_per_minute=math.inf,
            reads_per_minute=math.inf,
            environ={EMULATOR_VARIABLE: emulator.address},
        )
        yield EmulatorWorld(gateways.for_target(TARGET), tmp_path)
        await gateways.aclose()


@pytest.fixture
def a_request(world: World) -> Callable[..., types.CreateCustomJobRequest]:
    """Build the request for one attempt of a flow run in a pool."""

    def build(
        display_name: str = "job",
        *,
        flow_run_id: str = "run",
        work_pool_id: str = "pool",
        attempt: int = 1,
        **fields: Any,
    ) -> types.CreateCustomJobRequest:
        pool = {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "container_spec": {"image_uri": "image", "command": world.command(display_name)},
        }
        job = {
            "display_name": display_name,
            "job_spec": {"worker_pool_specs": [pool]},
            "labels": {
                "prefect-io_flow-run-id": flow_run_id,
                "prefect-io_work-pool-id": work_pool_id,
                "prefect-vertex_attempt": str(attempt),
            },
            **fields,
        }
        return types.CreateCustomJobRequest(parent=TARGET.parent, custom_job=job)

    return build
