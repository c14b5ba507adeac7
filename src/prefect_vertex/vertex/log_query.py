"""The filter text for ListLogEntries, built in this one place: many jobs, one query.

Jobs that are read from about the same time on share one clause; OR groups stand in parentheses,
because OR binds tighter than AND.  A query has at most 20,000 characters (Cloud Logging, *Quotas*).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

MAX_LENGTH = 20_000
MAX_JOBS = 500
"""Some 13,000 characters."""


def log_query(
    wanted: Sequence[tuple[str, datetime]], until: datetime | None = None
) -> tuple[str, int]:
    """The query for jobs, each by its id and from when on.

    Args:
        wanted: The most urgent first; not empty.
        until: Only entries from before then; None: all.

    Returns:
        The text, and how many of the jobs it asks for: those that there is room for.
    """
    count = min(len(wanted), MAX_JOBS)
    while len(text := _query(wanted[:count], until)) > MAX_LENGTH:
        count = count * 3 // 4
    return text, count


def _query(wanted: Sequence[tuple[str, datetime]], until: datetime | None) -> str:
    groups: dict[datetime, list[tuple[str, datetime]]] = {}
    for job_id, since in wanted:
        # By the minute, but from the first of their moments on and not from the minute's beginning:
        # reading that was cut short must go on where it stopped.
        minute = since.astimezone(UTC).replace(second=0, microsecond=0)
        groups.setdefault(minute, []).append((job_id, since))
    clauses = [_clause(group) for _, group in sorted(groups.items())]
    end = "" if until is None else f' AND timestamp<"{_moment(until)}"'
    return f'resource.type="ml_job" AND ({" OR ".join(clauses)}){end}'


def _clause(group: Sequence[tuple[str, datetime]]) -> str:
    ids = " OR ".join(_quoted(job_id) for job_id, _ in group)
    since = min(since for _, since in group)
    return f'(resource.labels.job_id=({ids}) AND timestamp>="{_moment(since)}")'


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
