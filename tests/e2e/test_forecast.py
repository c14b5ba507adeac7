"""The forecast example, deployed as its own prefect.yaml says, on two replicas."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.aiplatform_v1 import JobState
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.objects import FlowRun

import prefect_vertex

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

BUCKET = "e2e-bucket"
POOL = "forecast-example"
PARAMETERS = {
    "series": 2,
    "models": ["Seasonal naive", "Theta"],
    "output_dir": f"gs://{BUCKET}/forecast-example",
    "divide_by": "models",
}


@pytest.fixture(scope="module")
def done(installation: Installation) -> FlowRun:
    """A run of the example that has ended."""
    code = shutil.copytree(
        Path(__file__).parents[2] / "examples" / "forecast",
        installation.home / "forecast-example",
        ignore=shutil.ignore_patterns("output", "__pycache__"),
    )
    settings = code / "prefect.yaml"
    # Other tests have a pool and a deployment of the usual names.
    settings.write_text(settings.read_text().replace("vertex-forecast", POOL))
    installation.worker(installation.pool(POOL))
    command = ("deploy", "--name", "tourism-replicas")
    installation.stack.prefect(*command, cwd=code, STAGING_BUCKET=BUCKET, IMAGE="any:1")
    deployment = installation.client.read_deployment_by_name("forecast/tourism-replicas")
    run = installation.client.create_flow_run_from_deployment(
        deployment.id,
        parameters=PARAMETERS,
        job_variables={
            "worker_count": 2,
            # As an image has it: the package under test, wherever it was imported from.
            "env": {"PYTHONPATH": str(Path(prefect_vertex.__file__).parents[1])},
        },
    )
    ended: FlowRun = installation.wait(run, seconds=200)
    return ended


def test_the_replicas_share_the_models_and_the_leader_writes_what_all_found(
    installation: Installation, done: FlowRun
) -> None:
    """Both runs Completed, a part of each, and every model on every series in the results."""
    followers = installation.client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[done.id])
        )
    )
    files = installation.stack.list_objects(BUCKET, prefix="forecast-example/")
    summary = json.loads(installation.stack.read_object(BUCKET, "forecast-example/accuracy.json"))

    assert [run.state.name for run in (done, *followers)] == ["Completed", "Completed"]
    assert [name.removeprefix("forecast-example/") for name in files] == [
        "accuracy.json",
        "accuracy.parquet",
        "forecasts.parquet",
        "forecasts.png",
        "parts/0-of-2.parquet",
        "parts/1-of-2.parquet",
    ]
    assert summary["series"] == 2
    assert [row["model"] for row in summary["accuracy"]] == [
        "Seasonal naive",
        "Theta",
        "Best on backtest",
    ]


def test_there_is_one_table_and_one_picture_for_all_replicas(
    installation: Installation, done: FlowRun
) -> None:
    artifacts = installation.client.read_artifacts(
        artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[done.id]))
    )
    ours = [str(each.key) for each in artifacts if str(each.key).startswith("forecast-")]

    assert sorted(ours) == ["forecast-accuracy", "forecast-picture"]


def test_the_one_progress_artifact_ends_with_all_that_each_replica_did(
    installation: Installation, done: FlowRun
) -> None:
    """The launcher of the leader writes it a last time once the others have left."""
    installation.job_that(done, lambda job: job.state == JobState.JOB_STATE_SUCCEEDED)
    artifacts = installation.client.read_artifacts(
        artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[done.id]))
    )
    (progress,) = (each for each in artifacts if each.type == "progress")

    assert progress.data == 100
    assert progress.description == "replica 0: 2 of 2; replica 1: 2 of 2"
