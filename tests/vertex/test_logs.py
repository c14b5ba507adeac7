"""The adapter reads entries of Google's own form, from the emulator, and names what is missing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from google.cloud.logging_v2.types import ListLogEntriesResponse
from google.cloud.logging_v2.types import LogEntry as CloudEntry
from google.protobuf.timestamp_pb2 import Timestamp

from prefect_vertex.emulator import CallFault, Emulator
from prefect_vertex.emulator.names import JobName, Place, project_number
from prefect_vertex.errors import AccessDeniedError, RateLimitedError, ServiceUnavailableError
from prefect_vertex.lifecycle.lines import ERROR, WARNING, line_of
from prefect_vertex.vertex.credentials import VertexCredentials
from prefect_vertex.vertex.log_query import log_query
from prefect_vertex.vertex.logs import CloudLogs, _pages, entry_of

pytestmark = pytest.mark.anyio

JOB = JobName(Place(project_number("demo", {}), "us-central1"), "1234567890123456789")
QUERY = f'resource.type="ml_job" AND resource.labels.job_id=("{JOB.job_id}")'
MOMENT = datetime(2026, 11, 1, 12, tzinfo=UTC)


async def _nobody(_key: str) -> VertexCredentials:
    raise AssertionError("an emulator needs no credentials")


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    async with Emulator() as emulator:
        emulator.logs.delay_seconds = 0
        yield emulator


@pytest.fixture
async def logs(emulator: Emulator) -> AsyncIterator[CloudLogs]:
    logs = CloudLogs(_nobody, {"CLOUD_LOGGING_EMULATOR_HOST": emulator.address})
    yield logs
    await logs.aclose()


@pytest.fixture
def an_entry() -> Callable[..., Any]:
    """What Cloud Logging sends for a line of a replica."""

    def build(payload: dict[str, Any] | None = None, **fields: Any) -> Any:
        usual: dict[str, Any] = {
            "log_name": "projects/demo/logs/workerpool0-0",
            "resource": {
                "type": "ml_job",
                "labels": {"job_id": "1", "task_name": "workerpool0-0", "project_id": "demo"},
            },
            "timestamp": MOMENT,
            "insert_id": "abc",
            "severity": 500,
        }
        if payload is not None:
            usual["json_payload"] = payload
        return CloudEntry({**usual, **fields})

    return build


async def test_lines_and_messages_come_in_order(emulator: Emulator, logs: CloudLogs) -> None:
    emulator.logs.add_message(JOB, "Job is running.", state=3)
    emulator.logs.add_line(JOB, "workerpool0-0", "out", is_error=False)
    emulator.logs.add_line(JOB, "workerpool1-0", "err", is_error=True)

    reading = await logs.read("demo", "", QUERY)

    assert reading.is_complete
    assert [(each.task_name, each.text, each.is_plain) for each in reading.entries] == [
        ("service", "Job is running.", False),
        ("workerpool0-0", "out", True),
        ("workerpool1-0", "err", True),
    ]
    assert {each.job_id for each in reading.entries} == {JOB.job_id}


async def test_a_query_takes_four_answers_and_says_that_there_is_more(
    emulator: Emulator, logs: CloudLogs
) -> None:
    logs.page_size = 2
    for number in range(9):
        emulator.logs.add_line(JOB, "workerpool0-0", str(number), is_error=False)

    reading = await logs.read("demo", "", QUERY)

    assert [each.text for each in reading.entries] == [str(number) for number in range(8)]
    assert not reading.is_complete
    assert emulator.calls.counts() == {"ListLogEntries": {"OK": 4}}


async def test_the_newest_are_one_answer_in_order(emulator: Emulator, logs: CloudLogs) -> None:
    logs.page_size = 3
    for number in range(5):
        emulator.logs.add_line(JOB, "workerpool0-0", str(number), is_error=False)

    reading = await logs.read("demo", "", QUERY, newest=True)

    assert [each.text for each in reading.entries] == ["2", "3", "4"]
    assert not reading.is_complete


async def test_a_query_of_the_worker_is_understood(emulator: Emulator, logs: CloudLogs) -> None:
    emulator.logs.add_line(JOB, "workerpool0-0", "one", is_error=False)
    now = datetime.now(UTC)
    for until, count in ((now + timedelta(hours=1), 1), (now - timedelta(hours=1), 0)):
        query, _ = log_query([(JOB.job_id, now - timedelta(hours=2))], until)
        assert len((await logs.read("demo", "", query)).entries) == count


class Pages:
    """A list whose answers hold so many entries each, and say that there are more."""

    def __init__(self, an_entry: Callable[..., Any], counts: Sequence[int]) -> None:
        self._answers = [
            ListLogEntriesResponse(
                entries=[an_entry({"message": f"{page}.{n}"}) for n in range(count)],
                next_page_token="more" if page + 1 < len(counts) else "",
            )
            for page, count in enumerate(counts)
        ]

    async def list_log_entries(self, **_: Any) -> Any:
        async def pages() -> AsyncIterator[Any]:
            for answer in self._answers:
                yield answer

        return SimpleNamespace(pages=pages())


@pytest.mark.parametrize(
    ("counts", "texts", "is_complete"),
    [
        ([0, 0, 0, 2], ["3.0", "3.1"], True),
        ([1, 0, 0, 1, 0, 1, 1], ["0.0", "3.0", "5.0", "6.0"], True),
        ([0, 0, 0, 0, 2], [], False),
    ],
)
async def test_an_empty_answer_is_not_the_end_of_a_search(
    an_entry: Callable[..., Any], counts: list[int], texts: list[str], *, is_complete: bool
) -> None:
    reading = await _pages(Pages(an_entry, counts), {}, 4)
    assert ([each.text for each in reading.entries], reading.is_complete) == (texts, is_complete)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", RateLimitedError),
        ("UNAVAILABLE", "", ServiceUnavailableError),
    ],
)
async def test_refusals_have_our_names(
    emulator: Emulator, logs: CloudLogs, code: str, reason: str, error: type[Exception]
) -> None:
    emulator.faults.add(CallFault(method="ListLogEntries", code=code, reason=reason))

    with pytest.raises(error, match="Could not read log entries in projects/demo"):
        await logs.read("demo", "", QUERY)


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("IAM_PERMISSION_DENIED", "Give the worker's account roles/logging.viewer in demo"),
        ("SERVICE_DISABLED", "Enable logging.googleapis.com in demo"),
    ],
)
async def test_a_missing_permission_is_named_with_what_mends_it(
    emulator: Emulator, logs: CloudLogs, reason: str, hint: str
) -> None:
    emulator.faults.add(CallFault(method="ListLogEntries", code="PERMISSION_DENIED", reason=reason))

    with pytest.raises(AccessDeniedError) as denial:
        await logs.read("demo", "", QUERY)

    assert hint in denial.value.hint


def test_a_plain_line_names_its_stream_only(an_entry: Callable[..., Any]) -> None:
    payload = {"message": "loading", "levelname": "ERROR", "attrs": {"tag": "workerpool0-0"}}
    entry = entry_of(an_entry(payload))
    assert (entry.text, entry.is_plain, entry.timestamp) == ("loading", True, MOMENT)


@pytest.mark.parametrize(
    ("payload", "text", "severity"),
    [
        ({"message": "low", "step": 3, "severity": "WARNING"}, "low", 400),
        ({"msg": "low", "level": "info"}, "low", 200),
        ({"message": "low", "step": 3}, "low", 500),
        ({"step": "x"}, '{"step": "x"}', 500),
    ],
)
def test_a_structured_line_speaks_for_itself(
    an_entry: Callable[..., Any], payload: dict[str, Any], text: str, severity: int
) -> None:
    entry = entry_of(an_entry(payload))
    assert (entry.text, entry.severity, entry.is_plain) == (text, severity, False)


@pytest.mark.parametrize(
    ("payload", "severity", "level"),
    [({}, 400, WARNING), ({}, 500, ERROR), ({"levelname": "WARNING"}, 500, WARNING)],
)
def test_a_structured_line_with_a_message_alone_is_not_taken_for_a_plain_one(
    an_entry: Callable[..., Any], payload: dict[str, Any], severity: int, level: int
) -> None:
    """`severity` and `message` are what most programs write; a plain line has `levelname`."""
    attributes = {"attrs": {"tag": "workerpool0-0"}}
    entry = entry_of(an_entry({"message": "low", **payload, **attributes}, severity=severity))
    assert line_of(entry).level == level


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_that_is_none_leaves_the_rest_of_its_line(
    an_entry: Callable[..., Any], number: str
) -> None:
    odd = float(number)
    payload = {"message": "epoch 3", "losses": [1.5, odd, None], "by": {"a": odd, "ok": True}}
    assert entry_of(an_entry(payload)).text == "epoch 3"
    entry = entry_of(an_entry({"loss": odd, "by": {"ok": True}, "also": [None, "x"]}))
    assert entry.text == f'{{"also": [null, "x"], "by": {{"ok": true}}, "loss": {json.dumps(odd)}}}'


def test_a_line_without_a_text_is_the_same_in_each_process(an_entry: Callable[..., Any]) -> None:
    """A log knows it by its text, and the fields of a message come in any order."""
    fields = {name: name for name in "hgfedcba"}
    text = json.dumps(dict(sorted(fields.items())))
    assert entry_of(an_entry(fields)).text == text


def test_nanoseconds_are_kept_for_the_order(an_entry: Callable[..., Any]) -> None:
    moments = [Timestamp(seconds=1_793_534_400, nanos=nanos) for nanos in (1_000, 1_999, 2_000)]
    entries = [entry_of(an_entry({"message": "a"}, timestamp=moment)) for moment in moments]
    assert [each.nanoseconds for each in entries] == [0, 999, 0]
    assert [each.timestamp.microsecond for each in entries] == [1, 1, 2]


def test_a_replica_is_known_by_its_tag_or_its_log_where_nothing_else_names_it(
    an_entry: Callable[..., Any],
) -> None:
    resource = {"type": "ml_job", "labels": {"job_id": "1"}}
    tagged = an_entry({"message": "a", "attrs": {"tag": "workerpool1-2"}}, resource=resource)
    bare = an_entry({"message": "a"}, resource=resource)
    assert [entry_of(each).task_name for each in (tagged, bare)] == [
        "workerpool1-2",
        "workerpool0-0",
    ]
