"""Real clients on a real emulator, a CustomJob to change, and waiting without sleeping."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import grpc
import grpc.aio
import psutil
import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
    JobServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator import FAST, Emulator
from prefect_vertex.emulator.supervisor import MARKER_VARIABLE

PARENT = "projects/demo/locations/us-central1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def parent() -> str:
    return PARENT


@pytest.fixture
def quick() -> Any:
    """Every wait so short that a test does not notice it."""
    return dataclasses.replace(
        FAST,
        queued_seconds=0.01,
        provisioning_seconds=0.01,
        starting_seconds=0.01,
        cancelling_seconds=0.01,
        error_delay_seconds=0.01,
    )


@pytest.fixture
async def start_emulator(quick: Any) -> AsyncIterator[Callable[..., Any]]:
    """Start an emulator with other options than the usual; stopped after the test."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Emulator:
            return await stack.enter_async_context(Emulator(**{"timings": quick, **options}))

        yield start


@pytest.fixture
async def emulator(start_emulator: Callable[..., Any]) -> Emulator:
    started: Emulator = await start_emulator()
    return started


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[str], JobServiceAsyncClient]]:
    """Google's own asynchronous client for an address."""
    async with AsyncExitStack() as stack:

        def client(address: str) -> JobServiceAsyncClient:
            options = [("grpc.max_receive_message_length", -1)]
            channel = grpc.aio.insecure_channel(address, options=options)
            stack.push_async_callback(channel.close)
            return JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))

        yield client


@pytest.fixture
async def client(
    emulator: Emulator, connect: Callable[[str], JobServiceAsyncClient]
) -> JobServiceAsyncClient:
    return connect(emulator.address)


@pytest.fixture
def a_pool() -> Callable[..., dict[str, Any]]:
    """A worker pool spec of n1-standard-4, as a dictionary."""

    def build(*command: str, replica_count: int = 1, **container: Any) -> dict[str, Any]:
        return {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": replica_count,
            "container_spec": {"image_uri": "image", "command": list(command), **container},
        }

    return build


@pytest.fixture
def a_job(a_pool: Callable[..., dict[str, Any]]) -> Callable[..., CustomJob]:
    """A CustomJob of one pool that runs the command, or of the pools that are given."""

    def build(*command: str, pools: list[Any] | None = None, **fields: Any) -> CustomJob:
        spec = {"worker_pool_specs": pools or [a_pool(*command)], **fields.pop("job_spec", {})}
        return CustomJob(**{"display_name": "job", "job_spec": spec, **fields})

    return build


@pytest.fixture
def run_job(
    emulator: Emulator, client: JobServiceAsyncClient, a_job: Callable[..., CustomJob]
) -> Callable[..., Any]:
    """Create a job and wait for its end; returns the emulator's view of it."""

    async def run(*command: str, **fields: Any) -> Any:
        created = await client.create_custom_job(
            parent=PARENT, custom_job=a_job(*command, **fields)
        )
        job = emulator.job(created.name)
        await job.wait_for_end()
        return job

    return run


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Wait until a condition holds, or fail."""

    async def wait(condition: Callable[[], Any], seconds: float = 15) -> Any:
        with anyio.fail_after(seconds):
            while not (result := condition()):  # noqa: ASYNC110 - it is about processes and files
                await anyio.sleep(0.01)
        return result

    return wait


@pytest.fixture
def eventually_sync() -> Callable[..., Any]:
    """The same, outside of an event loop."""

    def wait(condition: Callable[[], Any], seconds: float = 15) -> Any:
        deadline = time.monotonic() + seconds
        while not (result := condition()):
            assert time.monotonic() < deadline, "the condition did not come to hold"
            time.sleep(0.01)
        return result

    return wait


@pytest.fixture
def marked() -> Callable[[str], list[int]]:
    """Living processes with that text in their marker, as psutil sees them."""

    def find(text: str) -> list[int]:
        found = []
        for process in psutil.process_iter(["pid", "status", "environ"]):
            marker = (process.info["environ"] or {}).get(MARKER_VARIABLE, "")
            if text in marker and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.info["pid"])
        return found

    return find


@pytest.fixture
def start_program(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a Python program with pipes; killed after the test if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # One that is killed leaves its files here, not in the machine's own directory.
            env={**os.environ, "PYTHONWARNINGS": "default", "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()
