"""Replicas that come to different places, or not at all: who notices, and what it says."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.posts import Post, Posts, describe, names, standstill

Members = Callable[..., list[Membership]]

NOW = datetime(2026, 1, 1, tzinfo=UTC)

PROCESS = """
import sys
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership
rank, run_id, staging, *names = sys.argv[1:]
member = Membership(
    rank=int(rank), world_size=2, leader_id=run_id, staging=staging, heartbeat_seconds=0.2
)
meeting = Meeting(member)
try:
    for name in names:
        meeting.barrier(name)
except Exception as error:
    print(error)
    meeting.say_alive(left=str(error))
"""


def _start(member: Membership, *names: str) -> subprocess.Popen[str]:
    words = [str(member.rank), member.leader_id, member.staging, *names]
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, *words], stdout=subprocess.PIPE, text=True
    )


def test_replicas_that_wait_for_each_other_in_another_order_are_told_both_places(
    members: Members,
) -> None:
    """Nobody else would ever notice: all of them are alive."""
    leader, follower = members(2)
    processes = [_start(leader, "a", "b"), _start(follower, "b", "a")]
    said = [process.communicate(timeout=60)[0] for process in processes]

    # The second may see it itself, or that the first has left for that reason.
    for text in said:
        assert "No replica can go on: replica 0 at barrier 'a', replica 1 at barrier 'b'" in text
        assert "in the same order" in text


def _post(rank: int, place: str, thread: str = "main", seconds: float = 0) -> Post:
    since = NOW + timedelta(seconds=seconds)
    return Post(rank=rank, thread=thread, place=place, what=place.upper(), since=since)


@pytest.mark.parametrize(
    ("looks", "missing"),
    [
        pytest.param([[_post(0, "a")]], {"a": {1}}, id="one is at work"),
        pytest.param([[_post(0, "a"), _post(1, "a")]], {"a": {2}}, id="all at one place"),
        pytest.param(
            [[_post(0, "a"), _post(1, "b")]], {"a": {1}, "b": set()}, id="one goes on in a moment"
        ),
        pytest.param(
            [[_post(0, "a"), _post(1, "b", "4711")]], {"a": {1}, "b": {0}}, id="another thread"
        ),
        pytest.param(
            [[_post(0, "a"), _post(1, "b")], [_post(0, "a"), _post(1, "b", seconds=3)]],
            {"a": {1}, "b": {0}},
            id="one has moved meanwhile",
        ),
    ],
)
def test_nothing_stands_still_while_anyone_may_go_on(
    looks: list[list[Post]], missing: dict[str, set[int]]
) -> None:
    remaining = iter([*looks, looks[-1]])

    assert standstill(lambda: next(remaining), missing.__getitem__, 2) == ""


def test_a_standstill_names_each_place_with_its_replicas() -> None:
    posts = [_post(2, "b"), _post(0, "a"), _post(1, "b")]
    missing = {"a": {1, 2}, "b": {0}}

    assert standstill(lambda: posts, missing.__getitem__, 3) == "replica 0 at A, replicas 1, 2 at B"


def test_many_replicas_are_counted_and_not_all_named() -> None:
    assert names(range(64)) == "replicas 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 54 more"
    assert describe([_post(3, "a"), _post(3, "a", "4711")]) == "replica 3 at A"


def test_a_barrier_that_the_leader_s_function_has_not_come_to_fails_when_it_has_ended(
    members: Members, beating: Callable[[Membership], None], doing: Any
) -> None:
    """The leader waits for the others' ends, and they would wait for it."""
    leader, follower = members(2)
    for member in (leader, follower):
        beating(member)
    waiting = doing(Meeting(follower).barrier, "late")
    Meeting(leader).end()

    with pytest.raises(ReplicaError, match=r"function of replica 0 of 2 has ended .*'late'"):
        waiting.end()


def test_a_function_that_is_called_again_has_not_ended(members: Members) -> None:
    leader, follower = members(2)
    meeting = Meeting(leader)
    meeting.end()
    meeting.start_over()

    assert Posts(Meeting(follower)._folder, 1).read() == []


def test_a_long_wait_is_told_with_who_is_missing_and_where_it_stands(
    members: Members,
    beating: Callable[[Membership], None],
    doing: Any,
    wait_until: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="prefect_vertex.replica")
    leader, follower = members(2)
    for member in (leader, follower):
        beating(member)
    meetings = [Meeting(member) for member in (leader, follower)]
    waiting = [doing(meetings[0].barrier, "a"), doing(meetings[1].barrier, "b")]
    wait_until(lambda: "(replica 1 at barrier 'b')" in caplog.text, "the warning")
    others = [doing(meetings[1].barrier, "a"), doing(meetings[0].barrier, "b")]
    for each in waiting + others:
        each.end()

    assert "Replica 0 has waited at barrier 'a' for" in caplog.text
    assert Posts(meetings[0]._folder, 0).read() == []
