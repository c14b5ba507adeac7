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


def log_query(wanted: Sequence[tuple[str, datetime]]) -> tuple[str, int]:
    """The query for jobs, each by its id and from when on.

    Args:
        wanted: The most urgent first; not empty.

    Returns:
        The text, and how many of the jobs it asks for: those that there is room for.
    """
    count = min(len(wanted), MAX_JOBS)
    while len(text := _query(wanted[:count])) > MAX_LENGTH:
        count = count * 3 // 4
    return text, count


def _query(wanted: Sequence[tuple[str, datetime]]) -> str:
    groups: dict[datetime, list[str]] = {}
    for job_id, since in wanted:
        # By the minute: what was read before is known again.
        minute = since.astimezone(UTC).replace(second=0, microsecond=0)
        groups.setdefault(minute, []).append(job_id)
    clauses = [_clause(ids, since) for since, ids in sorted(groups.items())]
    return f'resource.type="ml_job" AND ({" OR ".join(clauses)})'


def _clause(job_ids: Sequence[str], since: datetime) -> str:
    ids = " OR ".join(_quoted(job_id) for job_id in job_ids)
    moment = since.replace(tzinfo=None).isoformat(timespec="seconds")
    return f'(resource.labels.job_id=({ids}) AND timestamp>="{moment}Z")'


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
