"""Filter texts for ListCustomJobs, built in this one place.

Values stand in double quotes, because a flow run id may begin with a digit.  `OR` groups stand in
parentheses, because it binds tighter than `AND` (AIP-160).  Ended states are excluded one by one,
so that a live state newer than the table is still seen.  Fields that the service filters by
(ListCustomJobsRequest of google-cloud-aiplatform 2.7.0, read 2026-11): display_name, state,
create_time, labels.
"""

from __future__ import annotations

from datetime import UTC, datetime

from prefect_vertex.planning.naming import FLOW_RUN_LABEL, WORK_POOL_LABEL

ENDED_STATES: tuple[str, ...] = (
    "JOB_STATE_SUCCEEDED",
    "JOB_STATE_FAILED",
    "JOB_STATE_CANCELLED",
    "JOB_STATE_EXPIRED",
    "JOB_STATE_PARTIALLY_SUCCEEDED",
)
"""`lifecycle.states.TERMINAL_STATES` in the order of the vendor's numbers, likeliest first."""


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def pool_filter(work_pool_id: str) -> str:
    """Jobs of the pool in any state: what is asked where the longer forms are not understood."""
    return f"labels.{WORK_POOL_LABEL}={_quoted(work_pool_id)}"


def live_jobs_filter(work_pool_id: str) -> str:
    """Jobs of the pool that have not ended."""
    exclusions = [f"state!={_quoted(state)}" for state in ENDED_STATES]
    return " AND ".join([pool_filter(work_pool_id), *exclusions])


def ended_jobs_filter(work_pool_id: str, since: datetime | None = None) -> str:
    """Jobs of the pool that have ended.

    Args:
        work_pool_id: The pool.
        since: Only jobs created then or later (the end itself cannot be filtered by).
    """
    any_end = " OR ".join(f"state={_quoted(state)}" for state in ENDED_STATES)
    terms = [pool_filter(work_pool_id)]
    if since is not None:
        moment = since.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
        terms.append(f"create_time>={_quoted(f'{moment}Z')}")
    return " AND ".join([*terms, f"({any_end})"])


def flow_run_filter(flow_run_id: str) -> str:
    """Jobs of one flow run in any state."""
    return f"labels.{FLOW_RUN_LABEL}={_quoted(flow_run_id)}"
