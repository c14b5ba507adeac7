"""The list filter: what the grammar lets through and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.filters import Row, compile_filter

ROW = Row(
    display_name="my_job_1",
    state="JOB_STATE_RUNNING",
    create_time=datetime(2026, 5, 18, 12, tzinfo=UTC),
    labels={"team": "forecast", "prefect-io_flow-run-id": "0af1", "9": "nine", "empty": ""},
)
LIVE = " AND ".join(
    f'state!="JOB_STATE_{state}"'
    for state in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")
)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("   ", True),
        ('display_name="my_job_1"', True),
        ("display_name=my_job_1", True),
        ("display_name = 'my_job_1'", True),
        ("displayName=my_job_1", True),
        ('display_name="my_job"', False),
        ('display_name="my_job_*"', False),
        ('display_name!="my_job_2"', True),
        ('display_name:"my_job_*"', True),
        ("display_name:*job*", True),
        ('display_name:"my_job_1"', True),
        ('display_name:"my_job"', False),
        ('display_name:"m?_job_1"', False),
        (r'display_name="my\_job\_1"', True),
        ('state="JOB_STATE_RUNNING"', True),
        ("state=JOB_STATE_RUNNING", True),
        ("state!=JOB_STATE_RUNNING", False),
        ('NOT state="JOB_STATE_FAILED"', True),
        ("-state=JOB_STATE_RUNNING", False),
        ("labels.team=forecast", True),
        ('labels.team="forecast"', True),
        ('labels."team"="forecast"', True),
        ('labels.prefect-io_flow-run-id="0af1"', True),
        ("labels.9=nine", True),
        ("labels.team=other", False),
        ("labels.absent=x", False),
        ("labels.team:*", True),
        ("labels.empty:*", True),
        ("labels.absent:*", False),
        ("NOT labels.absent:*", True),
        ('create_time>"2026-05-18T00:00:00Z"', True),
        ("createTime>2026-05-18T00:00:00Z", True),
        ('create_time="2026-05-18T14:00:00+02:00"', True),
        ('create_time!="2026-05-18T12:00:00Z"', False),
        ('create_time<"2026-05-18T12:00:00Z"', False),
        ('create_time<="2026-05-18T12:00:00.000000Z"', True),
        ('create_time>="2026-05-18T12:00:00.5Z"', False),
        (f'labels.team="forecast" AND {LIVE}', True),
        (f'labels.team="other" AND {LIVE}', False),
        ("(state!=JOB_STATE_FAILED AND state!=JOB_STATE_CANCELLED) AND labels.team=forecast", True),
        ('(createTime>="2026-01-01T00:00:00Z" AND (state="JOB_STATE_FAILED" OR labels.9:*))', True),
        ("NOT (labels.team=forecast AND state=JOB_STATE_RUNNING)", False),
        ("((display_name=my_job_1))", True),
        ("labels.team=forecast state=JOB_STATE_FAILED", False),
    ],
)  # fmt: skip
def test_filter_lets_through_what_it_describes(text: str, *, matches: bool) -> None:
    assert compile_filter(text)(ROW) is matches


def test_or_binds_tighter_than_and() -> None:
    """`a AND b OR c` is `a AND (b OR c)`: with a false, a true c does not help."""
    bare = compile_filter("labels.team=other AND state=JOB_STATE_FAILED OR labels.team:*")
    grouped = compile_filter("(labels.team=other AND state=JOB_STATE_FAILED) OR labels.team:*")

    assert not bare(ROW)
    assert grouped(ROW)


@pytest.mark.parametrize(
    "text",
    [
        'priority="1"',
        "labels=team",
        "labels.=x",
        "labels.team!=x",
        "labels.team:fore*",
        'display_name>"a"',
        "state:JOB_STATE_*",
        "state=RUNNING",
        "state<JOB_STATE_FAILED",
        "create_time>yesterday",
        'create_time>"2026-05-18T00:00:00"',
        'create_time:"2026-05-18T00:00:00Z"',
        "display_name",
        "display_name=",
        "display_name=a AND",
        "AND display_name=a",
        "display_name=a OR OR display_name=b",
        "(display_name=a",
        "display_name=a)",
        'display_name="a',
        "NOT",
        "(" * 5000,
    ],
)
def test_filter_outside_the_grammar_is_an_invalid_argument(text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        compile_filter(text)

    assert refusal.value.code.name == "INVALID_ARGUMENT"
    assert refusal.value.message.startswith("Invalid filter at position")


PIECES = [
    "display_name", "state", "create_time", "labels.", "key", "=", "!=", ":", "<=", "*", "(", ")",
    "-", "AND", "OR", "NOT", " ", '"', "'", "\\", "JOB_STATE_FAILED", "2026-01-01T00:00:00Z", ".",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=30))
def test_any_text_is_a_filter_or_an_invalid_argument(text: str) -> None:
    verdict: bool | None = None
    try:
        verdict = compile_filter(text)(ROW)
    except ApiError as refusal:
        code = refusal.code.name
    else:
        code = "OK"

    assert code == ("OK" if isinstance(verdict, bool) else "INVALID_ARGUMENT")
