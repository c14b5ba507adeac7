"""The launcher, by hand: real processes, a real Prefect server, and no emulator."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun

from prefect_vertex.replica.store import Folder

Prefect = Any  # the fixture's class; test modules cannot import a conftest


SHARED = """
from dataclasses import dataclass
from prefect import flow, task
from prefect.context import FlowRunContext
from prefect_vertex import replica

@dataclass
class Part:
    squares: list[int]

@task
def work(item: int) -> int:
    return item * item

@flow(log_prints=True, retries=1)
def main(items: list[int] = [3, 1, 2, 5, 4]):
    me = replica.current()
    squares = [work(item) for item in me.shard(items)]
    print("rank", me.rank, "squares", squares)
    me.progress(len(squares), len(squares))
    me.barrier("squared")
    run_count = FlowRunContext.get().flow_run.run_count
    parts = me.gather((run_count, Part(squares)), "parts")
    if me.is_leader:
        print("try", run_count, "gathered", parts)
        if run_count == 1:
            raise RuntimeError("the leader's first try")
"""

RETRIED = """
from prefect import flow, task
from prefect_vertex import replica

tries = []

def meet(name):
    me = replica.current()
    value = f"{name} of rank {me.rank}, try {tries.count(name) + 1}"
    tries.append(name)
    parts = me.gather(value, "parts")
    if me.is_leader and tries.count(name) == 1:
        raise RuntimeError("its first try")
    return parts

@task(retries=1)
def collect():
    return meet("task")

@flow(retries=1)
def sub():
    return collect_in("subflow")

@task
def collect_in(name):
    return meet(name)

@flow(log_prints=True)
def main():
    print("gathered", [collect(), collect.submit().result(), sub()])
    replica.current().barrier("end")
"""

ENDLESS = """
import time
from prefect import flow
from prefect_vertex import replica

@flow(log_prints=True)
def main():
    me = replica.current()
    if not me.is_leader:
        print("at work")
        time.sleep(600)
"""

MEETING = """
import time
from prefect import flow
from prefect_vertex import replica

@flow(log_prints=True)
def main():
    me = replica.current()
    if not me.is_leader:
        print("at work")
        time.sleep(600)
    me.barrier("worked")
"""


def _logs(prefect: Prefect, run_id: UUID) -> str:
    found = prefect.client.read_logs(
        log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])), limit=200
    )
    return "\n".join(log.message for log in found)


def _children(prefect: Prefect, leader: FlowRun) -> list[FlowRun]:
    answer = prefect.client.request(
        "POST",
        "/flow_runs/filter",
        json={"flow_runs": {"parent_flow_run_id": {"any_": [str(leader.id)]}}},
    )
    return [FlowRun.model_validate(each) for each in answer.json()]


def _progress(prefect: Prefect, run: FlowRun) -> list[str]:
    """Descriptions of the run's progress artifacts."""
    answer = prefect.client.request(
        "POST", "/artifacts/filter", json={"flow_runs": {"id": {"any_": [str(run.id)]}}}
    )
    return [each["description"] for each in answer.json() if each["type"] == "progress"]


def _objects(staging: str) -> list[str]:
    return sorted(Folder(staging).entries(""))


def test_two_replicas_share_the_work_and_a_retry_of_the_leader_gets_the_same_answers(
    prefect: Prefect, staging: str, wait_until: Callable[..., Any]
) -> None:
    """Both are in Prefect, and the meeting place is clean at the end."""
    run = prefect.start(prefect.deploy(SHARED))
    launched = [prefect.launch(run, rank, 2, PREFECT_VERTEX_STAGING=staging) for rank in (0, 1)]
    codes = [child.process.wait(120) for child in launched]
    ended = prefect.read(run.id)
    (follower,) = _children(prefect, run)
    gathered = "gathered [(1, Part(squares=[1, 4])), (1, Part(squares=[9, 16, 25]))]"
    logs = wait_until(
        lambda: (text := _logs(prefect, run.id)).count(gathered) == 2 and text,
        "the leader's log lines",
    )

    assert codes == [0, 0], [child.output()[-2000:] for child in launched]
    assert ended.state is not None
    assert ended.state.is_completed()
    assert follower.state is not None
    assert follower.state.is_completed()
    assert follower.name == f"{run.name}-r1"
    assert follower.deployment_id is None
    assert "rank 0 squares" in logs
    assert "rank 1 squares [9, 16, 25]" in _logs(prefect, follower.id)
    assert _progress(prefect, run) == ["replica 0: 2 of 2; replica 1: 3 of 3"]
    assert _objects(staging) == []


def test_tasks_and_subflows_that_the_leader_tries_again_get_the_same_answers(
    prefect: Prefect, staging: str, wait_until: Callable[..., Any]
) -> None:
    """The follower, which has nothing to try again, comes once for both tries."""
    run = prefect.start(prefect.deploy(RETRIED))
    launched = [prefect.launch(run, rank, 2, PREFECT_VERTEX_STAGING=staging) for rank in (0, 1)]
    codes = [child.process.wait(120) for child in launched]
    logs = wait_until(lambda: "gathered" in (text := _logs(prefect, run.id)) and text, "the log")

    assert codes == [0, 0], [child.output()[-2000:] for child in launched]
    assert prefect.read(run.id).state.is_completed()
    for name in ("task", "subflow"):
        assert f"['{name} of rank 0, try 1', '{name} of rank 1, try 1']" in logs
    assert "['task of rank 0, try 3', 'task of rank 1, try 2']" in logs


def test_a_follower_that_is_told_to_end_crashes_and_in_the_end_fails_the_leader(
    prefect: Prefect, wait_until: Callable[..., Any]
) -> None:
    """It is not rescheduled, its launcher exits 0, and the leader's message names rank and why."""
    run = prefect.start(prefect.deploy(ENDLESS))
    leader, follower = (
        prefect.launch(run, rank, 2, PREFECT_VERTEX_LOSS_SECONDS="2") for rank in (0, 1)
    )
    (child,) = wait_until(lambda: _children(prefect, run), "the follower's run")
    wait_until(lambda: "at work" in follower.output(), "its flow", 90)

    follower.process.send_signal(signal.SIGTERM)
    codes = [follower.process.wait(60), leader.process.wait(60)]
    states = [prefect.read(each.id).state for each in (child, run)]

    assert codes == [0, 0]
    assert [state.type.value for state in states] == ["CRASHED", "FAILED"]
    assert "Replica 1 of 2 was told to end (SIGTERM)" in states[0].message
    assert f"Replica 1 of 2 (flow run {run.name}-r1) ended Crashed" in states[1].message


@pytest.mark.parametrize("leader_is_at", ["its end", "a barrier"])
def test_a_follower_whose_machine_is_taken_away_leaves_the_leader_to_the_next_attempt(
    prefect: Prefect, staging: str, wait_until: Callable[..., Any], leader_is_at: str
) -> None:
    """It is told to end; Vertex AI ends the job a little later, and the leader's run goes back."""
    run = prefect.start(prefect.deploy(ENDLESS if leader_is_at == "its end" else MEETING))
    env = {"PREFECT_VERTEX_STAGING": staging} if leader_is_at == "a barrier" else {}
    leader, follower = (prefect.launch(run, rank, 2, **env) for rank in (0, 1))
    (child,) = wait_until(lambda: _children(prefect, run), "the follower's run")
    wait_until(lambda: "at work" in follower.output(), "its flow", 90)

    follower.process.send_signal(signal.SIGTERM)
    assert follower.process.wait(60) == 0
    wait_until(lambda: "1 of 2 was told to end" in leader.output(), "its notice", 90)
    leader.process.send_signal(signal.SIGTERM)
    code = leader.process.wait(60)
    states = [prefect.read(each.id).state for each in (child, run)]

    assert code == 0
    assert [state.type.value for state in states] == ["CRASHED", "SCHEDULED"]
