"""Replicas that Vertex AI starts again by itself, as with `disable_retries: false`."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun

from prefect_vertex.replica.crew import Crew, Leaving
from prefect_vertex.replica.ending import Followers
from prefect_vertex.replica.membership import Membership

Prefect = Any  # the fixture's class; test modules cannot import a conftest

SECOND_TIME_LUCKY = """
import os, time
from pathlib import Path
from prefect import flow
from prefect_vertex import replica

@flow(log_prints=True)
def main():
    me, begun = replica.current(), Path(os.environ["BEGUN"])
    if not me.is_leader and not begun.exists():
        begun.touch()
        print("at work")
        time.sleep(600)
"""


def _members(leader: FlowRun, **fields: Any) -> list[Membership]:
    return [
        Membership(rank=rank, world_size=2, leader_id=str(leader.id), **fields) for rank in (0, 1)
    ]


def test_a_replica_that_vertex_ai_starts_again_by_itself_gets_another_run_for_a_crashed_one(
    prefect: Prefect,
) -> None:
    """As with `disable_retries: false`; the leader waits for the newest."""
    leader = prefect.leader()
    lead, follow = _members(leader, restarts=True)
    runs = []
    for _ in range(3):
        runs.append(Crew(follow).own_run(leader))
        Crew(follow).say_told(runs[-1].id)
        prefect.put(runs[-1].id, "CRASHED", "told to end")
        Crew(follow).say_left(Leaving(code=0, why="told to end", told=True))
    last = Crew(follow).own_run(leader)

    assert len({run.id for run in (*runs, last)}) == 4
    assert Crew(follow).own_run(leader).id == last.id
    assert Crew(lead).followers()[1].id == last.id
    assert Crew(lead).left() == {}
    assert Followers(lead).check() == {1}


@pytest.mark.parametrize(
    ("guard", "kind", "runs"),
    [("0", "CRASHED", 2), ("0", "FAILED", 1), ("0", "COMPLETED", 1), ("1", "CRASHED", 1)],
)
def test_only_a_crashed_run_is_followed_by_another_and_only_where_that_is_wanted(
    prefect: Prefect, guard: str, kind: str, runs: int
) -> None:
    leader = prefect.leader()
    (_, follow) = _members(leader, restarts=guard == "0")
    run = Crew(follow).own_run(leader)
    prefect.put(run.id, kind)

    assert len({run.id, Crew(follow).own_run(leader).id}) == runs


def test_a_follower_that_is_started_again_does_its_share_and_the_leader_completes(
    prefect: Prefect, wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    """Its first start was told to end; the leader's went on."""
    run = prefect.start(prefect.deploy(SECOND_TIME_LUCKY))
    env = {"PREFECT_VERTEX_GUARD": "0", "BEGUN": str(tmp_path / "begun")}
    leader, follower = (prefect.launch(run, rank, 2, **env) for rank in (0, 1))
    wait_until(lambda: "at work" in follower.output(), "its flow", 90)
    follower.process.send_signal(signal.SIGTERM)
    assert follower.process.wait(60) == 0

    again = prefect.launch(run, 1, 2, **env)
    codes = [child.process.wait(90) for child in (again, leader)]

    assert codes == [0, 0], [child.output()[-2000:] for child in (again, leader)]
    assert prefect.read(run.id).state.is_completed()
