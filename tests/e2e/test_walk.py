"""The walk over candidates, with real processes: server, worker, containers, and Vertex AI's no."""

from __future__ import annotations

import base64
import io
import shlex
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.states import Cancelling
from tests.e2e.walks import IMAGE, NONE_ALLOWED, A, B, C, Walks, until, walking

import prefect_vertex
from prefect_vertex.capacity.refusals import RefusalReason
from prefect_vertex.cli.local import share
from prefect_vertex.emulator.faults import Preemption, Stockout
from prefect_vertex.reconciler.chronicler import PAGE_KEY, TIMELINE_KEY

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

BUCKET = "walk-bucket"
NO_ROOM, QUOTA, RUNNING = RefusalReason.NO_ROOM.value, RefusalReason.QUOTA.value, "running"


@pytest.fixture(scope="module")
def walks(installation: Installation) -> Iterator[Walks]:
    """The cloud, pool and worker of this file."""
    with walking(installation) as walks:
        yield walks


def _one_at_a_time(jobs: Sequence[dict[str, Any]]) -> bool:
    """Whether each job was over before the next one was created."""
    return all(before["end_time"] <= after["create_time"] for before, after in pairwise(jobs))


def test_a_stockout_long_after_the_create_leads_to_the_next_region(
    installation: Installation, walks: Walks
) -> None:
    """The run completes in B, is known by B's job, and never had two live ones."""
    walks.cloud.add_faults(Stockout(location=A, after_seconds=4))
    run = installation.wait(walks.start(A, B))
    jobs = walks.ended_jobs(run)

    assert run.state.name == "Completed"
    assert walks.places(run) == [("1", A), ("2", B)]
    assert [job["state"] for job in jobs] == ["JOB_STATE_FAILED", "JOB_STATE_SUCCEEDED"]
    assert _one_at_a_time(jobs)
    assert walks.ran(run) == [2]
    assert run.infrastructure_pid == jobs[-1]["name"]
    names = walks.states(run)
    assert names[-2:] == ["Running", "Completed"]
    assert "InfrastructurePending" in names[names.index("AwaitingCapacity") :]


def test_regions_that_refuse_for_quota_are_skipped(
    installation: Installation, walks: Walks, tmp_path: Path
) -> None:
    """A refused create leaves no job, so the first attempt's is C's."""
    go = tmp_path / "go"
    run = walks.start(*NONE_ALLOWED, C, container=shlex.join(["--until", str(go)]))
    until(lambda: (C, RUNNING) in walks.told(run), "the ledger names where it runs")
    go.touch()
    ended = installation.wait(run)

    assert ended.state.name == "Completed"
    assert walks.places(run) == [("1", C)]
    assert walks.told(run) == [*((place, QUOTA) for place in NONE_ALLOWED), (C, RUNNING)]
    assert "exceed quota limits" in walks.ledger(run)[0]["message"]


def test_regions_whose_quota_is_known_beforehand_are_not_asked(
    installation: Installation, walks: Walks
) -> None:
    """With `preflight_quota` the first create is C's; its run has nothing to wait for."""
    walks.cloud.call("reset_calls")
    run = installation.wait(walks.start(*NONE_ALLOWED, C, preflight_quota=True))

    assert run.state.name == "Completed"
    assert walks.places(run) == [("1", C)]
    assert walks.cloud.call("calls")["counts"]["CreateCustomJob"] == {"OK": 1}
    assert "AwaitingCapacity" not in walks.states(run)


def test_a_wrong_machine_is_refused_once_and_tried_nowhere_else(
    installation: Installation, walks: Walks
) -> None:
    """Six candidates, one create: no place takes what is wrong everywhere."""
    walks.cloud.call("reset_calls")
    run = installation.wait(
        walks.start(
            A,
            B,
            C,
            strategy=["SPOT", "STANDARD"],
            machine_type="n1-standard-4",
            accelerator_type="NVIDIA_L4",
            accelerator_count=1,
            validate_hardware="warn",
        )
    )

    assert run.state.name == "Crashed"
    assert 'Accelerator "NVIDIA_L4" is not supported' in run.state.message
    assert walks.jobs(run) == []
    # A refused create leaves no job: the service's own count is the only trace of it.
    counts = walks.cloud.call("calls")["counts"]
    assert counts["CreateCustomJob"] == {"INVALID_ARGUMENT": 1}


def test_a_run_that_is_cancelled_between_attempts_is_tried_no_more(
    installation: Installation, walks: Walks
) -> None:
    """Its next try was due within the time that another run then takes."""
    walks.cloud.add_faults(Stockout(location=A), Stockout(location=B))
    run = walks.start(A, B, capacity={"backoff_seconds": 3})
    until(lambda: walks.is_waiting(run), "the run waits for its next try")
    installation.client.set_flow_run_state(run.id, Cancelling())
    ended = installation.wait(run)
    other = installation.wait(walks.start(C, container="--work 4"))

    assert ended.state.name == "Cancelled"
    assert other.state.name == "Completed"
    assert walks.places(run) == [("1", A), ("2", B)]
    assert installation.client.read_flow_run(run.id).state.name == "Cancelled"


def test_another_worker_goes_on_where_a_killed_one_was(
    installation: Installation, walks: Walks, tmp_path: Path
) -> None:
    """Not with the first candidate, whose refusal was final, and not with the first attempt."""
    go, without = tmp_path / "go", NONE_ALLOWED[0]
    walks.cloud.add_faults(Stockout(location=B))
    run = walks.start(
        without,
        B,
        container=shlex.join(["--until", str(go)]),
        capacity={"backoff_seconds": 6},
    )
    until(lambda: walks.is_waiting(run), "the run waits for its next try")
    walks.kill_worker()
    walks.start_worker()
    until(lambda: (B, RUNNING) in walks.told(run), "the ledger names where it runs")
    go.touch()
    ended = installation.wait(run)

    assert ended.state.name == "Completed"
    assert walks.places(run) == [("1", B), ("2", B)]
    assert _one_at_a_time(walks.jobs(run))
    assert walks.ran(run) == [2]
    assert walks.told(run) == [(without, QUOTA), (B, NO_ROOM), (B, RUNNING)]


def test_the_end_of_a_walk_names_every_candidate_and_its_last_answer(
    installation: Installation, walks: Walks
) -> None:
    """In the state's message, and with the service's words in the ledger."""
    without = NONE_ALLOWED[0]
    walks.cloud.add_faults(Stockout(location=A), Stockout(location=B))
    run = installation.wait(walks.start(A, without, B, capacity={"max_passes": 1}))
    first, *lines = run.state.message.splitlines()
    rows = walks.ledger(run)

    assert run.state.name == "Crashed"
    assert f"no capacity in {A}, {without}, {B}" in first
    assert "capacity.max_passes allows 1 pass" in first
    answers = {A: NO_ROOM, without: QUOTA, B: NO_ROOM}
    for line, (place, reason) in zip(lines, answers.items(), strict=True):
        assert line.startswith(f"{place}: {reason}. ")
    assert [(row["candidate"], row["reason"]) for row in rows] == list(answers.items())
    assert ["Resources are insufficient" in row["message"] for row in rows] == [True, False, True]
    assert _one_at_a_time(walks.jobs(run))


def test_both_attempts_of_two_replicas_are_shown_in_the_runs_artifacts(
    installation: Installation, walks: Walks
) -> None:
    """One page and one drawing, each written in its place until the run has ended."""
    walks.cloud.add_faults(Stockout(location=A, after_seconds=2))
    run = installation.wait(
        walks.start(A, B, worker_count=2, replicas="command", container="--work 2")
    )
    first, second = walks.ended_jobs(run)

    def ended() -> dict[str | None, Any]:
        shown = {each.key: each for each in walks.artifacts(run)}
        told = [str(each.description) for each in shown.values()]
        # Two calls: the page, then its drawing.
        return shown if sum(f"the last one in {B}: completed" in each for each in told) == 2 else {}

    shown = until(ended, "the end is drawn")
    page = str(shown[PAGE_KEY].data)
    keys = [each.key for each in walks.artifacts(run)]
    assert (keys.count(PAGE_KEY), keys.count(TIMELINE_KEY)) == (1, 1)
    for job in (first, second):
        assert f"| {job['location']} |" in page
        assert f"locations/{job['location']}/customJobs/{job['job_id']}`" in page
    assert NO_ROOM in page
    assert "worker pool 1: 1 replica on n1-standard-4" in page
    head, _, data = str(shown[TIMELINE_KEY].data).partition(",")
    root = ET.fromstring(base64.b64decode(data.removesuffix(")")))  # noqa: S314 - our own
    texts = [text for each in root.iter("{http://www.w3.org/2000/svg}text") if (text := each.text)]
    assert shown[TIMELINE_KEY].type == "markdown"
    assert head.endswith("](data:image/svg+xml;base64")
    assert f"Attempt 1 · {A} · {NO_ROOM}" in texts
    assert f"Attempt 2 · {B} · completed" in texts
    assert texts.count("workerpool1-0") == 2  # in both attempts


@pytest.fixture
def forecast(installation: Installation) -> UUID:
    """The forecasting example, deployed as its README says."""
    stack = installation.stack
    stack.create_bucket(BUCKET)
    folder = installation.home / "forecast"
    shutil.copytree(share("examples", "forecast"), folder)
    stack.prefect("deploy", "--all", cwd=folder, STAGING_BUCKET=BUCKET, IMAGE=IMAGE)
    found: UUID = installation.client.read_deployment_by_name("forecast/tourism").id
    return found


def test_a_forecast_that_loses_its_spot_machine_completes_on_another(
    installation: Installation, walks: Walks, forecast: UUID
) -> None:
    """Two jobs, one after the other; every forecast, file and artifact is there once."""
    run = installation.client.create_flow_run_from_deployment(
        forecast,
        parameters={"series": 6, "output_dir": f"gs://{BUCKET}/forecasts"},
        job_variables={
            "region": A,
            "regions": [B],
            "strategy": "SPOT",
            # As an image has it: the package under test, wherever it was imported from.
            "env": {"PYTHONPATH": str(Path(prefect_vertex.__file__).parents[1])},
        },
    )
    (first,) = until(lambda: walks.jobs(run), "its first job")
    until(
        lambda: "forecast 5 of 30" in str(walks.cloud.call("output", name=first["name"])),
        "some series are forecast",
        seconds=120,
    )
    walks.cloud.add_faults(Preemption(job=first["job_id"]))
    ended = installation.wait(run, seconds=180)
    first, second = walks.ended_jobs(run)

    assert ended.state.name == "Completed"
    assert walks.places(run) == [("1", A), ("2", B)]
    assert ended.infrastructure_pid == second["name"]
    (taken,), (fresh,) = first["starts"], second["starts"]
    assert taken["ended_at"] <= fresh["started_at"]
    assert "AwaitingRetry" in walks.states(run)

    stack, each_once = installation.stack, ["series", "model", "month"]
    files = ["accuracy.json", "accuracy.parquet", "forecasts.parquet", "forecasts.png"]
    files.append("parts/0-of-1.parquet")
    assert stack.list_objects(BUCKET, "forecasts/") == [f"forecasts/{name}" for name in files]
    table = pd.read_parquet(io.BytesIO(stack.read_object(BUCKET, "forecasts/forecasts.parquet")))
    assert len(table) == len(table.drop_duplicates(each_once)) == 6 * 5 * 24
    passing = ("result", "progress")
    published = [str(each.key) for each in walks.artifacts(run) if each.type not in passing]
    own = [key for key in published if not key.startswith("vertex-capacity-")]
    assert sorted(own) == sorted(["forecast-accuracy", "forecast-picture", PAGE_KEY, TIMELINE_KEY])
    assert walks.told(run) == [(A, RefusalReason.PREEMPTED.value), (B, RUNNING)]
    writers = until(lambda: _writers(installation, ended.id), "the writing task run is recorded")
    assert len(writers) == 1


def _writers(installation: Installation, run_id: UUID) -> list[str]:
    """The run's task runs that wrote its results; Prefect records them with a delay."""
    ours = FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
    tasks = installation.client.read_task_runs(flow_run_filter=ours)
    return [task.name for task in tasks if task.name.startswith("write_results")]
