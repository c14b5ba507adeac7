"""One query asks for many jobs, each from its own time on, within what a query may be long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prefect_vertex.vertex.log_query import MAX_LENGTH, log_query

NOON = datetime(2026, 11, 1, 12, 0, 30, tzinfo=UTC)


def _ids(count: int) -> list[str]:
    return [str(10**18 + number) for number in range(count)]


def test_jobs_of_one_minute_share_a_clause() -> None:
    text, count = log_query([("1", NOON), ("2", NOON + timedelta(seconds=20)), ("3", NOON)])

    assert count == 3
    assert text == (
        'resource.type="ml_job" AND ((resource.labels.job_id=("1" OR "2" OR "3")'
        ' AND timestamp>="2026-11-01T12:00:30.000000Z"))'
    )


def test_reading_goes_on_at_the_exact_moment_and_to_one() -> None:
    """More entries than a query gives may have been written within a second."""
    at = NOON + timedelta(microseconds=123_457)
    text, _ = log_query([("1", at)], until=NOON + timedelta(seconds=20))

    assert text == (
        'resource.type="ml_job" AND ((resource.labels.job_id=("1")'
        ' AND timestamp>="2026-11-01T12:00:30.123457Z"))'
        ' AND timestamp<"2026-11-01T12:00:50.000000Z"'
    )


def test_others_are_asked_from_their_own_time_on() -> None:
    text, _ = log_query([("1", NOON), ("2", NOON - timedelta(hours=1))])

    assert 'job_id=("2") AND timestamp>="2026-11-01T11:00:30.000000Z") OR (' in text
    assert 'job_id=("1") AND timestamp>="2026-11-01T12:00:30.000000Z")' in text


def test_five_hundred_jobs_fit() -> None:
    text, count = log_query([(job_id, NOON) for job_id in _ids(600)])

    assert count == 500
    assert len(text) < MAX_LENGTH


def test_too_many_different_times_leave_jobs_for_the_next_query() -> None:
    wanted = [(each, NOON + timedelta(minutes=n)) for n, each in enumerate(_ids(500))]
    text, count = log_query(wanted)

    assert 100 < count < 500
    assert len(text) <= MAX_LENGTH
    assert all(job_id in text for job_id, _ in wanted[:count])


def test_values_cannot_end_their_quotes() -> None:
    text, _ = log_query([('1" OR "x', NOON)])
    assert r'("1\" OR \"x")' in text
