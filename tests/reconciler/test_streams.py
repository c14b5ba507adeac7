"""The replicas' lines reach their run's log once, in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.runs.journal import LastWords
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.log_scene import Scene

pytestmark = pytest.mark.anyio


async def test_a_waiting_runs_lines_appear_once_with_their_replicas_names(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.write(run, "Job is preparing.", "service", is_plain=False)
    scene.write(run, "one")
    scene.write(run, "two", "workerpool1-0")

    await scene.poll(streams, worker)
    scene.write(run, "three")
    await scene.poll(streams, worker)
    await scene.poll(streams, worker)

    assert scene.diary.texts(run) == [
        "service: Job is preparing.",
        "workerpool0-0: one",
        "workerpool1-0: two",
        "workerpool0-0: three",
    ]


async def test_what_a_started_run_says_is_its_own_affair(stage: Stage, scene: Scene) -> None:
    """Lines from before its start still come when they are late; then nothing is read."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    await scene.poll(streams, worker)
    scene.write(run, "bootstrap")
    stage.clock._now += 1
    stage.start(run)
    stage.clock._now += 1
    scene.write(run, "a print of the flow")
    for _ in range(6):
        await scene.poll(streams, worker)
    queries = len(scene.log.queries)
    await scene.poll(streams, worker, seconds=60)

    assert scene.diary.texts(run) == ["workerpool0-0: bootstrap"]
    assert len(scene.log.queries) == queries


async def test_a_run_that_started_while_nobody_was_there_is_told_what_was_before(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    scene.write(run, "bootstrap")
    stage.clock._now += 1
    stage.start(run)
    stage.clock._now += 1
    scene.write(run, "a print of the flow")
    streams = scene.streams(worker)
    for _ in range(6):
        await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: bootstrap"]


async def test_a_run_that_died_before_python_shows_its_last_lines(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    await scene.poll(streams, worker)
    scene.write(run, "sh: python3: not found", severity=500)
    stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 127."))
    await scene.poll(streams, worker)
    await scene.poll(streams, worker)

    assert run.state is RunState.CRASHED
    assert scene.diary.texts(run) == ["workerpool0-0: sh: python3: not found"]


async def test_a_crash_of_a_running_flow_shows_what_followed_its_last_word(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.running(worker)
    scene.write(run, "12:00:00.000 | INFO    | Flow run 'a' - step 1")
    scene.diary.own[run.id] = LastWords(at=stage.wall.now(), lines=((stage.wall.now(), "step 1"),))
    for _ in range(8):
        await scene.poll(streams, worker)
    scene.write(run, "Fatal Python error: Segmentation fault")
    stage.move(stage.job(run), "FAILED", (3, "exited with a non-zero status of 139."))
    for _ in range(3):
        await scene.poll(streams, worker)

    assert run.state is RunState.CRASHED
    assert scene.diary.texts(run) == ["workerpool0-0: Fatal Python error: Segmentation fault"]


async def test_the_last_lines_of_a_replica_that_died_before_the_leader_are_there(
    stage: Stage, scene: Scene
) -> None:
    """The leader spoke on until it was ended; the other's lines are older than its last word."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.running(worker)
    scene.write(run, "long ago", "workerpool1-0")
    for _ in range(20):
        await scene.poll(streams, worker)
    scene.write(run, "12:00:00.000 | INFO    | Flow run 'b' - its own", "workerpool1-0")
    scene.write(run, "Killed", "workerpool1-0")
    scene.write(run, "a print of the leader's")
    stage.clock._now += 30
    scene.diary.own[run.id] = LastWords(at=stage.wall.now(), lines=((stage.wall.now(), "on"),))
    scene.write(run, "12:00:30.000 | INFO    | Flow run 'a' - on")
    stage.move(stage.job(run), "FAILED", (3, "The replica workerpool1-0 exited."))
    for _ in range(3):
        await scene.poll(streams, worker)

    assert run.state is RunState.CRASHED
    assert scene.diary.texts(run) == ["workerpool1-0: Killed"]


async def test_a_follower_that_was_killed_leaves_its_last_lines_where_its_leader_fails(
    stage: Stage, scene: Scene
) -> None:
    """In both logs, each once; the leader speaks for itself, and so does a follower that lives."""
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.running(worker, replicas=3)
    follower = stage.runs.add_follower(run, attempt=1, rank=1)
    stage.runs.add_follower(run, attempt=1, rank=2)
    for _ in range(2):
        await scene.poll(streams, worker)
    scene.write(run, "12:00:00.000 | INFO    | Flow run 'b' - sent", "workerpool1-0")
    said = ((stage.wall.now(), "sent"),)
    scene.diary.own[follower.id] = LastWords(at=stage.wall.now(), lines=said)
    stage.clock._now += 1
    scene.write(run, "12:00:01.000 | INFO    | Flow run 'b' - lost", "workerpool1-0")
    scene.write(run, "a print", "workerpool1-0")
    scene.write(run, "of one that lives", "workerpool1-1")
    scene.write(run, "of the leader")
    stage.runs.put(follower.id, RunState.CRASHED)
    await scene.poll(streams, worker)
    stage.runs.put(run.id, RunState.FAILED)
    for _ in range(4):
        await scene.poll(streams, worker)

    named = [f"workerpool1-0: [workerpool1-0] {text}" for text in ("lost", "a print")]
    assert scene.diary.texts(run) == named
    assert scene.diary.texts(follower) == ["workerpool1-0: lost", "workerpool1-0: a print"]


async def test_a_crash_is_told_without_the_lines_that_are_brought_themselves(
    stage: Stage, scene: Scene
) -> None:
    """The state has all of it; so has the log where no lines are brought."""
    says = (
        "The replica workerpool0-0 exited with a non-zero status of 4. Termination reason: Error."
    )
    told = []
    for source in (scene.log, None):
        worker = await stage.worker(f"w{source is None}")
        object.__setattr__(worker.world, "log_source", source)
        run, _ = await stage.running(worker)
        stage.move(stage.job(run), "FAILED", (3, f"{says} Error. \nno such thing\n"))
        await stage.tick(3)
        assert "no such thing" in run.message
        told.append("no such thing" in "".join(stage.runs.logs[run.id]))
        assert any("exited with status 4" in line for line in stage.runs.logs[run.id])
        await stage.kill(worker)

    assert told == [False, True]


async def test_what_a_dead_processs_parent_sends_later_is_not_brought_again(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.running(worker)
    await scene.poll(streams, worker)
    stage.runs.put(run.id, RunState.CRASHED)
    scene.write(run, "Killed")
    await scene.poll(streams, worker)
    scene.write(run, "12:00:07.000 | WARNING | Flow run 'a' - no hooks")
    said = ((stage.wall.now(), "no hooks"),)
    scene.diary.own[run.id] = LastWords(at=stage.wall.now(), lines=said)
    for _ in range(2):
        await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: Killed"]


async def test_a_traceback_is_one_record_and_another_worker_knows_its_lines(
    stage: Stage, scene: Scene
) -> None:
    first = await stage.worker()
    run, _ = await stage.submitted(first)
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1', "ValueError: x"]
    for text in lines:
        scene.write(run, text)
    await scene.poll(scene.streams(first), first)
    scene.write(run, "later")
    await scene.poll(scene.streams(first), first)

    text = "\n".join(lines)
    assert scene.diary.texts(run) == [f"workerpool0-0: {text}", "workerpool0-0: later"]


async def test_a_dead_follower_is_found_when_its_run_is_settled_after_its_leaders(
    stage: Stage, scene: Scene
) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.running(worker, replicas=2)
    follower = stage.runs.add_follower(run, attempt=1, rank=1)
    scene.write(run, "a print", "workerpool1-0")
    stage.runs.put(run.id, RunState.FAILED)
    for _ in range(6):
        await scene.poll(streams, worker)
    before = scene.diary.texts(run)
    stage.runs.put(follower.id, RunState.CRASHED)
    for _ in range(3):
        await scene.poll(streams, worker)

    assert (before, len(scene.diary.texts(run))) == ([], 1)


async def test_another_worker_goes_on_without_a_double(stage: Stage, scene: Scene) -> None:
    """What the run's log holds already is known by it, not by anybody's memory."""
    first = await stage.worker()
    streams = scene.streams(first)
    run, _ = await stage.submitted(first)
    scene.write(run, "one")
    await scene.poll(streams, first)
    second = scene.streams(first)
    scene.write(run, "two")
    await scene.poll(second, first)

    assert scene.diary.texts(run) == ["workerpool0-0: one", "workerpool0-0: two"]


@pytest.mark.parametrize("text", ["retrying", " 10%|#  | 1/9\r 20%|## | 2/9"])
async def test_lines_that_are_alike_are_not_doubled_by_the_workers_that_follow(
    stage: Stage, scene: Scene, text: str
) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    for insert_id in ("a", "b"):
        scene.write(run, text)
        last = scene.log.entries[-1]
        moment = scene.log.entries[0].timestamp
        scene.log.entries[-1] = replace(last, timestamp=moment, insert_id=insert_id)
    for _ in range(3):
        await scene.poll(scene.streams(worker), worker)

    assert scene.diary.texts(run) == [f"workerpool0-0: {text.rstrip()}"] * 2


async def test_a_lost_answer_of_prefect_doubles_nothing(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    await scene.poll(streams, worker)
    scene.write(run, "one")
    scene.diary.loses_answers = True
    with pytest.raises(PrefectUnavailableError):
        await scene.poll(streams, worker)
    scene.diary.loses_answers = False
    await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: one"]


async def test_lines_wait_while_prefect_takes_none(stage: Stage, scene: Scene) -> None:
    worker = await stage.worker()
    streams = scene.streams(worker)
    run, _ = await stage.submitted(worker)
    scene.write(run, "one")
    scene.diary.is_down = True
    with pytest.raises(PrefectUnavailableError):
        await scene.poll(streams, worker)
    scene.diary.is_down = False
    await scene.poll(streams, worker)

    assert scene.diary.texts(run) == ["workerpool0-0: one"]


async def test_an_interactive_shell_is_named_once(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    stage.move(stage.job(run), "RUNNING")
    await stage.tick()
    job = stage.gateway()._jobs[stage.job(run).resource_name.key]
    job.snapshot = replace(job.snapshot, web_access_uris={"workerpool0-0": "x.example.com"})
    await stage.tick(3)

    lines = [line for line in stage.runs.logs[run.id] if "shell" in line]
    assert lines == ["Web shell of workerpool0-0: https://x.example.com"]


async def test_under_an_emulator_no_page_of_the_console_is_named(stage: Stage) -> None:
    worker = await stage.worker()
    object.__setattr__(worker.world, "has_console", False)
    run, _ = await stage.submitted(worker)

    assert not any("https://" in line for line in stage.runs.logs[run.id])
