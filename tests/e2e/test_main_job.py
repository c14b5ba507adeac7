"""The main job: deploy, run, a CustomJob, and back; with real processes throughout."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.aiplatform_v1 import JobState
from prefect.client.schemas.objects import FlowRun

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

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


def _ended(run: FlowRun) -> bool:
    return bool(run.state and run.state.is_final())


def _state(run: FlowRun) -> tuple[str, str]:
    assert run.state is not None
    return run.state.type.value, run.state.message or ""


@pytest.fixture(scope="session")
def pool(installation: Installation) -> str:
    """A pool with a worker."""
    name: str = installation.pool("e2e")
    installation.worker(name)
    return name


@pytest.fixture(scope="session")
def where(installation: Installation, pool: str) -> Any:
    """A deployment whose flow says where it runs."""
    return installation.deploy(pool, "where", WHERE)


@pytest.fixture(scope="session")
def patient(installation: Installation, pool: str) -> Any:
    """A deployment whose flow takes ten minutes."""
    return installation.deploy(pool, "patient", PATIENT)


def test_a_run_goes_through_pool_worker_and_job_and_comes_back_completed(
    installation: Installation, where: Any
) -> None:
    """One run, one job, code and data from the archive, logs in Prefect."""
    run = installation.wait(installation.start(where))
    (job,) = installation.jobs(run)
    logs = "\n".join(installation.logs(run))

    assert _state(run)[0] == "COMPLETED", installation.logs(run)
    assert run.infrastructure_pid == job.name
    assert re.fullmatch(r"projects/\d+/locations/us-central1/customJobs/\d+", job.name)
    assert f"Created CustomJob {job.name}" in logs
    code = re.search(r"^code: (.*)$", logs, re.MULTILINE)
    assert code is not None
    assert not code[1].startswith(str(installation.home / "where"))
    assert "data: 12 months" in logs
    assert "attempt: 1" in logs


def test_the_user_sees_what_the_run_waits_for(installation: Installation, where: Any) -> None:
    """Pending, Submitting, InfrastructurePending and Running come in this order."""
    run = installation.wait(installation.start(where))
    states = sorted(
        installation.client.read_flow_run_states(run.id), key=lambda state: state.timestamp
    )
    names = [state.name for state in states]

    assert names[:4] == ["Scheduled", "Pending", "Submitting", "InfrastructurePending"]
    assert names[-2:] == ["Running", "Completed"]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        pytest.param({"image": None}, "image is not set", id="no image"),
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
    (job,) = installation.jobs(run)

    assert _state(ended)[0] == "CANCELLED"
    assert job.state in {JobState.JOB_STATE_CANCELLED, JobState.JOB_STATE_SUCCEEDED}


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
