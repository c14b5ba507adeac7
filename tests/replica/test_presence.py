"""Which process speaks for a replica, with real processes: `replicas: command` and the helpers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.store import Folder

Start = Callable[..., subprocess.Popen[str]]


UNIT = """
def unit(number):
    from prefect_vertex import replica
    return replica.current().gather(number, "parts")
"""


@pytest.fixture
def start(members: Any, storage_url: str) -> Iterator[Start]:
    """Start a replica of two that runs a script, without a launcher."""
    processes: list[subprocess.Popen[str]] = []

    def run(script: str, rank: int = 1, **env: str) -> subprocess.Popen[str]:
        member: Membership = members(2)[rank]
        environment = {
            **os.environ,
            "PREFECT_VERTEX_RANK": str(rank),
            "PREFECT_VERTEX_WORLD_SIZE": "2",
            "PREFECT__FLOW_RUN_ID": member.leader_id,
            "PREFECT_VERTEX_STAGING": member.staging,
            "PREFECT_VERTEX_HEARTBEAT_SECONDS": "1",
            **env,
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", f"from prefect_vertex import replica\n{script}"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def _said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0]


def test_a_process_that_only_asks_for_its_replica_gives_signs_of_life(
    members: Any, start: Start, wait_until: Any
) -> None:
    """Its end fails those who wait, though it has never come anywhere."""
    leader, _ = members(2)
    process = start("replica.current(); input()")
    meeting = Meeting(leader)
    wait_until(lambda: 1 in meeting.signs_of_life(), "a sign of life")
    process.communicate("\n", timeout=60)
    sign = meeting.signs_of_life()[1]

    assert (sign.has_left, sign.why) == (False, "its process ended")


def test_a_replica_whose_process_ended_without_coming_fails_the_barrier(
    members: Any, beating: Callable[[Membership], None], doing: Any, start: Start
) -> None:
    """After the patience for another process that may go on."""
    leader, _ = members(2)
    assert start("replica.current()").wait(60) == 0
    beating(leader)
    waiting = doing(Meeting(leader).barrier, "ready")

    with pytest.raises(ReplicaError, match=r"Replica 1 of 2 .* since its process ended"):
        waiting.end()


def test_a_process_that_another_of_the_replica_has_started_can_meet_if_that_one_does_not(
    members: Any, start: Start
) -> None:
    """And its end is not the end of the replica, which goes on."""
    leader, _ = members(2)
    child = "from prefect_vertex import replica; replica.current().gather('child', 'parts')"
    script = f"""
import subprocess, sys
replica.current()
subprocess.run([sys.executable, "-c", {child!r}], check=True)
print("done", flush=True)
input()
"""
    process = start(script)
    assert process.stdout is not None
    while process.stdout.readline() != "done\n":
        assert process.poll() is None
    meeting = Meeting(leader)
    parts = meeting.gather("leader", "parts")

    assert parts == ["leader", "child"]
    assert not meeting.signs_of_life()[1].why


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            f"""
import pathlib, sys, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "units.py").write_text({UNIT!r})
sys.path.insert(0, str(folder))
import units
print(replica.map_slots(units.unit, [1], slots=1)[0].error)
""",
            id="a unit of the local pool",
        ),
        pytest.param(
            f"""
import concurrent.futures, multiprocessing
{UNIT}
with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
    print(pool.submit(unit, 1).exception())
""",
            id="multiprocessing",
        ),
        pytest.param(
            f"""
import subprocess, sys
{UNIT}
replica.current().gather("mine", "parts")
code = {UNIT!r} + '''
try:
    unit(1)
except Exception as error:
    print(error)
'''
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
""",
            id="a process of one that meets itself",
        ),
        pytest.param(
            f"""
import os
{UNIT}
replica.current().gather("mine", "parts")
if os.fork() == 0:
    try:
        unit(1)
    except Exception as error:
        print(error, flush=True)
    raise SystemExit
os.wait()
""",
            id="a fork",
        ),
    ],
)
def test_a_helping_process_cannot_meet_and_is_told_so(script: str, start: Start) -> None:
    """Each of them would count its visits from 0, and values would be lost without a word."""
    said = _said(start(script))

    assert "Replica 1 of 2 cannot meet the others from a process that its flow" in said, said
    assert "in the flow's own process" in said


def test_threads_of_a_process_share_one_count_of_visits(members: Any, start: Start) -> None:
    leader, _ = members(2)
    script = """
import threading
def gather():
    together.wait()
    replica.current().gather(1, "parts")
together = threading.Barrier(4)
threads = [threading.Thread(target=gather) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
"""
    assert start(script).wait(60) == 0
    meeting = Meeting(leader)

    assert [meeting.gather(0, "parts") for _ in range(4)] == [[0, 1]] * 4


def test_the_leader_s_process_cleans_up_when_all_have_left(members: Any, start: Start) -> None:
    leader, _ = members(2)
    other = start("replica.current().gather(1, 'parts')")
    first = start("print(replica.current().gather(0, 'parts'))", rank=0)
    said = [_said(each) for each in (first, other)]

    assert "[0, 1]" in said[0]
    assert Folder(leader.staging).entries("") == {}


def test_what_a_later_process_of_the_leader_s_comes_for_is_kept(start: Start) -> None:
    _said(start("me = replica.current(); me.gather(1, 'first'); me.gather(1, 'second')"))
    _said(start("replica.current()", rank=0))
    _said(start("replica.current().gather(0, 'first')", rank=0))

    assert "[0, 1]" in _said(start("print(replica.current().gather(0, 'second'))", rank=0))
