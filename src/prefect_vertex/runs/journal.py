"""Journal: a flow run's log in Prefect, as lines of another origin are written into it.

Every line carries the time of its entry.  So the log itself tells what is already in it, whichever
worker wrote it, and nothing has to be remembered: a line is known by its logger, time and text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId, LogFilterTimestamp
from prefect.client.schemas.objects import Log, StateType
from prefect.client.schemas.sorting import LogSort
from prefect.settings import PREFECT_LOGGING_TO_API_BATCH_SIZE, PREFECT_LOGGING_TO_API_ENABLED

from prefect_vertex.lifecycle.lines import Line, SaidLine, is_from_container
from prefect_vertex.lifecycle.records import KnownLine
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.runs.asking import StatusError, asking
from prefect_vertex.runs.followers import crashed_followers
from prefect_vertex.runs.telling import as_logs, cut
from prefect_vertex.runs.translate import as_aware

PAGE_SIZE = 200
"""The server's own maximum (3.9.1)."""

PAGES = 25
"""How much of a log is read at most to find out what is in it."""

_WAITING = frozenset({StateType.SCHEDULED, StateType.PENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWords:
    """What the run's own process said last.

    Attributes:
        at: When, of a run that has ended before its end; None: it had never said anything.
        lines: Its last lines, each as often as it was sent; of a text of several, the whole too.
    """

    at: datetime | None = None
    lines: tuple[SaidLine, ...] = ()


class Journal(Protocol):
    """The logs of flow runs.

    Every method raises `PrefectUnavailableError` when the API fails.
    """

    async def known(self, run: RunView, since: datetime, until: datetime) -> list[KnownLine]:
        """The keys of the lines (see `Line.key`) that the log holds from that time, one a line."""
        ...

    async def last_words(self, run: RunView) -> LastWords:
        """What the run's own process said last."""
        ...

    async def started_at(self, run: RunView) -> datetime | None:
        """When the run last left Pending; None: it never did."""
        ...

    async def crashed_followers(self, run: RunView) -> list[RunView]:
        """The followers of the run's last attempt that crashed, the first to die first."""
        ...

    async def write(self, run: RunView, lines: Sequence[Line]) -> None:
        """Add lines to the run's log; a run that is gone takes none."""
        ...


class PrefectJournal:
    """`Journal` through Prefect's own client.

    Args:
        client: Entered.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client

    async def known(self, run: RunView, since: datetime, until: datetime) -> list[KnownLine]:
        """See `Journal.known`; the oldest 5,000 lines of that time are looked at, or nearly."""
        found: dict[uuid.UUID, KnownLine] = {}
        offset = 0
        for _ in range(PAGES):
            wanted = self._of(run, LogFilterTimestamp(after_=since, before_=until))
            async with asking():
                logs = await self._client.read_logs(
                    wanted, limit=PAGE_SIZE, offset=offset, sort=LogSort.TIMESTAMP_ASC
                )
            found |= {log.id: (log.name, as_aware(log.timestamp), log.message) for log in logs}
            if len(logs) < PAGE_SIZE:
                break
            # The server puts lines of one moment in no order: pages by number alone could give one
            # of them twice and another never.
            last = as_aware(logs[-1].timestamp)
            offset = 0 if last > since else offset + PAGE_SIZE
            since = last
        return list(found.values())

    async def last_words(self, run: RunView) -> LastWords:
        """See `Journal.last_words`; the newest 200 lines of the log are looked at."""
        async with asking():
            logs: list[Log] = await self._client.read_logs(
                self._of(run), limit=PAGE_SIZE, sort=LogSort.TIMESTAMP_DESC
            )
        own = [log for log in logs if is_from_container(log.name)]
        lines: list[SaidLine] = []
        for log in own:
            texts = log.message.split("\n")
            texts += [log.message] if len(texts) > 1 else []
            lines += [(as_aware(log.timestamp), text) for text in texts]
        times = [as_aware(log.timestamp) for log in own]
        if run.is_final:
            # Prefect's runner, which outlives the flow's process, speaks of its hooks afterwards.
            times = [at for at in times if at <= run.state_time]
        return LastWords(at=max(times, default=None), lines=tuple(lines))

    async def started_at(self, run: RunView) -> datetime | None:
        """See `Journal.started_at`."""
        async with asking():
            states = await self._client.read_flow_run_states(uuid.UUID(run.id))
        began: datetime | None = None
        before = StateType.SCHEDULED
        for state in sorted(states, key=lambda state: as_aware(state.timestamp)):
            if before in _WAITING and state.type not in _WAITING:
                # Without a container's word the wait was ended from outside.
                began = as_aware(state.timestamp) if state.type is StateType.RUNNING else None
            before = state.type
        return began

    async def crashed_followers(self, run: RunView) -> list[RunView]:
        """See `Journal.crashed_followers`."""
        return await crashed_followers(self._client, run)

    async def write(self, run: RunView, lines: Sequence[Line]) -> None:
        """See `Journal.write`; in batches, and not at all where logging to the API is off."""
        if not PREFECT_LOGGING_TO_API_ENABLED.value():
            return
        for batch in _batches(as_logs(run, lines), PREFECT_LOGGING_TO_API_BATCH_SIZE.value()):
            with suppress(StatusError):  # the run was deleted
                async with asking():
                    await self._client.create_logs(batch)

    @staticmethod
    def _of(run: RunView, within: LogFilterTimestamp | None = None) -> LogFilter:
        only = LogFilterFlowRunId(any_=[uuid.UUID(run.id)])
        return LogFilter(flow_run_id=only, timestamp=within)


def _batches(logs: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Batches of at most so many bytes, as Prefect's own logging sends them, and of 200 lines."""
    batch: list[dict[str, Any]] = []
    left = size
    for log in logs:
        length = len(json.dumps(log))
        if batch and (length > left or len(batch) == PAGE_SIZE):
            yield batch
            batch, left = [], size
        batch.append(log)
        left -= length
    if batch:
        yield batch


def key_of(line: Line) -> tuple[str, datetime, str]:
    """A line's key as the API gives it back: its text may have been cut."""
    logger, timestamp, text = line.key
    return (logger, timestamp, cut(text))
