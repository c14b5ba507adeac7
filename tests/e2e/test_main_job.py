"""The main job: deploy, run, a CustomJob, and back; with real processes throughout."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.aiplatform_v1 import JobState
from prefect.client.schemas.objects import FlowRun

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

BUCKET = "e2e-bucket"

WHERE = """
    import os
    from pathlib import Path
    from prefect import flow

    @flow(log_prints=True)
    def main():
        print("code:", Path(__file__).resolve())
        print("data:", Path("data.txt").read_text())
        print("attempt:", os.environ["PREFECT_VERTEX_ATTEMPT"])
"""

PATIENT = """
    import time
    from prefect import flow

    @flow(log_prints=True)
    def main():
        print("working")
        time.sleep(600)
"""


GONE = {
    JobState.JOB_STATE_SUCCEEDED,
    JobState.JOB_STATE_FAILED,
    JobState.JOB_STATE_CANCELLED,
}


def _state(run: FlowRun) -> tuple[str, str]:
    assert run.state is not None
    return run.state.type.value, run.state.message or ""


@pytest.fixture(scope="module")
def pool(installation: Installation) -> str:
    """A pool with a worker."""
    name: str = installation.pool("e2e")
    installation.worker(name)
    return name


@pytest.fixture(scope="module")
def where(installation: Installation, pool: str) -> Any:
    """A deployment whose flow says where it runs."""
    return installation.deploy(pool, "where", WHERE, staging_bucket=BUCKET)


@pytest.fixture(scope="module")
def patient(installation: Installation, pool: str) -> Any:
    """A deployment whose flow takes ten minutes."""
    return installation.deploy(pool, "patient", PATIENT)


def test_a_run_goes_through_pool_worker_and_job_and_comes_back_completed(
    installation: Installation, where: Any
) -> None:
    """One run, one job, code and data from the archive, logs in Prefect."""
    run = installation.wait(installation.start(where))
    (job,) = installation.jobs(run)
    logs = installation.logs_with(run, "attempt: 1")

    assert _state(run)[0] == "COMPLETED"
    assert run.infrastructure_pid == job.name
    assert re.fullmatch(r"projects/\d+/locations/us-central1/customJobs/\d+", job.name)
    assert f"Created CustomJob {job.name}" in logs
    code = re.search(r"^code: (.*)$", logs, re.MULTILINE)
    assert code is not None
    assert not code[1].startswith(str(installation.home / "where"))
    assert "data: 12 months" in logs
    _check_record(installation, run, job.name)


def _check_record(installation: Installation, run: FlowRun, job_name: str) -> None:
    """What was launched is in the bucket, and `plan --from` prints it."""
    where = f"gs://{BUCKET}/launches/{run.id}/a1.json"
    installation.logs_with(run, f"Launch record: {where}")
    done = subprocess.run(
        [sys.executable, "-m", "prefect_vertex", "plan", "--from", where],
        capture_output=True,
        text=True,
        check=True,
        env=installation.stack.env,
    )
    found = json.loads(done.stdout)

    assert found["launch"]["job"]["resource_name"] == job_name
    assert found["launch"]["flow_run"]["id"] == str(run.id)
    (request,) = found["requests"]
    assert request["custom_job"]["labels"]["prefect-io_flow-run-id"] == str(run.id)
    assert found["changed"] == []
    command = shlex.split(found["again"]["command"])
    assert command[:4] == ["prefect", "deployment", "run", "main/where"]
    assert f'code_uri="{found["launch"]["code"]["uri"]}"' in command


def test_the_user_sees_what_the_run_waits_for(installation: Installation, where: Any) -> None:
    """Pending, Submitting, InfrastructurePending and Running come in this order."""
    run = installation.wait(installation.start(where))
    states = sorted(
        installation.client.read_flow_run_states(run.id), key=lambda state: state.timestamp
    )
    names = [state.name for state in states]

    assert names[:4] == ["Scheduled", "Pending", "Submitting", "InfrastructurePending"]
    assert names[-2:] == ["Running", "Completed"]


def test_a_started_worker_has_none_of_the_high_level_client(installation: Installation) -> None:
    """Its modules are counted in the worker's own process, after a sync and a tick."""
    pool = installation.pool("modules")
    script = (
        "import atexit, sys, runpy; "
        "atexit.register(lambda: print('MODULES', *sorted(sys.modules))); "
        f"sys.argv = ['prefect', 'worker', 'start', '--pool', '{pool}', '--run-once']; "
        "runpy.run_module('prefect', run_name='__main__')"
    )
    child = installation.children.start(
        "counted worker", [sys.executable, "-c", script], env=installation.stack.env
    )
    child.process.wait(60)
    modules = next(
        line.split()[1:] for line in child.output().splitlines() if line.startswith("MODULES")
    )

    assert "google.cloud.aiplatform_v1" in modules
    assert "google.cloud.aiplatform" not in modules


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        pytest.param({"image": ""}, "image is not set", id="no image"),
        pytest.param(
            {"accelerator_type": "NVIDIA_T4", "accelerator_count": 1},
            "NVIDIA_TESLA_T4",
            id="unknown accelerator",
        ),
        pytest.param({"region": "global"}, "region", id="no region for jobs"),
        pytest.param(
            {"code_uri": "gs://no-such-bucket/code/x.zip", "code_sha256": "0" * 64},
            "no-such-bucket",
            id="missing bucket",
        ),
    ],
)
def test_a_mistake_crashes_its_run_in_one_line_and_the_worker_goes_on(
    installation: Installation, where: Any, variables: dict[str, Any], says: str
) -> None:
    """The state message names what to set; no traceback anywhere; the next run completes."""
    run = installation.wait(installation.start(where, **variables))
    kind, message = _state(run)
    output = installation.workers["e2e"].output()

    assert kind == "CRASHED"
    assert says in message
    assert "Traceback" not in message.splitlines()[0]
    assert "Traceback" not in output
    assert all(job.state != JobState.JOB_STATE_RUNNING for job in installation.jobs(run))
    assert _state(installation.wait(installation.start(where)))[0] == "COMPLETED"


def test_a_cancelled_run_ends_cancelled_and_its_job_is_gone(
    installation: Installation, patient: Any
) -> None:
    """Cancelling a running flow ends its container and then its run."""
    from prefect.states import Cancelling

    run = installation.start(patient)
    installation.wait(run, until=lambda seen: bool(seen.state and seen.state.is_running()))
    installation.client.set_flow_run_state(run.id, Cancelling())

    ended = installation.wait(run)
    job = installation.job_that(run, lambda job: job.state in GONE)

    assert _state(ended)[0] == "CANCELLED"
    assert job.state in GONE


def test_a_stopped_worker_leaves_its_job_alone_and_the_next_one_finishes_the_run(
    installation: Installation,
) -> None:
    """SIGTERM changes no state; another worker settles the run from labels alone."""
    pool = installation.pool("handover")
    first = installation.worker(pool)
    deployment = installation.deploy(pool, "handover", PATIENT)
    run = installation.start(deployment)
    installation.wait(run, until=lambda seen: bool(seen.state and seen.state.is_running()))

    first.process.send_signal(signal.SIGTERM)
    first.process.wait(10)

    assert first.process.returncode == 0
    assert _state(installation.client.read_flow_run(run.id))[0] == "RUNNING"
    (job,) = installation.jobs(run)
    assert job.state == JobState.JOB_STATE_RUNNING

    installation.children.forget(first)
    installation.worker(pool)
    installation.jobs_client.cancel_custom_job(request={"name": job.name}, timeout=10)
    ended = installation.wait(run)

    assert _state(ended)[0] == "CANCELLED"
    assert "outside Prefect" in _state(ended)[1]


@pytest.mark.parametrize(
    ("name", "environment", "says"),
    [
        pytest.param(
            "unreachable",
            {"VERTEX_AI_EMULATOR_HOST": "127.0.0.1:1"},
            "VERTEX_AI_EMULATOR_HOST",
            id="unreachable emulator",
        ),
        pytest.param(
            "anonymous",
            {"VERTEX_AI_EMULATOR_HOST": "", "NO_GCE_CHECK": "true", "HOME": "/nowhere"},
            "GOOGLE_APPLICATION_CREDENTIALS",
            id="no credentials",
        ),
    ],
)
def test_a_worker_that_cannot_reach_vertex_ai_crashes_its_runs_and_says_what_to_set(
    installation: Installation, name: str, environment: dict[str, str], says: str
) -> None:
    """One line with what to set, no traceback, and the worker stays up."""
    pool = installation.pool(name)
    worker = installation.worker(
        pool,
        PREFECT_INTEGRATIONS_VERTEX_CREATE_BUDGET_SECONDS="3",
        **environment,
    )
    run = installation.wait(installation.start(installation.deploy(pool, name, WHERE)))
    kind, message = _state(run)

    assert kind == "CRASHED"
    assert says in message
    assert "\n" not in message
    assert "Traceback" not in worker.output()
    assert worker.is_alive()
