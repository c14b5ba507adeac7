"""Signs of life and progress: what one replica says and the others read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.replica.heartbeat import Heartbeat, read_progress, write_progress
from prefect_vertex.replica.meeting import Meeting, SignOfLife
from prefect_vertex.replica.membership import PROGRESS_FILE, Membership
from prefect_vertex.replica.progress import summarize

Members = Callable[..., list[Membership]]


def _sign(done: float = 0, total: float = 0, *, left: bool = False) -> SignOfLife:
    return SignOfLife(has_left=left, why="", done=done, total=total, silent_seconds=0)


def test_a_heartbeat_brings_the_progress_that_the_flow_has_left(
    members: Members, wait_until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "progress.json"))
    leader, follower = members(2)
    heartbeat = Heartbeat(follower)
    heartbeat.start()
    meeting = Meeting(leader)
    wait_until(lambda: 1 in meeting.signs_of_life(), "the first sign")
    assert write_progress(3, 12)
    wait_until(lambda: meeting.signs_of_life()[1].done == 3, "the progress")
    heartbeat.leave("its flow run ended Completed")

    (sign,) = meeting.signs_of_life().values()
    assert (sign.has_left, sign.why) == (True, "its flow run ended Completed")
    assert (sign.done, sign.total) == (3, 12)


def test_a_heartbeat_goes_on_after_the_bucket_has_failed(
    members: Members, wait_until: Any, storage_url: str
) -> None:
    """Also where what is done after each beat fails."""
    leader, follower = members(2)
    calls: list[int] = []

    def failing(_meeting: Meeting) -> None:
        calls.append(1)
        raise RuntimeError("a mistake")

    heartbeat = Heartbeat(follower, after_beat=failing)
    heartbeat.start()
    wait_until(lambda: len(calls) > 2, "three beats")
    heartbeat.leave("done")

    assert Meeting(leader).signs_of_life()[1].has_left


def test_without_a_staging_bucket_or_alone_there_is_no_heartbeat(members: Members) -> None:
    for member in (members(2, staging="")[1], members(1)[0]):
        heartbeat = Heartbeat(member)
        heartbeat.start()
        heartbeat.leave("done")

    assert Meeting(members(2)[0]).signs_of_life() == {}


def test_where_no_launcher_reads_it_progress_is_not_written() -> None:
    assert not write_progress(1, 2)
    assert read_progress() == (0, 0)


@pytest.mark.parametrize(
    ("signs", "world_size", "percent"),
    [
        pytest.param({0: _sign(5, 10), 1: _sign(0, 10)}, 2, 25, id="all have told"),
        pytest.param({0: _sign(5, 10)}, 2, 25, id="one has not begun"),
        pytest.param({0: _sign(10, 10), 1: _sign(left=True)}, 2, 100, id="one had nothing to do"),
        pytest.param({0: _sign(1, 10), 1: _sign(30, 30, left=True)}, 2, 77.5, id="uneven shards"),
        pytest.param({0: _sign(12, 10)}, 1, 100, id="more than announced"),
        pytest.param({}, 4, 0, id="nobody has told"),
    ],
)
def test_progress_is_over_all_replicas(
    signs: dict[int, SignOfLife], world_size: int, percent: float
) -> None:
    assert summarize(signs, world_size)[0] == pytest.approx(percent)


def test_the_description_names_each_replica_that_has_told_something() -> None:
    signs = {1: _sign(3, 12), 0: _sign(2.5, 10), 2: _sign()}

    assert summarize(signs, 3)[1] == "replica 0: 2.5 of 10; replica 1: 3 of 12"
