"""Whatever ends a replica, no process of it is left.

The user code here is as bad as it gets: it ignores SIGTERM, starts a session of its own, forks
twice, and runs one program without any environment.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator import Emulator, Timings
from prefect_vertex.emulator.supervisor import MARKER_VARIABLE

pytestmark = pytest.mark.anyio

DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for clear_environment in (False, True):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
            os.execve(sys.executable, sleep, {} if clear_environment else os.environ)
        os._exit(0)
    os.wait()
"""
WAIT = "\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
def quick(quick: Timings) -> Timings:
    """A grace that the code here lets pass."""
    return dataclasses.replace(
        quick, termination_grace_seconds=0.1, shutdown_grace_seconds=0.1, error_delay_seconds=0
    )


@pytest.fixture
async def daemons(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    eventually: Callable[..., Any],
    parent: str,
) -> tuple[Any, list[int]]:
    """A running job with two daemons, and the daemons' process ids."""
    created = await client.create_custom_job(
        parent=parent, custom_job=a_job("python3", "-c", DAEMON + WAIT)
    )
    job = emulator.job(created.name)
    await eventually(lambda: job.output().stdout.count("\n") == 2)
    await job.wait_until(lambda resource: resource.state == JobState.JOB_STATE_RUNNING)
    pids = [int(line) for line in job.output().stdout.split()]
    assert all(map(psutil.pid_exists, pids))
    return job, pids


@pytest.fixture
def are_gone(marked: Callable[[str], list[int]], emulator: Emulator) -> Callable[..., bool]:
    """Whether nothing carries the emulator's marker and none of these processes lives.

    Off Linux a daemon that has left its parents and its environment cannot be told from others.
    """

    def check(pids: list[int]) -> bool:
        held = pids if sys.platform == "linux" else pids[:1]
        return not marked(emulator.marker) and not any(map(psutil.pid_exists, held))

    return check


async def test_cancel_leaves_no_process(
    client: JobServiceAsyncClient,
    daemons: tuple[Any, list[int]],
    are_gone: Callable[..., bool],
) -> None:
    job, pids = daemons

    await client.cancel_custom_job(name=job.name)
    await job.wait_for_end()

    assert job.state == JobState.JOB_STATE_CANCELLED
    assert are_gone(pids)


async def test_stop_of_the_emulator_leaves_no_process_and_no_file(
    emulator: Emulator, daemons: tuple[Any, list[int]], are_gone: Callable[..., bool]
) -> None:
    job, pids = daemons

    await emulator.stop()

    assert are_gone(pids)
    assert not job.directory.parent.exists()


async def test_death_of_the_first_process_takes_the_replica_with_it(
    daemons: tuple[Any, list[int]], marked: Callable[[str], list[int]], are_gone: Any
) -> None:
    job, pids = daemons
    [first] = [
        process.pid
        for process in map(psutil.Process, marked(job.record.name.job_id))
        if DAEMON + WAIT in process.cmdline()
    ]

    os.kill(first, signal.SIGKILL)
    ended = await job.wait_for_end()

    assert "non-zero status of 137" in ended.error.message
    assert are_gone(pids)


async def test_end_of_the_primary_leaves_no_process(
    run_job: Callable[..., Any],
    a_pool: Callable[..., dict[str, Any]],
    are_gone: Callable[..., bool],
) -> None:
    """Neither of its own nor of a follower that ignores SIGTERM."""
    follower = a_pool("python3", "-c", DAEMON + WAIT)
    primary = a_pool("python3", "-c", DAEMON + "\nos._exit(0)\n")

    job = await run_job(pools=[primary, follower])

    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert are_gone([int(line) for line in job.output().stdout.split()])


async def test_killed_supervisor_is_a_failed_replica_without_survivors(
    daemons: tuple[Any, list[int]], marked: Callable[[str], list[int]], emulator: Emulator
) -> None:
    """Then only the marker tells what belonged to the replica, and one daemon has none."""
    job, pids = daemons
    [supervisor] = [
        process.pid
        for process in map(psutil.Process, marked(job.record.name.job_id))
        if process.cmdline()[-1].endswith("supervisor.py")
    ]

    os.kill(supervisor, signal.SIGKILL)
    ended = await job.wait_for_end()
    os.kill(pids[1], signal.SIGKILL)

    assert "non-zero status of 137" in ended.error.message
    assert not marked(emulator.marker)


async def test_sigterm_goes_to_the_first_process_alone(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    eventually: Callable[..., Any],
    parent: str,
) -> None:
    child = "trap 'echo child' TERM; echo up; while :; do sleep 0.02; done"
    first = f"""trap 'echo first; sleep 0.05; exit 0' TERM; sh -c "{child}" & wait; wait"""
    created = await client.create_custom_job(parent=parent, custom_job=a_job("sh", "-c", first))
    job = emulator.job(created.name)
    await eventually(lambda: job.output().stdout == "up\n")

    await client.cancel_custom_job(name=job.name)
    await job.wait_for_end()

    assert job.output().stdout == "up\nfirst\n"


async def test_marker_of_one_replica_is_not_the_start_of_anothers(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    a_pool: Callable[..., dict[str, Any]],
    eventually: Callable[..., Any],
    parent: str,
) -> None:
    pools = [a_pool("sleep", "60"), a_pool("sh", "-c", f"echo ${MARKER_VARIABLE}; sleep 60",
                                           replica_count=11)]  # fmt: skip
    created = await client.create_custom_job(parent=parent, custom_job=a_job(pools=pools))
    job = emulator.job(created.name)
    await eventually(lambda: len(job.replicas) == 12 and job.output("workerpool1-10").stdout)

    first, last = (job.output(f"workerpool1-{index}").stdout.strip() for index in (1, 10))
    assert not last.startswith(first)
