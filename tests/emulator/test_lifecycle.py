"""From QUEUED to the end, on a clock of hundredths of a second."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator import Behaviour, Emulator, Timings

pytestmark = pytest.mark.anyio

Create = Callable[..., Any]


@pytest.fixture
def create(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    quick: Timings,
    parent: str,
) -> Create:
    """Start an emulator with changed timings or behaviour, create a job, return both sides."""

    async def build(
        *command: str, behaviour: Behaviour | None = None, fields: Any = None, **timings: Any
    ) -> tuple[Any, JobServiceAsyncClient]:
        emulator = await start_emulator(
            timings=dataclasses.replace(quick, **timings), behaviour=behaviour
        )
        client = connect(emulator.address)
        job = a_job(*command, **(fields or {}))
        created = await client.create_custom_job(parent=parent, custom_job=job)
        return emulator.job(created.name), client

    return build


@pytest.fixture
def gate(tmp_path: Path) -> Any:
    """A shell line that waits until the test calls `open`."""

    class Gate:
        line = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"

        def open(self) -> None:
            (tmp_path / "go").touch()

    return Gate()


def in_state(state: int) -> Callable[[CustomJob], bool]:
    return lambda job: job.state == state


async def test_states_come_in_order(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    seen: list[str] = []
    emulator = await start_emulator(echo=lambda source, line: seen.append(line))
    created = await connect(emulator.address).create_custom_job(
        parent=parent, custom_job=a_job("true", display_name="mine")
    )

    ended = await emulator.job(created.name).wait_for_end()

    states = ("QUEUED", "PENDING", "RUNNING", "SUCCEEDED")
    assert seen == [f"JOB_STATE_{state} mine" for state in states]
    assert ended.create_time <= ended.start_time <= ended.end_time == ended.update_time
    assert "error" not in ended


async def test_job_without_a_queue_is_created_pending(create: Create) -> None:
    job, _ = await create("true", queued_seconds=0, provisioning_seconds=60)

    assert job.state == JobState.JOB_STATE_PENDING


async def test_user_code_runs_before_the_job_is_running(
    create: Create, eventually: Callable[..., Any]
) -> None:
    job, _ = await create("sh", "-c", "echo up; sleep 60", starting_seconds=60)

    await eventually(lambda: job.output().stdout == "up\n")

    assert job.state == JobState.JOB_STATE_PENDING
    assert "start_time" not in job.resource


async def test_failure_names_replica_status_tail_and_logs(run_job: Callable[..., Any]) -> None:
    """The sentence is the documented one, with code 3."""
    job = await run_job("sh", "-c", "echo out; echo first >&2; echo last >&2; exit 7")

    error = job.resource.error
    assert job.state == JobState.JOB_STATE_FAILED
    assert error.code == 3
    assert error.message.startswith(
        "The replica workerpool0-0 exited with a non-zero status of 7. "
        "Termination reason: Error. \nfirst\nlast\n"
    )
    number, job_id = job.name.split("/")[1], job.name.split("/")[-1]
    assert error.message.endswith(
        "To find out more about why your job exited please check the logs: "
        f"https://console.cloud.google.com/logs/viewer?project={number}"
        f"&resource=ml_job%2Fjob_id%2F{job_id}&advancedFilter=resource.type%3D%22ml_job%22%0A"
        f"resource.labels.job_id%3D%22{job_id}%22"
    )


async def test_replica_killed_by_a_signal_has_its_status(run_job: Callable[..., Any]) -> None:
    job = await run_job("sh", "-c", "kill -SEGV $$$$")

    assert "with a non-zero status of 139." in job.resource.error.message


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (["no-such-program"], 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/such/program"], 'exec: "/no/such/program": no such file or directory'),
        ([], "the emulator has no images"),
    ],
)
async def test_container_that_cannot_start_fails_the_job(
    run_job: Callable[..., Any], command: list[str], cause: str
) -> None:
    job = await run_job(*command)

    message = job.resource.error.message
    assert job.state == JobState.JOB_STATE_FAILED
    assert job.resource.error.code == 3
    assert "exited with a non-zero status of 128. Termination reason: StartError. \n" in message
    assert cause in message
    assert "start_time" not in job.resource


async def test_program_not_found_by_a_shell_is_status_127(run_job: Callable[..., Any]) -> None:
    job = await run_job("sh", "-c", "no-such-program")

    assert "status of 127. Termination reason: Error." in job.resource.error.message


async def test_error_is_set_some_time_after_the_end(
    create: Create, eventually: Callable[..., Any]
) -> None:
    job, client = await create("false", error_delay_seconds=60)

    await job.wait_until(in_state(JobState.JOB_STATE_FAILED))

    read = await client.get_custom_job(name=job.name)
    assert read.state == JobState.JOB_STATE_FAILED
    assert "end_time" in read
    assert "error" not in read


@pytest.mark.parametrize(
    "timings", [{"queued_seconds": 60}, {"provisioning_seconds": 60}, {"starting_seconds": 60}, {}]
)
async def test_job_is_cancelled_in_any_live_state(
    create: Create, timings: dict[str, float], eventually: Callable[..., Any]
) -> None:
    job, client = await create("sh", "-c", "echo up; exec sleep 60", **timings)
    if "queued_seconds" not in timings and "provisioning_seconds" not in timings:
        await eventually(lambda: job.output().stdout)

    await client.cancel_custom_job(name=job.name)
    await client.cancel_custom_job(name=job.name)

    cancelled = await job.wait_for_end()
    assert cancelled.state == JobState.JOB_STATE_CANCELLED
    assert cancelled.error.code == 1
    assert "end_time" in cancelled


async def test_cancelling_is_visible(create: Create) -> None:
    job, client = await create("sleep", "60", cancelling_seconds=60)
    await job.wait_until(in_state(JobState.JOB_STATE_RUNNING))

    await client.cancel_custom_job(name=job.name)

    read = await client.get_custom_job(name=job.name)
    assert read.state == JobState.JOB_STATE_CANCELLING
    assert "end_time" not in read


async def test_job_that_has_already_ended_itself_stays_succeeded(
    create: Create,
    a_pool: Callable[..., dict[str, Any]],
    eventually: Callable[..., Any],
    gate: Any,
) -> None:
    """A cancel while the other replicas are taken down changes the state but not the end."""
    stubborn = "trap 'echo term' TERM; echo up; while :; do sleep 0.05; done"
    pools = [a_pool("sh", "-c", gate.line), a_pool("sh", "-c", stubborn)]
    job, client = await create(fields={"pools": pools}, termination_grace_seconds=1)
    await eventually(lambda: job.output("workerpool1-0").stdout == "up\n")
    gate.open()
    await eventually(lambda: "term" in job.output("workerpool1-0").stdout)

    await client.cancel_custom_job(name=job.name)

    assert job.state == JobState.JOB_STATE_CANCELLING
    assert (await job.wait_for_end()).state == JobState.JOB_STATE_SUCCEEDED


@pytest.mark.parametrize(
    ("choice", "state", "code"),
    [
        ("cancelled", JobState.JOB_STATE_CANCELLED, 1),
        ("failed", JobState.JOB_STATE_FAILED, 4),
    ],
)
async def test_timeout_ends_the_job(create: Create, choice: Any, state: int, code: int) -> None:
    fields = {"job_spec": {"scheduling": {"timeout": timedelta(seconds=0.2)}}}
    behaviour = Behaviour(at_timeout=choice)

    job, _ = await create("sleep", "60", behaviour=behaviour, fields=fields)

    ended = await job.wait_for_end()
    assert ended.state == state
    assert ended.error.code == code


async def test_follower_that_ends_well_does_not_end_the_job(
    create: Create,
    a_pool: Callable[..., dict[str, Any]],
    eventually: Callable[..., Any],
    marked: Callable[[str], list[int]],
    gate: Any,
) -> None:
    follower = a_pool("sh", "-c", "echo follower", replica_count=2)
    pools = [a_pool("sh", "-c", f"{gate.line}; echo primary"), follower]
    job, _ = await create(fields={"pools": pools})
    await eventually(lambda: job.output("workerpool1-1").stdout == "follower\n")
    await eventually(lambda: not marked(f"{job.record.name.job_id}/workerpool1-"))
    await job.wait_until(in_state(JobState.JOB_STATE_RUNNING))

    gate.open()

    assert (await job.wait_for_end()).state == JobState.JOB_STATE_SUCCEEDED
    assert job.output().stdout == "primary\n"
    assert job.replicas == ["workerpool0-0", "workerpool1-0", "workerpool1-1"]


async def test_follower_that_fails_fails_the_job(
    create: Create,
    a_pool: Callable[..., dict[str, Any]],
    eventually: Callable[..., Any],
    gate: Any,
) -> None:
    primary = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    follower = f"{gate.line}; [ $RANK = 2 ] && exit 9; sleep 60"
    pools = [a_pool("sh", "-c", primary), {}, a_pool("sh", "-c", follower, replica_count=2)]
    job, _ = await create(fields={"pools": pools})
    await eventually(lambda: job.output().stdout == "up\n")

    gate.open()

    ended = await job.wait_for_end()
    assert ended.state == JobState.JOB_STATE_FAILED
    assert ended.error.message.startswith("The replica workerpool2-1 exited with a non-zero")
    assert job.output().stdout == "up\nterm\n"


async def test_failure_while_others_are_not_there_yet_ends_the_job_unstarted(
    create: Create, a_pool: Callable[..., dict[str, Any]]
) -> None:
    pools = [a_pool("false"), a_pool("sleep", "60")]

    job, _ = await create(fields={"pools": pools}, replica_stagger_seconds=60)

    ended = await job.wait_for_end()
    assert ended.state == JobState.JOB_STATE_FAILED
    assert "start_time" not in ended


async def test_full_disk_is_an_internal_error(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    """What this machine cannot do does not leave a job waiting for ever."""
    created = await client.create_custom_job(parent=parent, custom_job=a_job("true"))
    job = emulator.job(created.name)
    job.directory.write_text("in the way")

    ended = await job.wait_for_end()

    assert ended.state == JobState.JOB_STATE_FAILED
    assert ended.error.code == 13


async def test_waiting_for_a_state_that_does_not_come_says_the_state(create: Create) -> None:
    job, _ = await create("true", queued_seconds=60)

    with pytest.raises(TimeoutError, match=r"JOB_STATE_QUEUED after 0\.01 s"):
        await job.wait_until(in_state(JobState.JOB_STATE_RUNNING), 0.01)
