"""Jobs that write more than is read at once keep no other's lines away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.reconciler.scribe import MAX_LINES

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.log_scene import Scene

pytestmark = pytest.mark.anyio


async def test_a_flood_is_cut_and_says_so(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    for number in range(MAX_LINES + 3):
        scene.write(run, str(number))
    await scene.poll(streams, worker)
    await scene.poll(streams, worker)

    assert len(scene.diary.lines[run.id]) == MAX_LINES
    assert scene.diary.texts(run)[-1] == f"workerpool0-0: {MAX_LINES + 2}"
    assert "3 earlier log lines are left out here." in stage.runs.logs[run.id]


async def test_a_job_that_writes_without_end_delays_no_other(stage: Stage, scene: Scene) -> None:
    """All its lines are of one moment, more than a query gives; the newest of them come."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    loud, _ = await stage.submitted(worker)
    quiet, _ = await stage.submitted(worker)
    scene.log.room = 2 * MAX_LINES
    for number in range(6 * MAX_LINES):
        scene.write(loud, str(number))
    stage.clock._now += 1
    scene.write(quiet, "ready")
    await scene.poll(streams, worker)
    await scene.poll(streams, worker)

    assert scene.diary.texts(quiet) == ["workerpool0-0: ready"]
    assert scene.diary.texts(loud)[-1] == f"workerpool0-0: {6 * MAX_LINES - 1}"
    assert any("Earlier log lines are left out here" in line for line in stage.runs.logs[loud.id])


async def test_a_late_line_of_a_quiet_job_comes_beside_a_flood(stage: Stage, scene: Scene) -> None:
    """It is older than what the flood cut short, and arrives afterwards."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    loud, _ = await stage.submitted(worker)
    quiet, _ = await stage.submitted(worker)
    await scene.poll(streams, worker)
    scene.write(quiet, "sh: python3: not found")
    late = scene.log.entries.pop()
    stage.clock._now += 5
    scene.log.room = 2 * MAX_LINES
    for number in range(2 * MAX_LINES + 1):
        scene.write(loud, str(number))
    await scene.poll(streams, worker)
    scene.log.entries.append(late)
    for _ in range(4):
        await scene.poll(streams, worker)

    assert scene.diary.texts(quiet) == ["workerpool0-0: sh: python3: not found"]


async def test_many_jobs_that_write_at_once_are_all_read(stage: Stage, scene: Scene) -> None:
    """None is loud, and together they are more than a query gives, within what may be late."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    runs = [(await stage.submitted(worker))[0] for _ in range(10)]
    await scene.poll(streams, worker)
    scene.log.room = 60
    for number in range(10):
        for run in runs:
            scene.write(run, str(number))
    for _ in range(5):
        await scene.poll(streams, worker)

    every = [f"workerpool0-0: {number}" for number in range(10)]
    assert [scene.diary.texts(run) for run in runs] == [every] * 10


async def test_the_last_lines_of_a_loud_job_that_died_are_there(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.log.room = 100
    for number in range(1000):
        scene.write(run, str(number))
    await scene.poll(streams, worker)
    for number in range(1000, 2000):
        scene.write(run, str(number))
    scene.write(run, "sh: python3: not found")
    stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 127."))
    await scene.poll(streams, worker)

    assert scene.diary.texts(run)[-1] == "workerpool0-0: sh: python3: not found"


async def test_a_job_that_is_loud_once_is_read_with_all_others_again(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.log.room = 100
    for number in range(110):
        scene.write(run, str(number))
    await scene.poll(streams, worker)
    scene.write(run, "later")
    await scene.poll(streams, worker, seconds=90)
    await scene.poll(streams, worker)
    queries = len(scene.log.queries)
    await scene.poll(streams, worker)

    assert [text.partition(": ")[2] for text in scene.diary.texts(run)] == [
        *map(str, range(110)),
        "later",
    ]
    assert len(scene.log.queries) == queries + 1


async def test_what_a_loud_job_wrote_before_its_run_started_is_still_found(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    await scene.poll(streams, worker)
    scene.log.room = 100
    for number in range(1000):
        scene.write(run, str(number))
    stage.clock._now += 1
    stage.start(run)
    stage.clock._now += 1
    for _ in range(1000):
        scene.write(run, "a print of the flow")
    await scene.poll(streams, worker)
    await scene.poll(streams, worker)

    assert scene.diary.texts(run)[-1] == "workerpool0-0: 999"


async def test_a_search_that_found_nothing_yet_is_begun_again(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.write(run, "one")
    scene.log.empty_answers = 1
    await scene.poll(streams, worker)
    await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: one"]
