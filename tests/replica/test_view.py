"""What a flow sees: alone on a laptop, and in a job."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex import replica
from prefect_vertex.replica.meeting import Meeting

Prefect = Any  # the fixture's class; test modules cannot import a conftest


def test_the_public_names_are_these() -> None:
    """A name more or less is a change of the contract."""
    assert sorted(replica.__all__) == [
        "Replica",
        "ReplicaError",
        "UnitResult",
        "WorkProfile",
        "current",
        "effective_worker_count",
        "map_slots",
        "measured_profile",
    ]


def test_importing_it_loads_neither_prefect_nor_google() -> None:
    code = (
        "import sys; from prefect_vertex import replica; replica.current().barrier('x');"
        "print([n for n in sys.modules if n.startswith(('prefect.', 'google.cloud.', 'pydantic'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_outside_a_job_there_is_one_replica_that_has_it_all() -> None:
    me = replica.current()
    me.barrier("ready")
    me.progress(1, 2)

    assert (me.rank, me.world_size, me.is_leader) == (0, 1, True)
    assert me.shard([3, 1, 2]) == [1, 2, 3]
    assert me.assign(["b", "a"]) == ["b", "a"]
    assert me.gather({"a": 1}, "parts") == [{"a": 1}]
    assert me.slots >= 1


def test_shards_and_assignments_cover_everything_once() -> None:
    items = list(range(10))
    replicas = [replica.Replica(rank, 4) for rank in range(4)]

    assert [item for each in replicas for item in each.shard(items)] == items
    assert replicas[1].assign("abcdef") == ["b", "f"]


def test_without_a_staging_bucket_a_barrier_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PREFECT_VERTEX_RANK", "1")
    monkeypatch.setenv("PREFECT_VERTEX_WORLD_SIZE", "2")
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", str(uuid4()))

    with pytest.raises(replica.ReplicaError, match="staging_bucket"):
        replica.current().barrier("ready")
    with pytest.raises(replica.ReplicaError, match="staging_bucket"):
        replica.current().gather(1, "parts")


def test_without_a_launcher_a_replica_gives_its_own_signs_of_life(
    members: Any, storage_url: str, wait_until: Any
) -> None:
    """`replicas: command`: nobody else would. Its process's end is its last."""
    leader, follower = members(2)
    environment = {
        **os.environ,
        "PREFECT_VERTEX_RANK": "1",
        "PREFECT_VERTEX_WORLD_SIZE": "2",
        "PREFECT__FLOW_RUN_ID": follower.leader_id,
        "PREFECT_VERTEX_STAGING": follower.staging,
        "PREFECT_VERTEX_HEARTBEAT_SECONDS": "1",
    }
    code = "from prefect_vertex import replica; replica.current().barrier('ready')"
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    meeting = Meeting(leader)
    wait_until(lambda: 1 in meeting.signs_of_life(), "a sign of life")
    meeting.barrier("ready")

    assert process.wait(20) == 0
    assert meeting.signs_of_life()[1].has_left


@pytest.mark.parametrize(
    ("done", "total"),
    [(None, 3), (math.nan, 3), (1, math.inf), ("many", 3), (10**400, 3), ([1], 3)],
    ids=["None", "nan", "inf", "text", "too large", "list"],
)
def test_progress_that_is_no_number_is_left_out_with_one_warning(
    done: Any,
    total: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("PREFECT_VERTEX_PROGRESS_FILE", str(tmp_path / "progress.json"))
    monkeypatch.setattr("prefect_vertex.replica.view._warned", set())
    me = replica.current()
    me.progress(1, 3)
    for _ in range(3):
        me.progress(done, total)

    assert json.loads((tmp_path / "progress.json").read_text()) == [1, 3]
    assert caplog.text.count("no finite number") == 1


def test_progress_takes_numpy_s_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    monkeypatch.setenv("PREFECT_VERTEX_PROGRESS_FILE", str(tmp_path / "progress.json"))
    replica.current().progress(numpy.int64(1), numpy.float32(4))

    assert json.loads((tmp_path / "progress.json").read_text()) == [1, 4]


def test_progress_that_cannot_be_written_does_not_fail_the_flow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PREFECT_VERTEX_PROGRESS_FILE", str(tmp_path / "gone" / "progress.json"))
    monkeypatch.setattr("prefect_vertex.replica.view._warned", set())
    for done in range(3):
        replica.current().progress(done, 3)

    assert caplog.text.count("Progress cannot be shown: FileNotFoundError") == 1


def test_progress_that_prefect_does_not_take_does_not_fail_the_flow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", str(uuid4()))
    monkeypatch.setattr("prefect_vertex.replica.view._warned", set())
    with (
        socket.create_server(("127.0.0.1", 0)) as nobody,
        temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{nobody.getsockname()[1]}/api"}),
    ):
        nobody.close()
        replica.current().progress(1, 3)

    assert "Progress cannot be shown: ConnectError" in caplog.text


def test_one_replica_shows_its_progress_on_its_own_run(
    prefect: Prefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once at the beginning and the end, and one artifact throughout."""
    run = prefect.leader()
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", str(run.id))
    me = replica.current()
    for done in range(5):
        me.progress(done, 4)
    answer = prefect.client.request(
        "POST", "/artifacts/filter", json={"flow_runs": {"id": {"any_": [str(run.id)]}}}
    )
    (artifact,) = answer.json()

    assert (artifact["type"], artifact["data"]) == ("progress", 100.0)
    assert artifact["description"] == "4 of 4"
