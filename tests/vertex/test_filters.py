"""The exact texts that ListCustomJobs is asked with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from prefect_vertex.lifecycle.states import TERMINAL_STATES
from prefect_vertex.vertex.filters import (
    ENDED_STATES,
    ended_jobs_filter,
    flow_run_filter,
    live_jobs_filter,
    pool_filter,
)

POOL = "8d0c8e3e-0000-4000-8000-000000000001"


def test_live_jobs_are_those_of_the_pool_in_no_ended_state() -> None:
    expected = (
        f'labels.prefect-io_work-pool-id="{POOL}"'
        ' AND state!="JOB_STATE_SUCCEEDED" AND state!="JOB_STATE_FAILED"'
        ' AND state!="JOB_STATE_CANCELLED" AND state!="JOB_STATE_EXPIRED"'
        ' AND state!="JOB_STATE_PARTIALLY_SUCCEEDED"'
    )

    assert live_jobs_filter(POOL) == expected


def test_ended_jobs_put_their_alternatives_in_parentheses() -> None:
    expected = (
        f'labels.prefect-io_work-pool-id="{POOL}"'
        ' AND (state="JOB_STATE_SUCCEEDED" OR state="JOB_STATE_FAILED"'
        ' OR state="JOB_STATE_CANCELLED" OR state="JOB_STATE_EXPIRED"'
        ' OR state="JOB_STATE_PARTIALLY_SUCCEEDED")'
    )

    assert ended_jobs_filter(POOL) == expected


def test_ended_jobs_can_be_limited_by_their_creation_in_universal_time() -> None:
    since = datetime(2026, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2)))

    text = ended_jobs_filter(POOL, since)

    assert ' AND create_time>="2026-03-01T12:30:00.000000Z" AND (state=' in text
    assert text == ended_jobs_filter(POOL, since.astimezone(UTC))


def test_a_flow_run_is_asked_for_by_its_label_alone() -> None:
    expected = 'labels.prefect-io_flow-run-id="0123-ab"'

    assert flow_run_filter("0123-ab") == expected


def test_a_value_cannot_leave_its_quotes() -> None:
    text = pool_filter('x" OR state="\\')

    assert text == 'labels.prefect-io_work-pool-id="x\\" OR state=\\"\\\\"'


def test_the_excluded_states_are_all_terminal_states_of_the_table() -> None:
    assert set(ENDED_STATES) == set(TERMINAL_STATES)
