"""What the script does to jobs: stockouts, restarts, errors of Vertex's own, preemptions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator import (
    Behaviour,
    Emulator,
    ErrorDelay,
    InternalError,
    OutOfMemory,
    Preemption,
    Restart,
    Stockout,
    Timings,
)

pytestmark = pytest.mark.anyio

STOCKOUT = (
    "Resources are insufficient in region: us-central1. "
    "Try a different region or use a different accelerator."
)
INTERNAL = "Internal error occurred for the current attempt"
SPOT = {"scheduling": {"strategy": "SPOT"}}
NO_RETRIES = {"scheduling": {"disable_retries": True}}
RESTART_ALL = {"scheduling": {"restart_job_on_worker_restart": True}}


class Scene:
    """An emulator with its script, its console and its jobs."""

    def __init__(self, emulator: Emulator, client: Any, a_job: Any, console: list[str]) -> None:
        self.emulator = emulator
        self.script = emulator.faults
        self._client = client
        self._a_job = a_job
        self._console = console

    async def create(
        self, *command: str, parent: str = "projects/demo/locations/us-central1", **fields: Any
    ) -> Any:
        created = await self._client.create_custom_job(
            parent=parent, custom_job=self._a_job(*command, **fields)
        )
        return self.emulator.job(created.name)

    async def cancel(self, job: Any) -> None:
        await self._client.cancel_custom_job(name=job.name)

    def states(self) -> list[str]:
        """Every state that was entered, in order, without its prefix."""
        lines = [line for line in self._console if line.startswith("JOB_STATE_")]
        return [line.split()[0].removeprefix("JOB_STATE_") for line in lines]


@pytest.fixture
def stage(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    quick: Timings,
) -> Callable[..., Any]:
    """Start an emulator with changed timings."""

    async def build(behaviour: Behaviour | None = None, **timings: Any) -> Scene:
        console: list[str] = []
        emulator = await start_emulator(
            timings=dataclasses.replace(quick, **timings),
            behaviour=behaviour,
            echo=lambda _source, line: console.append(line),
        )
        return Scene(emulator, connect(emulator.address), a_job, console)

    return build


@pytest.fixture
async def scene(stage: Callable[..., Any]) -> Scene:
    staged: Scene = await stage()
    return staged


def in_state(state: str) -> Callable[[CustomJob], bool]:
    return lambda job: job.state == JobState.__members__[f"JOB_STATE_{state}"]


# --- stockout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [8, 14])
async def test_stockout_leaves_the_job_pending_and_then_fails_it(scene: Scene, code: int) -> None:
    scene.script.add(Stockout(after_seconds=0.01, code=code))

    job = await scene.create("sh", "-c", "echo up")
    ended = await job.wait_for_end()

    assert scene.states() == ["QUEUED", "PENDING", "FAILED"]
    assert (ended.error.code, ended.error.message) == (code, STOCKOUT)
    assert "start_time" not in ended
    assert job.starts == []
    scene.script.assert_all_used()


async def test_stockout_lasts_as_long_as_the_clock_says(stage: Any) -> None:
    scene = await stage(stockout_seconds=600)
    scene.script.add(Stockout())

    job = await scene.create("true")
    await job.wait_until(in_state("PENDING"))
    await scene.cancel(job)

    assert (await job.wait_for_end()).state == JobState.JOB_STATE_CANCELLED


async def test_stockout_after_the_first_replica_has_run_user_code(
    stage: Any, a_pool: Callable[..., dict[str, Any]], eventually: Any
) -> None:
    """The job was never RUNNING, and yet something ran."""
    scene = await stage(stockout_seconds=600)
    scene.script.add(Stockout(started_replicas=1), Stockout(started_replicas=9, after_seconds=0.01))
    pools = [a_pool("sh", "-c", "echo up; sleep 60"), a_pool("true", replica_count=2)]

    job = await scene.create(pools=pools)
    await eventually(lambda: job.output().stdout == "up\n")
    other = await scene.create(pools=pools)
    ended = await other.wait_for_end()

    assert job.state == JobState.JOB_STATE_PENDING
    assert [replica.name for replica in job.starts] == ["workerpool0-0"]
    assert [replica.name for replica in other.starts] == ["workerpool0-0", "workerpool1-0"]
    assert ended.error.message == STOCKOUT
    assert "start_time" not in ended


async def test_conditions_choose_the_job(scene: Scene) -> None:
    """Location, machine, strategy and labels must all fit."""
    fitting = Stockout(
        after_seconds=0,
        location="europe-west4",
        machine_type="n1-standard-4",
        strategy="SPOT",
        labels={"team": "a"},
    )
    abroad = "projects/demo/locations/europe-west4"
    others: list[dict[str, Any]] = [
        {"parent": abroad, "job_spec": SPOT},
        {"parent": abroad, "labels": {"team": "a"}},
        {"job_spec": SPOT, "labels": {"team": "a"}},
    ]
    scene.script.add(fitting)

    for fields in others:
        job = await scene.create("true", **fields)
        assert (await job.wait_for_end()).state == JobState.JOB_STATE_SUCCEEDED
    labels = {"team": "a", "more": "b"}
    job = await scene.create("true", parent=abroad, job_spec=SPOT, labels=labels)

    assert (await job.wait_for_end()).state == JobState.JOB_STATE_FAILED
    scene.script.assert_all_used()


# --- restarts -------------------------------------------------------------------------------------

REPORT = """
import os, pathlib, sys, time
here = pathlib.Path("left")
env = {k: v for k, v in os.environ.items()}
print(os.environ["HOSTNAME"], os.getcwd(), hash(tuple(sorted(env.items()))), here.exists())
for folder in (".", os.environ["HOME"], os.environ["TMPDIR"]):
    pathlib.Path(folder, "left").touch()
sys.stdout.flush()
"""


async def test_restarted_container_has_the_same_environment_and_an_empty_file_system(
    scene: Scene, eventually: Any
) -> None:
    code = f"{REPORT}\ntime.sleep(60)"
    env = [{"name": "PYTHONHASHSEED", "value": "1"}]
    job = await scene.create(pools=[a_python_pool(code, env)])
    await eventually(lambda: job.output().stdout.count("\n") == 1)

    scene.script.add(Restart(job=job.name, after_seconds=0))
    await eventually(lambda: job.output().stdout.count("\n") == 2)

    first, second = job.output().stdout.splitlines()
    assert first == second
    assert first.endswith("False")
    assert job.state == JobState.JOB_STATE_RUNNING
    assert [replica.ended.done() for replica in job.starts] == [True, False]
    assert job.starts[0].ended.result().status == 137
    assert scene.states().count("RUNNING") == 1
    scene.script.assert_all_used()


async def test_container_is_restarted_on_its_exit_status(scene: Scene, tmp_path: Any) -> None:
    """Its second start ends the job; the error quotes that start alone."""
    marker = tmp_path / "second"
    code = f"if [ -e {marker} ]; then echo again >&2; exit 75; fi; touch {marker}; echo first >&2"
    scene.script.add(Restart(on_exit_status=139, pause_seconds=0.01))

    job = await scene.create("sh", "-c", f"{code}; exit 139")
    ended = await job.wait_for_end()

    assert "non-zero status of 75. Termination reason: Error. \nagain\n\n" in ended.error.message
    assert job.output().stderr == "first\nagain\n"
    assert [replica.ended.result().status for replica in job.starts] == [139, 75]
    scene.script.assert_all_used()


async def test_restart_on_a_status_that_does_not_come_is_not_used(scene: Scene) -> None:
    scene.script.add(Restart(on_exit_status=139))

    job = await scene.create("sh", "-c", "exit 1")
    await job.wait_for_end()

    assert len(job.starts) == 1
    with pytest.raises(AssertionError, match="on_exit_status=139"):
        scene.script.assert_all_used()


async def test_container_that_cannot_start_is_not_restarted(scene: Scene) -> None:
    scene.script.add(Restart(on_exit_status=128, times=0))

    job = await scene.create("no-such-program")

    assert "StartError" in (await job.wait_for_end()).error.message


async def test_restart_with_grace_lets_the_container_end_itself(
    scene: Scene, eventually: Any
) -> None:
    line = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    job = await scene.create("sh", "-c", line)
    await eventually(lambda: job.output().stdout == "up\n")

    scene.script.add(Restart(after_seconds=0, grace_seconds=10))
    await eventually(lambda: job.output().stdout == "up\nterm\nup\n")

    await job.wait_until(in_state("RUNNING"))
    assert job.starts[0].ended.result().status == 0


@pytest.mark.parametrize(
    ("job_spec", "restarted"),
    [
        ({}, ["workerpool1-0"]),
        (RESTART_ALL, ["workerpool0-0", "workerpool1-0"]),
        ({"scheduling": RESTART_ALL["scheduling"] | NO_RETRIES["scheduling"]}, ["workerpool1-0"]),
    ],
)
async def test_restart_of_one_replica_restarts_all_where_the_spec_says_so(
    scene: Scene,
    a_pool: Callable[..., dict[str, Any]],
    eventually: Any,
    job_spec: dict[str, Any],
    restarted: list[str],
) -> None:
    pools = [a_pool("sleep", "60"), a_pool("sleep", "60")]
    job = await scene.create(pools=pools, job_spec=job_spec)
    await job.wait_until(in_state("RUNNING"))

    scene.script.add(Restart(replica="workerpool1-0", after_seconds=0))
    await eventually(lambda: len(job.starts) == 2 + len(restarted))

    assert [replica.name for replica in job.starts[2:]] == restarted


async def test_restart_before_running_leaves_replicas_to_come_alone(
    stage: Any, a_pool: Callable[..., dict[str, Any]], eventually: Any
) -> None:
    scene = await stage(replica_stagger_seconds=0.6)
    scene.script.add(Restart(after_seconds=0))
    pools = [a_pool("sleep", "60"), a_pool("sleep", "60")]

    job = await scene.create(pools=pools, job_spec=RESTART_ALL)
    await job.wait_until(in_state("RUNNING"))

    names = [replica.name for replica in job.starts]
    assert names == ["workerpool0-0", "workerpool0-0", "workerpool1-0"]


async def test_cancel_while_a_container_is_restarted_starts_nothing_more(
    scene: Scene, eventually: Any
) -> None:
    job = await scene.create("sleep", "60")
    await job.wait_until(in_state("RUNNING"))
    scene.script.add(Restart(after_seconds=0, pause_seconds=0.3))
    await eventually(job.starts[0].ended.done)

    await scene.cancel(job)

    assert (await job.wait_for_end()).state == JobState.JOB_STATE_CANCELLED
    assert len(job.starts) == 1


async def test_stop_of_the_emulator_ends_a_restart(
    scene: Scene, eventually: Any, marked: Callable[[str], list[int]]
) -> None:
    job = await scene.create("sleep", "60")
    await job.wait_until(in_state("RUNNING"))
    scene.script.add(Restart(after_seconds=0, pause_seconds=600))
    await eventually(job.starts[0].ended.done)

    await scene.emulator.stop()

    assert not marked(scene.emulator.marker)


def test_restart_needs_one_reason() -> None:
    for fields in ({}, {"after_seconds": 1.0, "on_exit_status": 1}):
        with pytest.raises(ValueError, match="one of after_seconds and on_exit_status"):
            Restart(**fields)  # type: ignore[arg-type]  # no field is both


# --- the rest -------------------------------------------------------------------------------------


async def test_out_of_memory_has_the_documented_sentence(
    scene: Scene, a_pool: Callable[..., dict[str, Any]]
) -> None:
    """The replica is killed; the others are asked to end."""
    primary = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    pools = [a_pool("sh", "-c", primary), a_pool("sleep", "60")]
    scene.script.add(OutOfMemory(replica="workerpool1-0", after_seconds=0.3))

    job = await scene.create(pools=pools)
    ended = await job.wait_for_end()

    assert ended.error.code == 3
    assert ended.error.message == (
        "The replica workerpool1-0 ran out of memory and exited with a non-zero status of 137."
    )
    assert job.output().stdout == "up\nterm\n"


async def test_internal_error_sends_the_job_back_to_pending(
    scene: Scene, eventually: Any, tmp_path: Any
) -> None:
    """Whoever reads it then sees PENDING with a start time."""
    scene.script.add(InternalError())
    gate = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"

    job = await scene.create("sh", "-c", f"echo up; {gate}")
    await eventually(lambda: job.output().stdout.count("up") == 2)
    (tmp_path / "go").touch()
    ended = await job.wait_for_end()

    assert scene.states() == ["QUEUED", "PENDING", "RUNNING", "PENDING", "RUNNING", "SUCCEEDED"]
    assert len(job.starts) == 2
    assert "error" not in ended
    scene.script.assert_all_used()


@pytest.mark.parametrize(("job_spec", "times", "starts"), [({}, 3, 3), (NO_RETRIES, 1, 1)])
async def test_internal_error_in_the_last_attempt_fails_the_job(
    scene: Scene, job_spec: dict[str, Any], times: int, starts: int
) -> None:
    scene.script.add(InternalError(times=times))

    job = await scene.create("sleep", "60", job_spec=job_spec)
    ended = await job.wait_for_end()

    assert (ended.error.code, ended.error.message) == (13, INTERNAL)
    assert len(job.starts) == starts
    scene.script.assert_all_used()


async def test_cancel_between_two_attempts_ends_the_job(stage: Any) -> None:
    scene = await stage(provisioning_seconds=0.3)
    scene.script.add(InternalError())
    job = await scene.create("sleep", "60")
    await job.wait_until(lambda r: "start_time" in r and in_state("PENDING")(r))

    await scene.cancel(job)

    assert (await job.wait_for_end()).state == JobState.JOB_STATE_CANCELLED
    assert scene.states()[-3:] == ["PENDING", "CANCELLING", "CANCELLED"]
    assert len(job.starts) == 1


async def test_preempted_spot_job_gets_sigterm_and_fails_as_a_stockout(
    scene: Scene, eventually: Any
) -> None:
    """Another strategy is never preempted."""
    line = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    standard = await scene.create("sh", "-c", line)
    spot = await scene.create("sh", "-c", line, job_spec=SPOT)
    await eventually(lambda: spot.output().stdout and standard.output().stdout)

    scene.script.add(Preemption(grace_seconds=10))
    ended = await spot.wait_for_end()

    assert (ended.error.code, ended.error.message) == (8, STOCKOUT)
    assert spot.output().stdout == "up\nterm\n"
    assert "start_time" in ended
    assert standard.state == JobState.JOB_STATE_RUNNING


async def test_preempted_job_that_ignores_sigterm_is_killed_after_the_grace(
    scene: Scene, eventually: Any
) -> None:
    line = "trap 'echo term' TERM; echo up; while :; do sleep 0.02; done"
    job = await scene.create("sh", "-c", line, job_spec=SPOT)
    await eventually(lambda: job.output().stdout)

    scene.script.add(Preemption(grace_seconds=0.3))

    assert (await job.wait_for_end()).state == JobState.JOB_STATE_FAILED
    assert job.output().stdout == "up\nterm\n"
    assert job.starts[0].ended.result().status == 137


async def test_preempted_job_is_restarted_where_that_is_the_choice(stage: Any) -> None:
    """Six times; the seventh preemption is one too many."""
    scene = await stage(behaviour=Behaviour(restart_preempted=True))
    scene.script.add(Preemption(times=7, grace_seconds=0))

    job = await scene.create("sleep", "60", job_spec=SPOT)
    ended = await job.wait_for_end()

    assert ended.error.message == STOCKOUT
    assert len(job.starts) == 7
    scene.script.assert_all_used()


async def test_error_comes_late_or_never(stage: Any) -> None:
    scene = await stage(error_delay_seconds=600)
    scene.script.add(ErrorDelay(seconds=0.01), ErrorDelay())

    late = await scene.create("false")
    assert (await late.wait_for_end()).error.code == 3
    never = await scene.create("false")
    await never.wait_until(in_state("FAILED"))

    assert "error" not in never.resource
    scene.script.assert_all_used()


async def test_error_that_the_clock_never_sets_keeps_no_emulator_from_stopping(stage: Any) -> None:
    scene = await stage(error_delay_seconds=math.inf)
    job = await scene.create("false")
    await job.wait_until(in_state("FAILED"))

    assert "error" not in job.resource
    await scene.emulator.stop()


async def test_timeout_counts_over_attempts(stage: Any) -> None:
    """A job that is started again does not get its whole time again."""
    scene = await stage()
    scene.script.add(InternalError(after_seconds=0.3))
    spec = {"scheduling": {"timeout": {"seconds": 1}}}

    job = await scene.create("sleep", "60", job_spec=spec)
    ended = await job.wait_for_end()

    assert ended.state == JobState.JOB_STATE_CANCELLED
    assert len(job.starts) == 2


def a_python_pool(code: str, env: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "image", "command": ["python3", "-c", code], "env": env},
    }
