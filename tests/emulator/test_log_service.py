"""Google's own logging client reads what jobs wrote, as late and as seldom as in the cloud."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports.grpc_asyncio import (
    LoggingServiceV2GrpcAsyncIOTransport,
)

from prefect_vertex.emulator import DOCUMENTED, CallFault, ControlClient, ControlServer, Emulator

pytestmark = pytest.mark.anyio

PROJECT = "projects/demo"
INFO, ERROR = 200, 500  # google.logging.type.LogSeverity


@pytest.fixture
def quick(quick: Any) -> Any:
    """Entries arrive at once."""
    return dataclasses.replace(quick, log_delay_seconds=0)


@pytest.fixture
async def logs(emulator: Emulator) -> AsyncIterator[LoggingServiceV2AsyncClient]:
    """The client."""
    async with grpc.aio.insecure_channel(emulator.address) as channel:
        transport = LoggingServiceV2GrpcAsyncIOTransport(channel=channel)
        yield LoggingServiceV2AsyncClient(transport=transport)


@pytest.fixture
def entries(logs: LoggingServiceV2AsyncClient) -> Callable[..., Any]:
    """All entries that a filter finds."""

    async def read(text: str = "", **request: Any) -> list[Any]:
        whole = {"resource_names": [PROJECT], "filter": text, **request}
        return [entry async for entry in await logs.list_log_entries(request=whole, retry=None)]

    return read


def _of(job: Any) -> str:
    return f'resource.type="ml_job" AND resource.labels.job_id="{job.record.name.job_id}"'


async def test_a_replicas_lines_carry_its_name_and_the_stream_as_their_severity(
    run_job: Callable[..., Any], entries: Callable[..., Any]
) -> None:
    job = await run_job("sh", "-c", "echo out; sleep 0.3; echo err >&2")

    found = await entries(f'{_of(job)} AND resource.labels.task_name="workerpool0-0"')

    assert [(dict(e.json_payload)["message"], e.severity) for e in found] == [
        ("out", INFO),
        ("err", ERROR),
    ]
    assert found[0].log_name.endswith("/logs/workerpool0-0")
    assert dict(found[0].json_payload)["attrs"]["tag"] == "workerpool0-0"


async def test_the_service_tells_the_jobs_life_and_why_it_failed(
    run_job: Callable[..., Any], entries: Callable[..., Any]
) -> None:
    job = await run_job("sh", "-c", "exit 3")

    found = await entries(f'{_of(job)} AND resource.labels.task_name="service"')

    texts = [entry.text_payload for entry in found]
    assert texts[0] == "Waiting for job to be provisioned."
    assert texts[-1] == "Job failed."
    (error,) = [entry for entry in found if entry.severity == ERROR]
    assert "exited with a non-zero status of 3" in error.text_payload


async def test_a_json_line_becomes_the_entry(
    run_job: Callable[..., Any], entries: Callable[..., Any]
) -> None:
    line = '{"severity": "WARNING", "message": "low", "step": 3}'
    job = await run_job("sh", "-c", f"echo '{line}'")

    (entry,) = await entries(f"{_of(job)} AND severity=WARNING")

    payload = dict(entry.json_payload)
    assert (payload["message"], payload["step"]) == ("low", 3)
    assert "levelname" not in payload


@pytest.mark.parametrize(
    "line",
    [
        '{"loss": NaN}',
        '{"loss": [-Infinity]}',
        '{"loss": 1e999}',
        pytest.param(f'{{"n": {"1" * 400}}}', id="long"),
        '{"name": "\\ud800"}',
        '{"\\udfff": 1}',
        pytest.param('{"a":' * 33 + "1" + "}" * 33, id="deep"),
        pytest.param('{"a":' + "[" * 60 + "]" * 60 + "}", id="deep list"),
        pytest.param('{"a":' * 100_000, id="deepest"),
    ],
)
async def test_an_object_that_no_payload_holds_is_text(
    emulator: Emulator, run_job: Callable[..., Any], entries: Callable[..., Any], line: str
) -> None:
    """Whatever a program writes, the entries after it can be read."""
    job = await run_job("true")
    for text in (line, "after"):
        emulator.logs.add_line(job.record.name, "workerpool0-0", text, is_error=False)

    found = await entries(f'{_of(job)} AND resource.labels.task_name="workerpool0-0"')

    assert [dict(e.json_payload)["message"] for e in found] == [line, "after"]


async def test_as_deep_an_object_as_a_payload_holds_is_one(
    emulator: Emulator, run_job: Callable[..., Any], entries: Callable[..., Any]
) -> None:
    job = await run_job("true")
    line = '{"a":' * 32 + "1" + "}" * 32
    emulator.logs.add_line(job.record.name, "workerpool0-0", line, is_error=False)

    (entry,) = await entries(f'{_of(job)} AND resource.labels.task_name="workerpool0-0"')

    assert sorted(dict(entry.json_payload)) == ["a", "attrs"]


async def test_one_query_reads_many_jobs_by_time(
    run_job: Callable[..., Any], entries: Callable[..., Any]
) -> None:
    before = datetime.now(UTC)
    first, second = [await run_job("sh", "-c", f"echo {name}") for name in ("a", "b")]
    ids = " OR ".join(f'"{job.record.name.job_id}"' for job in (first, second))
    text = (
        f'resource.type="ml_job" AND resource.labels.job_id=({ids})'
        f' AND NOT resource.labels.task_name="service" AND timestamp>="{before.isoformat()}"'
    )

    found = await entries(text)
    late = (before + timedelta(hours=1)).isoformat()
    newest = await entries(text, order_by="timestamp desc")

    assert [dict(e.json_payload)["message"] for e in found] == ["a", "b"]
    assert [dict(e.json_payload)["message"] for e in newest] == ["b", "a"]
    assert await entries(f'({text}) AND timestamp>="{late}"') == []


async def test_a_page_goes_on_where_the_last_one_ended(
    run_job: Callable[..., Any], logs: LoggingServiceV2AsyncClient
) -> None:
    job = await run_job("sh", "-c", "for i in 1 2 3 4 5; do echo $i; done")
    text = f'{_of(job)} AND resource.labels.task_name="workerpool0-0"'

    pages = await logs.list_log_entries(
        request={"resource_names": [PROJECT], "filter": text, "page_size": 2}
    )
    sizes = [len(page.entries) async for page in pages.pages]

    assert sizes == [2, 2, 1]


async def test_entries_arrive_late_and_are_in_order_all_the_same(
    emulator: Emulator,
    run_job: Callable[..., Any],
    entries: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    """What is still on its way is missing; what comes late stands where it belongs."""
    emulator.logs.delay_seconds = 1.0
    job = await run_job("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; done")
    text = f'{_of(job)} AND resource.labels.task_name="workerpool0-0"'

    async with asyncio.timeout(10):
        seen: list[Any] = []
        while len(seen) < 8:
            seen = await entries(text)

    assert [dict(e.json_payload)["message"] for e in seen] == [str(n) for n in range(1, 9)]
    assert any(entry.receive_timestamp > entry.timestamp for entry in seen)


async def test_other_projects_see_nothing_of_it(
    run_job: Callable[..., Any], entries: Callable[..., Any]
) -> None:
    job = await run_job("true")

    assert await entries(_of(job), resource_names=["projects/other"]) == []


async def test_the_quota_of_reads_is_the_projects_and_its_denial_is_googles(
    emulator: Emulator, entries: Callable[..., Any]
) -> None:
    emulator.rates.limits = dataclasses.replace(DOCUMENTED, log_reads_per_minute=2)
    await entries()
    await entries()

    with pytest.raises(exceptions.ResourceExhausted, match="'Read requests'") as denial:
        await entries()

    assert denial.value.reason == "RATE_LIMIT_EXCEEDED"
    assert denial.value.metadata["quota_limit"] == "ReadRequestsPerMinutePerProject"
    assert denial.value.metadata["quota_limit_value"] == "2"
    assert denial.value.metadata["service"] == "logging.googleapis.com"
    assert await entries(resource_names=["projects/other"]) == []


async def test_sixty_reads_a_minute_are_documented() -> None:
    assert DOCUMENTED.log_reads_per_minute == 60


async def test_a_scripted_fault_meets_reads_as_every_other_call(
    emulator: Emulator, entries: Callable[..., Any]
) -> None:
    emulator.faults.add(
        CallFault(
            method="ListLogEntries",
            code="PERMISSION_DENIED",
            message="Permission 'logging.logEntries.list' denied on resource.",
            reason="IAM_PERMISSION_DENIED",
        )
    )

    with pytest.raises(exceptions.PermissionDenied) as denial:
        await entries()

    assert denial.value.reason == "IAM_PERMISSION_DENIED"
    assert await entries() == []
    emulator.faults.assert_all_used()


async def test_delay_and_quota_are_set_through_the_control_port(emulator: Emulator) -> None:
    async with ControlServer(emulator) as control:
        client = ControlClient(control.address)
        await asyncio.to_thread(client.call, "set_log_delay", seconds=7)
        await asyncio.to_thread(client.call, "set_rates", log_reads_per_minute=5)

    assert emulator.logs.delay_seconds == 7
    assert emulator.rates.limits.log_reads_per_minute == 5


@pytest.mark.parametrize(
    "text",
    [
        'colour="blue"',
        "severity=LOUD",
        'timestamp>="yesterday"',
        'timestamp>="2026-01-01T00:00:00"',
        'resource.type>"ml_job"',
        'resource.labels.job_id=("1" OR',
        'resource.labels.job_id "1"',
        "x" * 20_001,
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    entries: Callable[..., Any], text: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        await entries(text)


@pytest.mark.parametrize(
    "request_",
    [
        {"resource_names": []},
        {"resource_names": ["folders/1"]},
        {"order_by": "severity"},
        {"page_token": "nonsense"},
        {"page_size": -1},
    ],
    ids=str,
)
async def test_a_request_that_makes_no_sense_is_refused(
    entries: Callable[..., Any], request_: dict[str, Any]
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        await entries(**request_)
