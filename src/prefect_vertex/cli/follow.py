"""Follow a flow run on the terminal: its state, how far it is, and at the end its logs."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun, Log
from prefect.client.schemas.sorting import LogSort
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

POLL_SECONDS = 0.5
PAGE = 200

_PROGRESS = re.compile(r"\b(?P<done>\d+) of (?P<total>\d+) (?P<unit>\w+)")


@dataclass
class Followed:
    """What is known of the run so far."""

    run: FlowRun
    logs: list[Log] = field(default_factory=list)
    done: int = 0
    total: int = 0
    unit: str = ""

    @property
    def headline(self) -> str:
        """State and message in one line."""
        state = self.run.state
        if state is None:
            return "no state yet"
        first = (state.message or "").strip().splitlines()
        return f"{state.name}: {first[0]}" if first else str(state.name)

    def take(self, lines: list[Log]) -> None:
        """Add log lines that are new, and read from them how far the flow is."""
        known = {line.id for line in self.logs}
        fresh = [line for line in lines if line.id not in known]
        self.logs = sorted([*self.logs, *fresh], key=lambda line: line.timestamp)
        for line in fresh:
            if match := _PROGRESS.search(line.message):
                self.done, self.total = int(match["done"]), int(match["total"])
                self.unit = match["unit"]


def follow(
    client: SyncPrefectClient,
    run_id: UUID,
    *,
    console: Console,
    check: Callable[[], None],
) -> Followed:
    """Show the run until it ends.

    Args:
        client: Of the server that has it.
        run_id: Which run.
        console: A terminal gets a moving line, anything else a line for each change.
        check: Called between looks; raises when waiting has no sense any more.
    """
    followed = Followed(client.read_flow_run(run_id))
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=console)
    bar = progress.add_task("Scheduled", total=None)
    seen: set[str] = set()
    # A terminal's line moves; a file's readers want each change once.
    with progress if console.is_terminal else nullcontext():
        while True:
            check()
            followed.run = client.read_flow_run(run_id)
            followed.take(_new_logs(client, run_id, followed))
            _show(console, progress, bar, followed, seen)
            if followed.run.state is not None and followed.run.state.is_final():
                time.sleep(POLL_SECONDS)
                followed.take(_new_logs(client, run_id, followed))
                return followed
            time.sleep(POLL_SECONDS)


def _show(
    console: Console, progress: Progress, bar: object, followed: Followed, seen: set[str]
) -> None:
    headline = followed.headline
    if followed.total:
        progress.update(bar, completed=followed.done, total=followed.total)  # type: ignore[arg-type]
    progress.update(bar, description=_short(headline))  # type: ignore[arg-type]
    line = f"{headline} ({followed.done}/{followed.total})" if followed.total else headline
    if not console.is_terminal and line not in seen:
        seen.add(line)
        console.print(f"  {line}", highlight=False)


def _short(text: str, width: int = 62) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _new_logs(client: SyncPrefectClient, run_id: UUID, followed: Followed) -> list[Log]:
    # Replicas' lines come late, with the time when they were written: before others that are known.
    offset = max(0, len(followed.logs) - PAGE // 2)
    return client.read_logs(
        log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])),
        sort=LogSort.TIMESTAMP_ASC,
        limit=PAGE,
        offset=offset,
    )


def print_tail(console: Console, logs: list[Log], lines: int = 30) -> None:
    """Print the last log lines of a run that did not end well."""
    for log in logs[-lines:]:
        moment: datetime = log.timestamp
        level = logging.getLevelName(log.level)
        console.print(
            f"  {moment:%H:%M:%S} {level:<7} {log.message}",
            highlight=False,
            markup=False,
        )
