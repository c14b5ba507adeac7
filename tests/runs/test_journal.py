"""Lines with times of their own in a run's log, on a real server."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import LogCreate
from prefect.client.schemas.filters import LogFilter
from prefect.client.schemas.objects import FlowRun, Log, StateType
from prefect.client.schemas.sorting import LogSort
from prefect.settings import (
    PREFECT_LOGGING_TO_API_BATCH_SIZE,
    PREFECT_LOGGING_TO_API_ENABLED,
    PREFECT_LOGGING_TO_API_MAX_LOG_SIZE,
    temporary_settings,
)

from prefect_vertex.lifecycle.lines import Line
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.runs.journal import PAGE_SIZE, PrefectJournal, key_of
from prefect_vertex.runs.translate import to_view

if TYPE_CHECKING:
    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 1, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture
def journal(client: PrefectClient) -> PrefectJournal:
    return PrefectJournal(client)


@pytest.fixture
def say(client: PrefectClient) -> Callable[..., Awaitable[None]]:
    """What the run's own process sends."""

    async def send(run: FlowRun, *texts: str, at: datetime, logger: str) -> None:
        await client.create_logs(
            [
                LogCreate(name=logger, level=20, message=text, timestamp=at, flow_run_id=run.id)
                for text in texts
            ]
        )

    return send


class Shuffling:
    """As much of a server as `known` needs: those of one moment come in another order each time."""

    def __init__(self, logs: list[Log]) -> None:
        self._logs = logs

    async def read_logs(
        self, wanted: LogFilter, *, limit: int, offset: int, sort: LogSort
    ) -> list[Log]:
        assert sort is LogSort.TIMESTAMP_ASC
        assert wanted.timestamp is not None
        since = wanted.timestamp.after_
        assert since is not None
        self._logs.reverse()
        self._logs.sort(key=lambda log: log.timestamp)
        found = [log for log in self._logs if log.timestamp >= since]
        return found[offset : offset + limit]


def view_of(run: FlowRun) -> RunView:
    return to_view(run, observed_at=datetime.now(UTC))


def a_line(text: str, *, second: float = 0, **fields: Any) -> Line:
    moment = NOON + timedelta(seconds=second)
    usual = {"logger": "prefect.vertex.workerpool0-0", "level": 20}
    return Line(**{**usual, "timestamp": moment, "text": text, **fields})


async def test_a_line_that_was_written_is_known_by_any_worker(
    journal: PrefectJournal, client: PrefectClient, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    lines = [a_line(f"line {number}", second=number) for number in range(PAGE_SIZE + 5)]
    await journal.write(view_of(run), lines)

    known = await journal.known(view_of(run), lines[0].timestamp, lines[-1].timestamp)

    assert sorted(known) == sorted(key_of(line) for line in lines)
    assert key_of(a_line("another")) not in known


async def test_lines_that_are_alike_are_known_as_often_as_they_were_written(
    journal: PrefectJournal, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    await journal.write(view_of(run), [a_line("retrying")] * 2)

    assert await journal.known(view_of(run), NOON, NOON) == [key_of(a_line("retrying"))] * 2


async def test_lines_of_one_moment_are_known_across_pages_in_whatever_order_they_come() -> None:
    """A server orders them by time alone, and each answer may have another order."""
    logs = [
        Log(name="a", level=20, message=str(number), timestamp=NOON + timedelta(seconds=second))
        for number, second in enumerate([0] * (PAGE_SIZE - 1) + [1] * 2 + [2] * PAGE_SIZE + [3])
    ]
    server: Any = Shuffling(logs)
    run: Any = SimpleNamespace(id=str(uuid.uuid4()))

    known = await PrefectJournal(server).known(run, NOON, NOON + timedelta(seconds=3))

    assert sorted(int(text) for _, _, text in known) == list(range(len(logs)))


async def test_a_line_that_is_too_long_is_cut_and_known_all_the_same(
    journal: PrefectJournal, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    line = a_line("x" * 9000)
    with temporary_settings({PREFECT_LOGGING_TO_API_MAX_LOG_SIZE: 8000}):
        await journal.write(view_of(run), [line])
        known = await journal.known(view_of(run), NOON, NOON)
        assert known == [key_of(line)]
    ((_, _, text),) = known
    assert text.endswith("... [truncated]")


async def test_long_lines_are_sent_in_requests_that_the_server_takes(
    journal: PrefectJournal, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    lines = [a_line(f"{number} {'x' * 3000}", second=number) for number in range(6)]
    sizes = {PREFECT_LOGGING_TO_API_BATCH_SIZE: 16_000, PREFECT_LOGGING_TO_API_MAX_LOG_SIZE: 16_000}
    with temporary_settings(sizes):
        await journal.write(view_of(run), lines)

    known = await journal.known(view_of(run), NOON, lines[-1].timestamp)
    assert known == [key_of(line) for line in lines]


async def test_the_last_words_are_the_runs_own(
    journal: PrefectJournal, pool: Pool, say: Callable[..., Awaitable[None]]
) -> None:
    run = await pool.run(StateType.RUNNING)
    assert (await journal.last_words(view_of(run))).at is None
    await journal.write(view_of(run), [a_line("bootstrap", second=99)])
    await say(run, "queued", at=NOON + timedelta(seconds=50), logger="prefect.flow_runs.worker")
    bar = "1/9\r2/9"
    await say(run, "step 1\n  more", "again", "again", bar, at=NOON, logger="prefect.flow_runs")

    words = await journal.last_words(view_of(run))

    assert words.at == NOON
    assert {at for at, _ in words.lines} == {NOON}
    texts = sorted(text for _, text in words.lines)
    assert texts == ["  more", bar, "again", "again", "step 1", "step 1\n  more"]


async def test_what_is_said_after_a_runs_end_is_no_last_word_of_its_process(
    journal: PrefectJournal,
    pool: Pool,
    client: PrefectClient,
    say: Callable[..., Awaitable[None]],
) -> None:
    """But it was sent."""
    run = await pool.run(StateType.RUNNING)
    await pool.put(run, StateType.CRASHED)
    ended = await client.read_flow_run(run.id)
    view = view_of(ended)
    before, later = (view.state_time + timedelta(seconds=each) for each in (-7, 7))
    await say(run, "step 1", at=before, logger="prefect.flow_runs")
    await say(run, "no hooks", at=later, logger="prefect.flow_runs")

    words = await journal.last_words(view)

    assert words.at == before
    assert (later, "no hooks") in words.lines


async def test_a_run_started_when_it_last_left_pending_for_running(
    journal: PrefectJournal, pool: Pool, client: PrefectClient
) -> None:
    run = await pool.run(StateType.PENDING)
    assert await journal.started_at(view_of(run)) is None
    await pool.put(run, StateType.RUNNING)
    running = (await client.read_flow_run(run.id)).state
    assert running is not None
    await pool.put(run, StateType.COMPLETED)

    assert await journal.started_at(view_of(run)) == running.timestamp


async def test_a_run_that_crashed_while_it_waited_never_started(
    journal: PrefectJournal, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    await pool.put(run, StateType.CRASHED)

    assert await journal.started_at(view_of(run)) is None


async def test_where_logs_are_not_sent_to_the_api_none_are(
    journal: PrefectJournal, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        await journal.write(view_of(run), [a_line("one")])

    assert await journal.known(view_of(run), NOON, NOON) == []
