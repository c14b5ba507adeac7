"""Streams: the replicas' log lines, brought into the flow runs' logs beside everything else.

It is a task of its own, which no outcome waits for, and whatever fails in it only leaves lines out.
It keeps nothing that matters: which lines a run has already stands in the run's own log, where each
has its entry's time, so that another worker goes on where this one stopped.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import anyio

from prefect_vertex.errors import (
    AccessDeniedError,
    PrefectVertexError,
    RateLimitedError,
    SetupError,
)
from prefect_vertex.lifecycle.clocks import Lead
from prefect_vertex.lifecycle.lines import LogEntry
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.lifecycle.streaming import WINDOW, Stream, loud_jobs, may_have_dead
from prefect_vertex.reconciler.audience import Audience
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.claims import win
from prefect_vertex.reconciler.faults import log_fault
from prefect_vertex.reconciler.pace import Pace
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.scribe import MAX_LINES, Scribe
from prefect_vertex.runs.journal import Journal
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.vertex.log_query import log_query
from prefect_vertex.vertex.logs import LogReading, LogSource

logger = logging.getLogger(__name__)

MAX_LOUD = 4
"""Jobs that are asked for alone at one time, a request each: a quarter of the project's quota."""

MAX_HINTED = 10_000

MAX_AHEAD = timedelta(hours=1)
"""No clock is taken to be further ahead: such a machine could hardly sign in to Google."""

_DENIALS = (AccessDeniedError, SetupError)


class Streams:
    """What is read for which run.

    Args:
        world: Its adapters.
        source: Where entries are read.
        journal: Where lines go.
        is_gone: Whether a process is certainly gone, by its signature.
    """

    def __init__(
        self,
        world: World,
        source: LogSource,
        journal: Journal,
        *,
        is_gone: Callable[[str], bool],
    ) -> None:
        self._world = world
        self._source = source
        self._journal = journal
        self._scribe = Scribe(world, journal)
        self._audience = Audience(world, is_gone=is_gone)
        self._streams: dict[tuple[str, str], Stream] = {}
        self._paces: dict[str, Pace] = {}
        # A clock that is behind only reads more twice.
        self._lead = Lead(most=MAX_AHEAD, least=timedelta())
        self._others: set[tuple[str, str]] = set()
        # Jobs whose run has started: what is remembered of the run may be older than that.
        self._ended: set[tuple[str, str]] = set()
        self._hinted: set[str] = set()
        self._wanted = anyio.Event()

    # --- what a tick sees ----------------------------------------------------------------------

    def look(self, book: Mapping[str, Care], views: Mapping[str, RunView]) -> None:
        """Note which runs need lines; asks nobody.

        Args:
            book: The runs under care.
            views: The runs that were just read.
        """
        now = self._world.clock.now()
        for run_id in {*book, *views}:
            care = book.get(run_id)
            view = views.get(run_id) or (care.seen if care is not None else None)
            if view is not None and self._audience.includes(care, view):
                for key in self._audience.needless(care, view, now):
                    self._forget(key)
                for fresh in self._audience.streams(care, view, now):
                    if fresh.key in self._ended and not may_have_dead(view):
                        continue
                    known = self._streams.setdefault(fresh.key, fresh)
                    if known.run.state is view.state and known.run.observed_at < view.observed_at:
                        self._streams[fresh.key] = replace(known, run=view)
        self._ended &= {key for care in book.values() for key in care.jobs}
        if self._streams:
            self._wanted.set()

    def _is_over(self, stream: Stream, now: datetime) -> bool:
        dated = replace(stream, run=self._world.leads.run(stream.run))
        return dated.is_over(now)

    # --- the task ------------------------------------------------------------------------------

    async def run_forever(self) -> None:
        """Read until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                await self.poll()
            except PrefectUnavailableError as error:
                logger.debug("The replicas' log lines wait. %s", error)
            except Exception as error:  # noqa: BLE001 - lines are an extra: nothing else feels it
                text = "Log lines were not brought; the next read follows."
                log_fault(logger, error, text)
            if not self._streams:
                self._wanted = anyio.Event()
            await anyio.sleep(1.0)

    async def poll(self) -> None:
        """Read every project that some run needs and that may be read again.

        Raises:
            PrefectUnavailableError: The Prefect API failed; nothing is lost, it is read again.
        """
        now = self._world.clock.now()
        for stream in [each for each in self._streams.values() if self._is_over(each, now)]:
            if stream.until is not None:
                self._ended.add(stream.key)
            self._forget(stream.key)
        projects: dict[str, list[Stream]] = defaultdict(list)
        for key, stream in self._streams.items():
            if key not in self._others:
                projects[stream.target.project].append(stream)
        # One project that does not answer keeps no other waiting.
        failures: list[PrefectUnavailableError] = []

        async def one(project: str, streams: Sequence[Stream]) -> None:
            try:
                await self._visit(project, streams)
            except PrefectUnavailableError as error:
                failures.append(error)
            except Exception as error:  # noqa: BLE001 - nor does an entry nobody has thought of
                text = "Log lines of project %s were not brought."
                log_fault(logger, error, text, project)

        async with anyio.create_task_group() as group:
            for project, streams in projects.items():
                group.start_soon(one, project, streams)
        if failures:
            raise failures[0]

    async def _visit(self, project: str, streams: Sequence[Stream]) -> None:
        now = self._world.clock.now()
        usual = Pace(self._world.figures.log_poll_seconds)
        pace = self._paces.setdefault(project, usual)
        if pace.is_due(now):
            pace.ask(now)
            await self._read(project, streams, pace)
        if pace.denial:
            self._hint(streams, pace.denial)

    async def _read(self, project: str, streams: Sequence[Stream], pace: Pace) -> None:
        """One query for the project, for those first that have waited longest.

        Jobs that write more than it has room for are asked for alone, after all others.
        """
        ordered = sorted(streams, key=lambda stream: stream.asked_at)
        home = [each for each in self._world.home() if each.project == project]
        targets = [*(stream.target for stream in ordered), *sorted(home, key=str)]
        keys = list(dict.fromkeys(target.credentials_key for target in targets))
        quiet = [stream for stream in ordered if not stream.is_loud]
        if quiet and not await self._ask(project, quiet, keys, pace):
            return
        now_known = [self._streams.get(stream.key) for stream in ordered]
        loud = [stream for stream in now_known if stream is not None and stream.is_loud]
        for stream in loud[:MAX_LOUD]:
            if not await self._ask(project, [stream], keys, pace):
                return
        if pace.trouble:
            logger.info("Log entries in project %s can be read again.", project)
        pace.answered()

    async def _ask(
        self, project: str, streams: Sequence[Stream], keys: Sequence[str], pace: Pace
    ) -> bool:
        """One query, and what comes of it; whether it was answered."""
        first = streams[0]
        until = first.asked_until if first.is_loud else None
        text, count = log_query([(each.job.job_id, each.since) for each in streams], until)
        asked_at = self._world.clock.now()
        # Who may read a project's entries may read those of all its jobs.
        usable = [key for key in keys if pace.may_use(key, asked_at)] or keys
        for key in usable:
            try:
                reading = await self._source.read(project, key, text, newest=first.is_loud)
            except PrefectVertexError as error:
                if isinstance(error, _DENIALS):
                    pace.deny_key(key, asked_at)
                    if key != usable[-1]:
                        continue
                self._failed(project, pace, error)
                return False
            await self._bring_all(streams[:count], reading, asked_at)
            return True
        return False

    async def _bring_all(
        self, streams: Sequence[Stream], reading: LogReading, asked_at: datetime
    ) -> None:
        # Entries first, runs second: what a run has become by then bounds what is for its log.
        views = await self._world.runs.read_many({stream.run.id for stream in streams})
        by_job: dict[str, list[LogEntry]] = defaultdict(list)
        for entry in reading.entries:
            by_job[entry.job_id].append(entry)
        passed = [entry.timestamp for entry in reading.entries]
        self._lead.learn(asked_at, [*passed, *(stream.created for stream in streams)])
        # Entries have Google's time, and are asked for by it.  That and not how far each job has
        # been read goes into it, so that what is asked for of a silent job moves on as time passes.
        arrived = self._lead.there(asked_at) - WINDOW
        loud: set[str] = set()
        if not reading.is_complete:
            loud = loud_jobs((entry.job_id for entry in reading.entries), MAX_LINES)
        for stream in streams:
            view = views.get(stream.run.id, stream.run)
            turned = await self._turned(stream, view)
            if turned is None:
                continue
            self._streams[stream.key] = turned
            await self._scribe.bring(turned, by_job[stream.job.job_id], is_all=reading.is_complete)
            if turned.since < stream.since:
                # What was not needed while the run lived is now: it is read from there next.
                self._scribe.unlearn(stream)
            elif reading.is_complete or (reading.entries and stream.is_loud):
                turned = turned.after_read(asked_at, arrived)
            elif reading.entries:
                turned = turned.after_part(passed[-1], arrived)
            is_loud = stream.is_loud and not reading.is_complete
            is_loud = is_loud or stream.job.job_id in loud
            self._streams[stream.key] = replace(turned, is_loud=is_loud, asked_at=asked_at)

    async def _turned(self, stream: Stream, view: RunView) -> Stream | None:
        """The stream, by what its run has become; None where another worker brings it."""
        if may_have_dead(view):
            if not (self._scribe.has_asked(stream) or await self._is_mine(stream, view)):
                self._others.add(stream.key)
                return None
            return await self._scribe.ended(stream, view)
        if view.state is RunState.PENDING or stream.until is not None:
            return replace(stream, run=view)
        started_at = await self._journal.started_at(view)
        return stream.started(view, started_at or view.state_time)

    async def _is_mine(self, stream: Stream, view: RunView) -> bool:
        """Whether this process tells the run's last lines: of one that others held, one does."""
        if stream.was_read or view.holder == self._world.signature:
            return True
        key = f"prefect-vertex-log-a{max(view.attempt, 1)}"
        return await win(self._world, view.id, key, is_gone=self._audience.is_gone)

    # --- what goes wrong -----------------------------------------------------------------------

    def _failed(self, project: str, pace: Pace, error: PrefectVertexError) -> None:
        now = self._world.clock.now()
        if isinstance(error, _DENIALS):
            pace.deny(now, str(error))
        elif isinstance(error, RateLimitedError):
            pace.slow_down(now)
        kind = getattr(error, "code", "") or type(error).__name__
        if pace.trouble != kind:
            pace.trouble = kind
            text = "Log entries in project %s are not read for now, or less often. %s"
            logger.warning(text, project, error)

    def _hint(self, streams: Sequence[Stream], reason: str) -> None:
        """Say once in a run's log why its replicas' lines are missing there."""
        if len(self._hinted) > MAX_HINTED:
            self._hinted.clear()
        for stream in streams:
            if stream.run.id not in self._hinted:
                self._hinted.add(stream.run.id)
                text = f"The replicas' log lines do not appear here. {reason}"
                self._world.runs.log(stream.run, logging.WARNING, text)

    def _forget(self, key: tuple[str, str]) -> None:
        self._streams.pop(key, None)
        self._scribe.forget(key)
        self._others.discard(key)
