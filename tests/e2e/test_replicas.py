"""One flow run on several machines: real server, worker, emulator, storage and processes."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelling

import prefect_vertex

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

pytestmark = pytest.mark.timeout(400)

BUCKET = "e2e-bucket"
PATIENCE = 240.0
VARIABLES = {
    "staging_bucket": BUCKET,
    "env": {
        "PREFECT_VERTEX_HEARTBEAT_SECONDS": "1",
        "PREFECT_VERTEX_LOSS_SECONDS": "10",
        # As an image has it: the package under test, wherever it was imported from.
        "PYTHONPATH": str(Path(prefect_vertex.__file__).parents[1]),
    },
}

SCENARIOS = ("killed", "leader killed", "stopped", "cancelled")

SHARED = """
    import json
    from prefect import flow, task
    from prefect_vertex import replica

    @task
    def square(item):
        return item * item

    @flow(log_prints=True)
    def main(many: list[int] = list(range(10)), few: list[int] = [30, 10, 20]):
        me = replica.current()
        squares = []
        for item in me.shard(many):
            squares.append(square(item))
            me.progress(len(squares), len(me.shard(many)))
        me.barrier("after the squares")
        told = {"rank": me.rank, "squares": squares, "few": me.shard(few)}
        parts = me.gather(told, "parts")
        if me.is_leader:
            print("gathered", json.dumps(parts))
"""

HANGING = """
    import os, signal, time
    from prefect import flow
    from prefect_vertex import replica

    def die(*_):
        os.write(1, b"the last line\\n")
        os.kill(os.getpid(), signal.SIGKILL)

    @flow(log_prints=True)
    def main():
        me = replica.current()
        if not me.is_leader:
            # Told to, as what was written minutes before a death is not brought.
            signal.signal(signal.SIGUSR1, die)
            print("working")
            time.sleep(600)
        me.barrier("ready")
"""

PREEMPTED = """
    import os, time
    from prefect import flow
    from prefect_vertex import replica

    @flow(log_prints=True)
    def main():
        me, attempt = replica.current(), os.environ["PREFECT_VERTEX_ATTEMPT"]
        me.barrier("begun")
        if attempt == "1":
            print("working")
            time.sleep(600)
        print("gathered", me.gather((attempt, me.rank), "parts"))
"""

COMMAND = """
    import os, subprocess, sys
    from prefect import flow
    from prefect_vertex import replica

    @flow(log_prints=True)
    def main():
        print("gathered", replica.current().gather("leader", "words"))

    if __name__ == "__main__":
        if replica.current().is_leader:
            sys.exit(subprocess.call([sys.executable, "-m", "prefect", "flow-run", "execute"]))
        replica.current().gather("worker", "words")
"""


def _state(run: FlowRun) -> tuple[str, str]:
    assert run.state is not None
    return run.state.type.value, run.state.message or ""


def _followers(installation: Installation, leader: FlowRun) -> list[FlowRun]:
    parent = FlowRunFilterParentFlowRunId(any_=[leader.id])
    found: list[FlowRun] = installation.client.read_flow_runs(
        flow_run_filter=FlowRunFilter(parent_flow_run_id=parent)
    )
    return sorted(found, key=lambda run: run.name)


def _attempt(follower: FlowRun) -> int:
    return int(str(follower.labels["prefect-vertex.attempt"]))


def _until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while not (seen := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.2)
    return seen


def _processes(leader: FlowRun, rank: int) -> list[psutil.Process]:
    """A replica's processes, by what the platform and the launcher put into their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        ids = {environment.get("PREFECT__FLOW_RUN_ID")}
        ids.add(environment.get("PREFECT_VERTEX_LEADER_RUN_ID"))
        if str(leader.id) in ids and environment.get("PREFECT_VERTEX_RANK") == str(rank):
            found.append(process)
    return found


def _is_working(installation: Installation, leader: FlowRun) -> bool:
    return any("working" in installation.logs(run) for run in _followers(installation, leader))


def _engine(leader: FlowRun, rank: int) -> psutil.Process:
    (engine,) = [
        process
        for process in _processes(leader, rank)
        if "prefect_vertex.replica.engine" in process.cmdline()
    ]
    return engine


@pytest.fixture(scope="module")
def pool(installation: Installation) -> str:
    """A pool with a worker."""
    name: str = installation.pool("replicas")
    installation.worker(name)
    return name


@pytest.fixture(scope="module")
def hanging(installation: Installation, pool: str) -> Iterator[dict[str, FlowRun]]:
    """Runs of two replicas each: the leader at a barrier, the follower at work."""
    deployment = installation.deploy(pool, "hanging", HANGING, worker_count=2, **VARIABLES)
    runs = {name: installation.start(deployment) for name in SCENARIOS}
    for run in runs.values():
        _until(lambda leader=run: _is_working(installation, leader), "the follower's flow")  # type: ignore[misc]  # its default
    yield runs
    for run in runs.values():
        for process in _processes(run, 1):
            process.kill()


def test_four_replicas_share_the_work_and_all_of_them_are_in_prefect(
    installation: Installation, pool: str
) -> None:
    """Every item once, also where there are fewer items than replicas; nothing is left behind."""
    deployment = installation.deploy(pool, "shared", SHARED, worker_count=4, **VARIABLES)
    leader = installation.wait(installation.start(deployment), seconds=PATIENCE)
    followers = _followers(installation, leader)
    (job,) = installation.jobs(leader)
    logs = installation.logs_with(leader, "gathered")
    parts = json.loads(re.search(r"^gathered (.*)$", logs, re.MULTILINE)[1])  # type: ignore[index]

    assert _state(leader)[0] == "COMPLETED"
    assert [run.name for run in followers] == [f"{leader.name}-r{rank}" for rank in (1, 2, 3)]
    assert {_state(run)[0] for run in followers} == {"COMPLETED"}
    assert [part["rank"] for part in parts] == [0, 1, 2, 3]
    assert [each for part in parts for each in part["squares"]] == [n * n for n in range(10)]
    assert [each for part in parts for each in part["few"]] == [10, 20, 30]
    assert sorted(len(part["few"]) for part in parts) == [0, 1, 1, 1]
    assert sum(pool.replica_count for pool in job.job_spec.worker_pool_specs) == 4
    _until(
        lambda: not installation.stack.list_objects(BUCKET, f"replicas/{leader.id}"),
        "the meeting place to be cleaned up",
    )


def test_a_follower_s_process_that_is_killed_fails_the_leader_by_name(
    installation: Installation, hanging: dict[str, FlowRun]
) -> None:
    """The leader is Failed, and its message says which replica and why."""
    run = hanging["killed"]
    _engine(run, 1).send_signal(signal.SIGUSR1)
    kind, message = _state(installation.wait(run, seconds=PATIENCE))
    (follower,) = _followers(installation, run)

    assert kind == "FAILED"
    assert "Replica 1 of 2 left without coming to barrier 'ready'" in message
    assert "status code: -9" in message
    assert _state(follower)[0] == "CRASHED"
    # What it wrote and did not send is in both logs, once.
    for log in (run, follower):
        assert installation.logs_with(log, "the last line").count("the last line") == 1


def test_a_leader_that_is_killed_takes_its_follower_along(
    installation: Installation, hanging: dict[str, FlowRun]
) -> None:
    """The job fails, the run is Crashed with the replica's name, and no run stays Running."""
    run = hanging["leader killed"]
    for process in _processes(run, 0):
        process.kill()
    kind, message = _state(installation.wait(run, seconds=PATIENCE))
    follower = installation.wait(_followers(installation, run)[0], seconds=PATIENCE)

    assert kind == "CRASHED"
    assert "workerpool0-0" in message
    assert _state(follower)[0] == "CRASHED"


def test_a_replica_that_hangs_as_a_whole_fails_the_leader_s_barrier(
    installation: Installation, hanging: dict[str, FlowRun]
) -> None:
    """Its heartbeat stops; its run does not stay Running."""
    run = hanging["stopped"]
    for process in _processes(run, 1):
        process.send_signal(signal.SIGSTOP)
    kind, message = _state(installation.wait(run, seconds=PATIENCE))

    assert kind == "FAILED"
    assert "Replica 1 of 2 did not come to barrier 'ready': no sign of life for" in message
    _until(lambda: _state(_followers(installation, run)[0])[0] == "CRASHED", "the follower's end")


def test_cancelling_the_leader_cancels_the_followers(
    installation: Installation, hanging: dict[str, FlowRun]
) -> None:
    """All runs end Cancelled."""
    run = hanging["cancelled"]
    installation.client.set_flow_run_state(run.id, Cancelling())
    leader = installation.wait(run, seconds=PATIENCE)
    follower = installation.wait(_followers(installation, run)[0], seconds=PATIENCE)

    assert _state(leader)[0] == "CANCELLED"
    assert _state(follower)[0] == "CANCELLED"


@pytest.mark.linux
def test_an_attempt_after_a_preemption_begins_with_all_replicas_and_an_empty_meeting_place(
    installation: Installation, pool: str
) -> None:
    """What the first attempt left does not count, and no run of it stays without an end."""
    deployment = installation.deploy(pool, "preempted", PREEMPTED, worker_count=2, **VARIABLES)
    run = installation.start(deployment)
    _until(lambda: _is_working(installation, run), "the follower's flow")
    (launcher,) = [
        process
        for process in _processes(run, 0)
        if process.cmdline()[-2:] == ["-m", "prefect_vertex.replica"]
    ]
    launcher.send_signal(signal.SIGTERM)
    # Not by the run's end alone: it is no end that it was rescheduled.
    _until(lambda: len(installation.jobs(run)) > 1, "the second job")
    ended = installation.wait(run, seconds=PATIENCE)
    first, second = (
        installation.wait(each, seconds=PATIENCE)
        for each in sorted(_followers(installation, run), key=_attempt)
    )

    assert _state(ended)[0] == "COMPLETED"
    assert (_state(first)[0], _state(second)[0]) == ("CRASHED", "COMPLETED")
    installation.logs_with(run, "gathered [('2', 0), ('2', 1)]")
    _until(
        lambda: not installation.stack.list_objects(BUCKET, f"replicas/{run.id}"),
        "both attempts' meeting places to be cleaned up",
    )


def test_replicas_that_run_a_command_have_no_follower_runs_and_can_meet(
    installation: Installation, pool: str
) -> None:
    """`replicas: command`, for programs that bring their own way of working together."""
    deployment = installation.deploy(
        pool,
        "command",
        COMMAND,
        worker_count=2,
        replicas="command",
        command="python flow.py",
        **VARIABLES,
    )
    run = installation.wait(installation.start(deployment), seconds=PATIENCE)

    assert _state(run)[0] == "COMPLETED"
    assert _followers(installation, run) == []
    installation.logs_with(run, "gathered ['leader', 'worker']")
