"""Starts of a replica against a real Prefect server, and a running one that is asked to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from google.cloud.aiplatform_v1 import JobState
from prefect import flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Completed, Pending, Running, Suspended

from prefect_vertex.delivery.packing import packed_bootstrap

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

KEY = "prefect-vertex-start-a1-r0"
PATIENT = """
    import time
    from prefect import flow

    @flow(log_prints=True)
    def main():
        print("the flow runs")
        time.sleep(600)
"""


@flow
def idle() -> None:
    """Never called: its runs are only claimed."""


@pytest.fixture
def run(installation: Installation) -> FlowRun:
    """A flow run that waits for its container."""
    made: FlowRun = installation.client.create_flow_run(idle, state=Pending())
    return made


@pytest.fixture
def start(installation: Installation, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Start a replica of a run, with a file system of its own; its command leaves a mark."""

    def begin(flow_run_id: UUID, job: str = "4711") -> tuple[int, str]:
        fresh = tmp_path / f"container-{len(list(tmp_path.glob('container-*')))}"
        fresh.mkdir()
        script = f"printf x >> '{tmp_path}/runs'"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", packed_bootstrap(), "sh", "-c", script],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(fresh),
                "TMPDIR": str(fresh),
                "PREFECT_API_URL": installation.stack.api_url,
                "PREFECT__FLOW_RUN_ID": str(flow_run_id),
                "PREFECT_VERTEX_ATTEMPT": "1",
                "CLOUD_ML_JOB_ID": job,
            },
            cwd=fresh,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stderr

    return begin


Start = Callable[..., tuple[int, str]]


def test_user_code_runs_once_however_often_the_attempt_is_started(
    installation: Installation, run: FlowRun, start: Start, tmp_path: Path
) -> None:
    """The first start holds the claim; a restart and a duplicate job end with 75."""
    first, again, duplicate = start(run.id), start(run.id), start(run.id, job="1234")
    claim = json.loads(installation.client.read_flow_run_input(run.id, KEY))

    assert (first[0], again[0], duplicate[0]) == (0, 75, 75)
    assert "the first start ended without a word" in again[1]
    assert "had started in CustomJob 4711" in duplicate[1]
    assert claim["job"] == "4711"
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        pytest.param(Completed(), 0, id="completed"),
        pytest.param(Suspended(timeout_seconds=600), 0, id="suspended"),
        pytest.param(Running(), 75, id="running"),
    ],
)
def test_a_second_start_reads_the_run_s_state(
    installation: Installation, start: Start, tmp_path: Path, state: State, code: int
) -> None:
    run = installation.client.create_flow_run(idle, state=state)
    installation.client.create_flow_run_input(run.id, KEY, '{"nonce": "other", "job": "4711"}')

    assert start(run.id)[0] == code
    assert not (tmp_path / "runs").exists()


def test_a_deleted_run_is_not_run(
    installation: Installation, run: FlowRun, start: Start, tmp_path: Path
) -> None:
    installation.client.delete_flow_run(run.id)
    code, says = start(run.id)

    assert (code, f"knows no flow run {run.id}" in says) == (74, True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.linux
def test_sigterm_hands_a_running_flow_to_the_next_attempt(installation: Installation) -> None:
    """The replica exits 0, its run awaits its retry, and comes back in a second job."""
    pool = installation.pool("sigterm")
    installation.worker(pool)
    run = installation.start(installation.deploy(pool, "sigterm", PATIENT))
    installation.wait(run, until=lambda seen: bool(seen.state and seen.state.is_running()))
    installation.logs_with(run, "the flow runs")

    os.kill(_leader(run.id), signal.SIGTERM)

    def in_second_attempt(seen: FlowRun) -> bool:
        running = bool(seen.state and seen.state.is_running())
        return running and len(installation.jobs(seen)) > 1

    installation.wait(run, until=in_second_attempt)
    states = installation.client.read_flow_run_states(run.id)
    jobs = {job.labels["prefect-vertex_attempt"]: job for job in installation.jobs(run)}

    names = [state.name for state in sorted(states, key=lambda state: state.timestamp)]
    first = names.index("Running")
    assert names[first : first + 3] == ["Running", "AwaitingRetry", "Pending"]
    assert sorted(jobs) == ["1", "2"]
    assert jobs["1"].state == JobState.JOB_STATE_SUCCEEDED

    # The second ends by a SIGTERM too, and is cancelled outside Prefect: no loop.
    installation.jobs_client.cancel_custom_job(request={"name": jobs["2"].name}, timeout=10)
    ended = installation.wait(run)

    assert ended.state is not None
    assert ended.state.is_cancelled()
    assert len(installation.jobs(run)) == 2


def _leader(flow_run_id: UUID) -> int:
    """The process of `prefect flow-run execute` for a run: the first one of its replica."""
    deadline = time.monotonic() + 10
    wanted = f"PREFECT__FLOW_RUN_ID={flow_run_id}".encode()
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended, or is not ours
            if command[-3:-1] == [b"flow-run", b"execute"] and wanted in variables:
                return int(folder.name)
    raise AssertionError(f"no container runs {flow_run_id}")
