"""Signs of life and progress: what one replica says and the others read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.replica.heartbeat import Heartbeat, read_progress, write_progress
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import PROGRESS_FILE, Membership
from prefect_vertex.replica.progress import ProgressBoard, summarize
from prefect_vertex.replica.signs import SignOfLife
from prefect_vertex.replica.store import Folder

Members = Callable[..., list[Membership]]


def _sign(
    done: float = 0, total: float = 0, *, left: bool = False, told: bool = False
) -> SignOfLife:
    return SignOfLife(
        has_left=left, why="", has_told=told or total > 0, done=done, total=total, silent_seconds=0
    )


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


def test_a_heartbeat_goes_on_after_the_bucket_has_failed(members: Members, wait_until: Any) -> None:
    """It tries again with the next beat, for as long as it takes."""
    leader, follower = members(2)
    heartbeat = Heartbeat(replace(follower, staging="gs://no-such-bucket-yet"))
    heartbeat.start()
    assert heartbeat._meeting is not None
    heartbeat._meeting = Meeting(follower)
    meeting = Meeting(leader)
    wait_until(lambda: 1 in meeting.signs_of_life(), "a sign")
    heartbeat.leave("done")

    assert meeting.signs_of_life()[1].has_left


@pytest.mark.parametrize("said", ["", "[1", "[NaN, 3]", "7", '["a", 2]', "[1, 2, 3]"])
def test_a_progress_file_that_cannot_be_read_is_no_reason_to_fall_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    path = tmp_path / "progress.json"
    path.write_text(said)
    monkeypatch.setenv(PROGRESS_FILE, str(path))

    assert read_progress() is None


def test_an_empty_share_is_progress_that_was_told(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "progress.json"))
    meeting = Meeting(members(2)[1])
    for told in (False, True):
        meeting.say_alive(progress=read_progress())
        assert meeting.signs_of_life()[1].has_told is told
        write_progress(0, 0)


def test_a_sign_that_takes_long_does_not_take_the_last_word_back(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is waited for as long as its call may last: a connection, then an answer."""
    monkeypatch.setattr("prefect_vertex.replica.heartbeat._LONGEST_CALL_SECONDS", 2.0)
    under_way = threading.Event()
    put = Folder.put

    def slow(folder: Folder, *what: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            under_way.set()
            time.sleep(3.0)
        put(folder, *what)

    monkeypatch.setattr(Folder, "put", slow)
    leader, follower = members(2)
    heartbeat = Heartbeat(follower)
    heartbeat.start()
    assert under_way.wait(20)
    heartbeat.leave("its flow run ended Completed")
    heartbeat._thread.join()

    assert Meeting(leader).signs_of_life()[1].has_left


def test_without_a_staging_bucket_or_alone_there_is_no_heartbeat(members: Members) -> None:
    for member in (members(2, staging="")[1], members(1)[0]):
        heartbeat = Heartbeat(member)
        heartbeat.start()
        heartbeat.leave("done")

    assert Meeting(members(2)[0]).signs_of_life() == {}


def test_where_no_launcher_reads_it_progress_is_not_written() -> None:
    assert not write_progress(1, 2)
    assert read_progress() is None


@pytest.mark.parametrize(
    ("signs", "world_size", "percent"),
    [
        pytest.param({0: _sign(5, 10), 1: _sign(0, 10)}, 2, 25, id="all have told"),
        pytest.param({0: _sign(5, 10)}, 2, 25, id="one has not begun"),
        pytest.param({0: _sign(10, 10), 1: _sign(left=True)}, 2, 100, id="one had nothing to do"),
        pytest.param(
            {0: _sign(10, 10), 1: _sign(told=True)}, 2, 100, id="one tells that its share is empty"
        ),
        pytest.param({0: _sign(1, 10), 1: _sign(30, 30, left=True)}, 2, 77.5, id="uneven shards"),
        pytest.param({0: _sign(12, 10)}, 1, 100, id="more than announced"),
        pytest.param({}, 4, 0, id="nobody has told"),
        pytest.param({0: _sign(-3, 10)}, 1, 0, id="less than nothing"),
        pytest.param({0: _sign(1e308, 1e308), 1: _sign(1e308, 1e308)}, 2, 0, id="no sum"),
    ],
)
def test_progress_is_over_all_replicas(
    signs: dict[int, SignOfLife], world_size: int, percent: float
) -> None:
    assert summarize(signs, world_size)[0] == pytest.approx(percent)


def test_the_description_names_each_replica_that_has_told_something() -> None:
    signs = {1: _sign(3, 12), 0: _sign(2.5, 10), 2: _sign()}

    assert summarize(signs, 3)[1] == "replica 0: 2.5 of 10; replica 1: 3 of 12"


@pytest.fixture
def stalled_api() -> Iterator[threading.Event]:
    """A Prefect API that takes requests and answers none; the event says that it has one."""
    asked, over = threading.Event(), threading.Event()

    class Stalled(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            over.wait(60)
            self.send_error(404)

        do_POST = do_GET  # noqa: N815 - its name is the standard library's

        def log_message(self, *args: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalled)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api"}):
            yield asked
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_signs_of_life_go_on_while_prefect_does_not_answer(
    members: Members,
    stalled_api: threading.Event,
    wait_until: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader that is at work is not taken for dead, and its last word does not wait either."""
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "progress.json"))
    leader, follower = members(2)
    write_progress(1, 10)
    heartbeat, board = Heartbeat(leader), ProgressBoard(leader)
    heartbeat.start()
    board.start()
    wait_until(stalled_api.is_set, "the board's request")
    meeting = Meeting(follower)
    write_progress(2, 10)
    wait_until(lambda: meeting.signs_of_life()[0].done == 2, "another sign of life")
    heartbeat.leave("done")
    board.finish(seconds=0.1)

    assert meeting.signs_of_life()[0].has_left
