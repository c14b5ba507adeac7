"""The replicas' lines reach their run's log once, in time, and stop nothing when they fail."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from prefect_vertex.errors import AccessDeniedError, RateLimitedError, ServiceUnavailableError
from prefect_vertex.lifecycle.lines import Line, LogEntry
from prefect_vertex.lifecycle.run import LEADER_LABEL, POLICY_LABEL, RunState, RunView
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.scribe import MAX_LINES
from prefect_vertex.reconciler.streams import Streams
from prefect_vertex.runs.journal import LastWords, key_of
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.vertex.logs import LogReading

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio


@dataclass
class Log:
    """Cloud Logging in memory: entries that have arrived, and what goes wrong."""

    entries: list[LogEntry] = field(default_factory=list)
    queries: list[tuple[str, str]] = field(default_factory=list)
    fault: Exception | None = None
    faults: dict[str, Exception] = field(default_factory=dict)
    """Of a project, or of credentials."""
    room: int = 100_000
    empty_answers: int = 0

    async def read(
        self, project: str, credentials_key: str, query: str, *, newest: bool = False
    ) -> LogReading:
        self.queries.append((project, query))
        fault = self.fault or self.faults.get(project) or self.faults.get(credentials_key)
        if fault is not None:
            raise fault
        if self.empty_answers:
            self.empty_answers -= 1
            return LogReading(is_complete=False)
        found = sorted(
            (entry for entry in self.entries if _matches(query, entry)),
            key=lambda entry: entry.order,
        )
        room = self.room // 4 if newest else self.room
        part = found[-room:] if newest else found[:room]
        return LogReading(entries=tuple(part), is_complete=len(part) == len(found))


def _matches(query: str, entry: LogEntry) -> bool:
    end = re.search(r'timestamp<"(.*?)"', query)
    if end is not None and entry.timestamp >= datetime.fromisoformat(end[1]):
        return False
    return any(
        f'"{entry.job_id}"' in ids and entry.timestamp >= datetime.fromisoformat(since)
        for ids, since in re.findall(r'job_id=\((.*?)\) AND timestamp>="(.*?)"', query)
    )


class Diary:
    """The runs' logs in memory."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.lines: dict[str, list[Line]] = defaultdict(list)
        self.own: dict[str, LastWords] = {}
        self.is_down = False
        self.loses_answers = False

    async def known(self, run: RunView, since: datetime, until: datetime) -> list[Any]:
        return [key_of(each) for each in self.lines[run.id] if since <= each.timestamp <= until]

    async def last_words(self, run: RunView) -> LastWords:
        return self.own.get(run.id, LastWords())

    async def started_at(self, run: RunView) -> datetime | None:
        history = self._stage.runs.rows[run.id].history
        return next((at for state, _, _, at in history if state is RunState.RUNNING), None)

    async def crashed_followers(self, run: RunView) -> list[RunView]:
        rows = self._stage.runs.follower_rows.values()
        dead = [row for row in rows if row.state is RunState.CRASHED]
        return [self._stage.runs._view(row) for row in dead if row.labels[LEADER_LABEL] == run.id]

    async def write(self, run: RunView, lines: Sequence[Line]) -> None:
        if self.is_down:
            raise PrefectUnavailableError("The Prefect API answered 503 to POST /logs/.")
        self.lines[run.id] += lines
        if self.loses_answers:
            raise PrefectUnavailableError("The Prefect API did not answer: ReadTimeout.")

    def texts(self, run: Run) -> list[str]:
        ordered = sorted(self.lines[run.id], key=lambda line: line.timestamp)
        return [f"{line.logger.rpartition('.')[2]}: {line.text}" for line in ordered]


class Scene:
    """A worker's streams, and a job that writes."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.log = Log()
        self.diary = Diary(stage)

    def streams(self, worker: Reconciler, *, gone: str = "nobody/") -> Streams:
        """A worker's."""

        def is_gone(signature: str) -> bool:
            return signature.startswith(gone)

        return Streams(worker.world, self.log, self.diary, is_gone=is_gone)

    async def submitted(self, worker: Reconciler, **place: Any) -> Run:
        """A run whose job is in another project, or is reached by other credentials."""
        run = self.stage.runs.add()
        self.stage.pick_up(run, worker.world.worker_name)
        assignment = self.stage.assignment(run)
        candidates = tuple(replace(each, **place) for each in assignment.spec.candidates)
        worker.take(replace(assignment, spec=replace(assignment.spec, candidates=candidates)))
        await self.stage.rest()
        return run

    def write(self, run: Run, text: str, replica: str = "workerpool0-0", **fields: Any) -> None:
        """A replica writes a line now, which arrives at once."""
        number = len(self.log.entries)
        self.log.entries.append(
            LogEntry(
                job_id=self.stage.job(run).resource_name.job_id,
                task_name=replica,
                timestamp=self.stage.wall.now() + timedelta(microseconds=number),
                insert_id=f"{number:06}",
                text=text,
                **fields,
            )
        )

    async def poll(self, streams: Streams, worker: Reconciler, seconds: float = 15) -> None:
        """Let time pass, tick, and read."""
        await self.stage.tick(seconds=seconds)
        await self.read(streams, worker)

    async def read(self, streams: Streams, worker: Reconciler) -> None:
        """Read at once."""
        views = await worker.world.runs.read_many(self.stage.runs.rows)
        streams.look(worker.book, views)
        await streams.poll()


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return Scene(stage)


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
