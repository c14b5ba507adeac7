"""Scribe: writes a job's entries into the logs of the runs that they are for, each once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from prefect_vertex.lifecycle.lines import (
    LEADER_TASK,
    LogEntry,
    SaidLine,
    task_name_of,
)
from prefect_vertex.lifecycle.records import KNOWN_WITHIN, lines_of, told_once, unknown
from prefect_vertex.lifecycle.run import RANK_LABEL, RunState, RunView
from prefect_vertex.lifecycle.sent import unsent
from prefect_vertex.lifecycle.streaming import OTHERS_BEFORE, Stream
from prefect_vertex.planning.durations import whole_number
from prefect_vertex.reconciler.pace import SeenEntries
from prefect_vertex.reconciler.ports import World
from prefect_vertex.runs.journal import Journal, LastWords
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.runs.telling import CUT_MARK

MAX_LINES = 500
"""Lines that one read brings into one run's log; of more the newest."""

MAX_DEAD = 4
"""Replicas whose last lines a run's log gets word for word: the first to die is the cause."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Dead:
    """A follower that died.

    Attributes:
        run: Its own flow run.
        said: What it has sent to it.
        since: From then on its lines are needed.
    """

    run: RunView
    said: tuple[SaidLine, ...]
    since: datetime


@dataclass(slots=True)
class _Ending:
    """What is known of a run that has ended.

    Attributes:
        started_at: When it left Pending; None: it never did.
        words: The last of the leader's process, where it died.
        dead: By replica.
    """

    started_at: datetime | None
    words: LastWords | None
    dead: dict[str, _Dead] = field(default_factory=dict)


class Scribe:
    """Writes lines.  What it remembers only saves questions: the logs themselves say what is there.

    Args:
        world: Its adapters.
        journal: Where lines go.
    """

    def __init__(self, world: World, journal: Journal) -> None:
        self._world = world
        self._journal = journal
        self._seen = SeenEntries()
        self._learned: set[Key] = set()
        self._endings: dict[Key, _Ending] = {}

    # --- who has died ----------------------------------------------------------------------------

    def has_asked(self, stream: Stream) -> bool:
        """Whether it is known how the stream's run ended."""
        return stream.key in self._endings

    async def ended(self, stream: Stream, view: RunView) -> Stream:
        """The stream of a run that has ended and may have dead replicas; safe to repeat.

        Raises:
            PrefectUnavailableError: The Prefect API failed.
        """
        known = self._endings.get(stream.key)
        ending = known or await self._learn_ending(view)
        if known is not None and known.words is not None:
            # The container's parent process goes on sending, and what is sent is late.
            known.words = replace(known.words, lines=(await self._journal.last_words(view)).lines)
        if view.replicas > 1 and ending.started_at is not None:
            await self._find_dead(ending, view, ending.started_at)
        self._endings[stream.key] = ending
        if ending.words is not None:
            if known is not None:
                return replace(stream, run=view)
            return stream.crashed(view, ending.started_at, ending.words.at)
        since = {task_name: each.since for task_name, each in ending.dead.items()}
        if stream.until is not None and stream.dead == since:
            return replace(stream, run=view)
        return stream.failed(view, ending.started_at, since)

    async def _learn_ending(self, view: RunView) -> _Ending:
        has_crashed = view.state is RunState.CRASHED
        words = await self._journal.last_words(view) if has_crashed else None
        return _Ending(await self._journal.started_at(view), words)

    async def _find_dead(self, ending: _Ending, view: RunView, started_at: datetime) -> None:
        """A replica's run may be settled after its leader's."""
        for follower in (await self._journal.crashed_followers(view))[:MAX_DEAD]:
            rank = whole_number(follower.labels.get(RANK_LABEL, ""))
            if rank is None or task_name_of(rank) in ending.dead:
                continue
            words = await self._journal.last_words(follower)
            died_before = min(follower.state_time, view.state_time)
            since = max(started_at, words.at or started_at, died_before - OTHERS_BEFORE)
            ending.dead[task_name_of(rank)] = _Dead(follower, words.lines, since)

    # --- writing ---------------------------------------------------------------------------------

    async def bring(self, stream: Stream, entries: Sequence[LogEntry], *, is_all: bool) -> None:
        """Write what of a job's entries is for its run's log, and for those of dead followers.

        Args:
            stream: The job's.
            entries: As they were read.
            is_all: Whether there are no more of that time.

        Raises:
            PrefectUnavailableError: The Prefect API failed; the next try doubles nothing.
        """
        fresh = [each for each in entries if each not in self._seen]
        fresh = [each for each in fresh if stream.takes(each.timestamp, each.task_name)]
        ending = self._endings.get(stream.key)
        kept = unsent(fresh, _said(ending) if ending is not None else None)
        # What was brought before is told, too: lines come before the error that repeats them.
        wanted = [each for each in entries if stream.takes(each.timestamp, each.task_name)]
        words = ending.words.lines if ending is not None and ending.words is not None else ()
        told = {each.key: each for each in told_once(wanted, words)}
        new = [told[each.key] for each in kept]
        if stream.key not in self._learned:
            new = await self._unknown(stream.run, new)
        lines = lines_of(new, named=stream.run.replicas > 1)
        # Of a loud job the oldest entries that came are the newest of more, unless they are known.
        has_gap = stream.is_loud and not is_all and bool(fresh) and fresh[0] is entries[0]
        if lines and (has_gap or len(lines) > MAX_LINES):
            count = len(lines) - MAX_LINES
            text = "Earlier log lines are left out here: this job writes more than can be read."
            if not has_gap:
                text = f"{count} earlier log lines are left out here."
            self._world.runs.log(stream.run, logging.INFO, text)
            lines = lines[-MAX_LINES:]
        try:
            if lines:
                await self._journal.write(stream.run, lines)
            if ending is not None:
                await self._tell_followers(ending.dead, kept)
        except PrefectUnavailableError:
            # The answer may be all that was lost: what is there is asked before the next try.
            self._learned.discard(stream.key)
            raise
        self._seen.add(kept)
        if is_all:
            self._learned.add(stream.key)

    async def _tell_followers(self, dead: Mapping[str, _Dead], kept: Sequence[LogEntry]) -> None:
        """A dead follower's lines are for the log of its own run too."""
        for task_name, each in dead.items():
            own = [entry for entry in kept if entry.task_name == task_name]
            own = [entry for entry in own if entry.timestamp >= each.since][-MAX_LINES:]
            lines = lines_of(await self._unknown(each.run, own))
            if lines:
                await self._journal.write(each.run, lines)

    async def _unknown(self, run: RunView, entries: list[LogEntry]) -> list[LogEntry]:
        """Those that the run's log does not hold."""
        if not entries:
            return entries
        since = entries[0].timestamp - KNOWN_WITHIN
        known = await self._journal.known(run, since, entries[-1].timestamp)
        return unknown(entries, known, cut_mark=CUT_MARK)

    # --- what is remembered ----------------------------------------------------------------------

    def unlearn(self, stream: Stream) -> None:
        """Ask what the run's log holds before the next line is written."""
        self._learned.discard(stream.key)

    def forget(self, key: Key) -> None:
        """The job needs no lines any more."""
        self._endings.pop(key, None)
        self._learned.discard(key)


def _said(ending: _Ending) -> dict[str, tuple[SaidLine, ...]]:
    said = {task_name: each.said for task_name, each in ending.dead.items()}
    if ending.words is not None:
        said[LEADER_TASK] = ending.words.lines
    return said
