"""What the tests of log lines share: Cloud Logging and the runs' logs in memory, and a worker."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from prefect_vertex.lifecycle.lines import Line, LogEntry
from prefect_vertex.lifecycle.run import LEADER_LABEL, RunState, RunView
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.streams import Streams
from prefect_vertex.runs.journal import LastWords, key_of
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.vertex.logs import LogReading

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run


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
