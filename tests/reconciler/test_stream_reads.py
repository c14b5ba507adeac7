"""When and for whom lines are read, and what stops nothing when it fails."""

from __future__ import annotations

import logging
import re
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from prefect_vertex.errors import AccessDeniedError, RateLimitedError, ServiceUnavailableError
from prefect_vertex.lifecycle.run import POLICY_LABEL, RunState

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.log_scene import Scene

pytestmark = pytest.mark.anyio


async def test_one_query_serves_all_locations_of_a_project(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker(home=("us-central1", "europe-west4"))
    streams = scene.streams(worker)
    # Here ids are counted in each location: the second job of one, so that they differ.
    places = ("us-central1", "europe-west4", "europe-west4")
    first, second, third = [(await stage.submitted(worker, location=each))[0] for each in places]
    second.labels[POLICY_LABEL] = '{"stream_output":false}'
    runs = [first, third]
    for run in runs:
        scene.write(run, "up")
    await scene.poll(streams, worker)
    await scene.poll(streams, worker, seconds=5)

    assert len(scene.log.queries) == 1
    assert [scene.diary.texts(run) for run in runs] == [["workerpool0-0: up"]] * 2


async def test_nothing_is_read_while_no_run_needs_it(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    await scene.poll(streams, worker)

    assert scene.log.queries == []


async def test_a_run_that_wants_no_lines_gets_none(stage: Stage, scene: Scene) -> None:
    """Its policy stands in its labels, so that every worker knows."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    run.labels[POLICY_LABEL] = '{"stream_output":false}'
    scene.write(run, "one")
    await scene.poll(streams, worker)

    assert scene.log.queries == []


async def test_only_the_runs_holder_brings_its_lines(stage: Stage, scene: Scene) -> None:
    holder, other = await stage.worker("one"), await stage.worker("two")
    streams = scene.streams(other)
    run, _ = await stage.submitted(holder)
    scene.write(run, "one")
    await scene.poll(streams, other)

    assert scene.log.queries == []


async def test_the_last_lines_of_a_run_whose_worker_is_gone_are_told_by_one(
    stage: Stage, scene: Scene
) -> None:
    holder = await stage.worker("one")
    run, _ = await stage.submitted(holder)
    scene.write(run, "sh: python3: not found")
    stage.runs.put(run.id, RunState.CRASHED)
    workers = [await stage.worker(name) for name in ("two", "three")]
    every = [(scene.streams(worker, gone="one/"), worker) for worker in workers]
    for _ in range(3):
        for streams, worker in every:
            await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: sh: python3: not found"]


async def test_a_missing_permission_is_one_hint(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    hint = "Give the worker's account roles/logging.viewer in demo-project."
    scene.log.fault = AccessDeniedError("Could not read log entries.", hint=hint)
    for _ in range(20):
        await scene.poll(streams, worker)

    assert [line for line in stage.runs.logs[run.id] if "roles/logging.viewer" in line] == [
        f"The replicas' log lines do not appear here. Could not read log entries. {hint}"
    ]
    assert len(scene.log.queries) == 1


async def test_a_permission_that_was_granted_is_found_out(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.write(run, "one")
    scene.log.fault = AccessDeniedError("Could not read log entries.")
    await scene.poll(streams, worker)
    scene.log.fault = None
    await scene.poll(streams, worker, seconds=601)

    assert scene.diary.texts(run) == ["workerpool0-0: one"]


@pytest.mark.parametrize("denied", [["narrow"], ["narrow", "wide"]])
async def test_credentials_that_may_not_read_a_project_keep_no_others_lines_away(
    stage: Stage, scene: Scene, denied: list[str]
) -> None:
    """One query for all: with those that may, the worker's own after those of runs."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    runs = []
    for key in ("narrow", "wide"):
        runs.append(await scene.submitted(worker, credentials_key=key))
        stage.clock._now += 1
    error = AccessDeniedError("Could not read log entries.")
    scene.log.faults = dict.fromkeys(denied, error)
    asked = []
    for text in ("one", "two"):
        for run in runs:
            scene.write(run, text)
        await scene.read(streams, worker)
        asked.append(len(scene.log.queries))
        stage.clock._now += 15

    lines = ["workerpool0-0: one", "workerpool0-0: two"]
    assert [scene.diary.texts(run) for run in runs] == [lines] * 2
    assert asked == [len(denied) + 1, len(denied) + 2]
    assert not any("do not appear" in line for run in runs for line in stage.runs.logs[run.id])


async def test_what_goes_wrong_in_a_project_is_nothing_to_another(
    stage: Stage, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    await scene.submitted(worker, project="odd", location="europe-west4")
    run = await scene.submitted(worker)
    scene.log.faults["odd"] = ValueError("Fail to serialize NaN")
    for text in ("one", "two"):
        scene.write(run, text)
        with caplog.at_level(logging.WARNING):
            await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: one", "workerpool0-0: two"]
    assert "Log lines of project odd were not brought." in caplog.text


@pytest.mark.parametrize("ahead", [-90, 90, 150, 300])
async def test_a_worker_whose_clock_is_wrong_brings_all_lines(
    stage: Stage, scene: Scene, ahead: float
) -> None:
    worker = await stage.worker(ahead=ahead)
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    for number in range(4):
        scene.write(run, f"line {number}")
        await scene.poll(streams, worker)
    for _ in range(20):
        await scene.poll(streams, worker)
    (since,) = re.findall(r'timestamp>="(.*?)"', scene.log.queries[-1][1])

    assert scene.diary.texts(run) == [f"workerpool0-0: line {number}" for number in range(4)]
    # What is asked for of a job that is silent stays short.
    assert stage.wall.now() - datetime.fromisoformat(since) < timedelta(seconds=180)


@pytest.mark.parametrize("ahead", [-300, 300])
async def test_a_worker_whose_clock_is_wrong_brings_the_last_lines_of_a_dead_process(
    stage: Stage, scene: Scene, ahead: float
) -> None:
    worker = await stage.worker(ahead=ahead)
    streams = scene.streams(worker)
    run, _ = await stage.running(worker)
    for _ in range(8):
        await scene.poll(streams, worker)
    scene.write(run, "Killed")
    stage.runs.put(run.id, RunState.CRASHED)
    for _ in range(4):
        await scene.poll(streams, worker)
    assert scene.diary.texts(run) == ["workerpool0-0: Killed"]

    for _ in range(20):
        await scene.poll(streams, worker)
    assert not streams._streams


async def test_a_late_line_comes_also_where_reads_are_far_apart(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.log.fault = RateLimitedError("Could not read log entries.")
    for _ in range(30):
        await scene.poll(streams, worker)
    scene.log.fault = None
    scene.write(run, "bootstrap")
    late = scene.log.entries.pop()
    stage.clock._now += 1
    stage.start(run)
    queries = len(scene.log.queries)
    while len(scene.log.queries) == queries:
        await scene.poll(streams, worker)
    scene.log.entries.append(late)
    for _ in range(10):
        await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: bootstrap"]


async def test_a_denial_of_the_rate_doubles_the_pause(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    await stage.submitted(worker)
    scene.log.fault = RateLimitedError("Could not read log entries.")
    at = []
    for _ in range(100):
        before = len(scene.log.queries)
        await scene.poll(streams, worker, seconds=5)
        at += [stage.clock._now] * (len(scene.log.queries) - before)

    pauses = [after - before for before, after in pairwise(at)]
    assert pauses[:4] == [30, 60, 120, 120]


async def test_a_service_that_does_not_answer_delays_no_outcome(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, ticket = await stage.running(worker)
    scene.log.fault = ServiceUnavailableError("Could not read log entries.")
    await scene.poll(streams, worker)
    stage.complete(run)
    await scene.poll(streams, worker)

    assert (await ticket.wait_ended()).reason.value == "completed"


async def test_a_job_known_by_its_name_is_in_the_project_that_its_run_names(
    stage: Stage, scene: Scene
) -> None:
    """A name has a project's number, which home's project would answer to as well."""
    worker = await stage.worker()
    run = await scene.submitted(worker, project="odd")
    (job,) = stage.jobs(run)
    await stage.kill(worker)
    heir = await stage.worker()
    await stage.tick()

    search = heir._attendant._actor.search
    assert search.target_for(heir.book[run.id], job.resource_name).project == "odd"
