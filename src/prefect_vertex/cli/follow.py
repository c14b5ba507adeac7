"""Follow a flow run on the terminal: its state, how far it is, at the end its replicas and logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, Log
from prefect.client.schemas.sorting import LogSort
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, RANK_LABEL
from prefect_vertex.replica.progress import KEY

POLL_SECONDS = 0.5
PAGE = 200
TAIL = 30
"""Log lines that are shown of a run that did not end well."""

_WHOLE = 100.0


@dataclass
class Followed:
    """What is known of the run so far."""

    run: FlowRun
    percent: float | None = None

    @property
    def headline(self) -> str:
        """State and message in one line."""
        state = self.run.state
        if state is None:
            return "no state yet"
        first = (state.message or "").strip().splitlines()
        return f"{state.name}: {first[0]}" if first else str(state.name)


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
        TextColumn("  {task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
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
            ended = followed.run.state is not None and followed.run.state.is_final()
            # The artifact is a few seconds behind the run.
            followed.percent = None if ended else _percent(client, run_id)
            _show(console, progress, bar, followed, seen)
            if ended:
                return followed
            time.sleep(POLL_SECONDS)


def _show(
    console: Console, progress: Progress, bar: object, followed: Followed, seen: set[str]
) -> None:
    headline = followed.headline
    percent = followed.percent
    if percent is not None:
        progress.update(bar, completed=percent, total=_WHOLE)  # type: ignore[arg-type]
    progress.update(bar, description=_short(headline))  # type: ignore[arg-type]
    line = f"{headline} ({percent:.0f} %)" if percent is not None else headline
    if not console.is_terminal and line not in seen:
        seen.add(line)
        console.print(f"  {line}", highlight=False, markup=False, emoji=False)


def _short(text: str, width: int = 62) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _percent(client: SyncPrefectClient, run_id: UUID) -> float | None:
    """How far all replicas together are, as the run's progress artifact says."""
    found = client.read_artifacts(
        artifact_filter=ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]),
            key=ArtifactFilterKey(any_=[KEY]),
        ),
        limit=1,
    )
    return float(str(found[0].data)) if found else None


def last_logs(client: SyncPrefectClient, run_id: UUID) -> list[Log]:
    """The last log lines of a run that has ended, in the order of their times."""
    # The last lines of its processes reach the server after its last state.
    time.sleep(POLL_SECONDS)
    found = client.read_logs(
        log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])),
        sort=LogSort.TIMESTAMP_DESC,
        limit=TAIL,
    )
    return found[::-1]


def print_replicas(console: Console, client: SyncPrefectClient, leader: FlowRun) -> None:
    """Print the leader's run and the runs of its followers, with their states."""
    children = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[leader.id])
        ),
        limit=PAGE,
    )
    followers = [run for run in children if RANK_LABEL in run.labels]
    followers.sort(
        key=lambda run: [int(str(run.labels[key])) for key in (ATTEMPT_LABEL, RANK_LABEL)]
    )
    table = Table(title="Replicas", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("rank", "flow run", "state", "seconds"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for run in (leader, *followers):
        rank = str(run.labels.get(RANK_LABEL, "0, leader"))
        state = run.state.name if run.state is not None else "no state"
        seconds = f"{run.total_run_time.total_seconds():.1f}"
        # As texts of their own, or they would be taken for markup.
        table.add_row(rank, Text(run.name), Text(str(state)), seconds)
    console.print(table)


def print_tail(console: Console, logs: list[Log]) -> None:
    """Print log lines of a run that did not end well."""
    for log in logs:
        moment: datetime = log.timestamp
        level = logging.getLevelName(log.level)
        console.print(
            f"  {moment:%H:%M:%S} {level:<7} {log.message}",
            highlight=False,
            markup=False,
            emoji=False,
        )
