"""What `demo` shows of a run: its words as they are, and its last lines."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, Log, State
from prefect.client.schemas.sorting import LogSort
from prefect.states import Crashed, Running
from rich.console import Console

from prefect_vertex.cli import follow as following
from prefect_vertex.cli.follow import TAIL, follow, last_logs, print_replicas, print_tail

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MARKUP = ["columns [a, b] are missing", "cannot open [/data/x.csv]", "[red]Gone[/] :warning:"]


class FakeClient:
    """A server with one run, which is in each state for one look."""

    def __init__(self, *states: State[Any], name: str = "keen-otter", lines: int = 0) -> None:
        self.runs = [FlowRun(flow_id=uuid4(), name=name, state=state) for state in states]
        self.logs = [
            Log(
                id=uuid4(),
                name="flow",
                level=20,
                message=f"line {number}",
                timestamp=NOON + timedelta(seconds=number),
                flow_run_id=uuid4(),
            )
            for number in range(lines)
        ]

    def read_flow_run(self, run_id: UUID) -> FlowRun:
        return self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]

    def read_artifacts(self, **wanted: Any) -> list[Any]:
        return []

    def read_flow_runs(self, **wanted: Any) -> list[FlowRun]:
        return []

    def read_logs(self, *, sort: LogSort, limit: int, **wanted: Any) -> list[Log]:
        newest_first = sort is LogSort.TIMESTAMP_DESC
        return (self.logs[::-1] if newest_first else self.logs)[:limit]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.0)


def shown(client: Any, *, terminal: bool) -> str:
    """All that is shown of the run until it ends, on a terminal or in a file."""
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=terminal, color_system=None)
    followed = follow(client, uuid4(), console=console, check=lambda: None)
    print_replicas(console, client, followed.run)
    print_tail(console, client.logs)
    return out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("message", MARKUP)
def test_a_state_s_words_are_shown_as_they_are(message: str, *, terminal: bool) -> None:
    """Square brackets and colons are somebody's data, not ours to make colours of."""
    assert message in shown(FakeClient(Running(), Crashed(message=message)), terminal=terminal)


@pytest.mark.parametrize("name", MARKUP)
def test_a_run_s_name_is_shown_as_it_is(name: str) -> None:
    assert name in shown(FakeClient(Crashed(), name=name), terminal=False)


def test_the_last_lines_are_the_last_however_many_there_are() -> None:
    client: Any = FakeClient(Crashed(), lines=1_000)
    found = last_logs(client, uuid4())

    assert [line.message for line in found] == [f"line {each}" for each in range(1_000)][-TAIL:]
