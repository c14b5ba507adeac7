"""RunPolicy: how patient a decision is with one run.

It travels with the run, as one label in Prefect, so that a worker that adopts the run is as patient
as the one that submitted it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from prefect_vertex.planning.durations import is_count, is_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """Times in seconds, from the job variables of the same name.

    Attributes:
        provisioning_timeout_seconds: Longest wait from create to RUNNING; None: no limit.
        start_grace_seconds: Longest wait from RUNNING until the flow run has left Pending.
        stall_timeout_seconds: Longest time without a sign of life from a running flow; None: no
            limit.
        cancel_grace_seconds: How long a started run may take to cancel itself before its job is
            cancelled; also how long a live job whose run has ended is left alone.
        max_restarts: New attempts after a preemption or a reschedule; 0: none.
        timeout_seconds: The job's own maximum run time; tells an end by time from a cancellation.
        stream_output: The replicas' lines are brought into the run's log while it waits, and at its
            crash.
        spot: The job runs on Spot machines, so a stockout after its start is a preemption.
        error_settle_seconds: How long a terminal job's error may be late (Google: "about one minute
            after a job ends").
        error_look_seconds: Pause between two looks for that error.
        create_budget_seconds: How long one attempt's creation is tried.
        create_settle_seconds: How long an empty find after a lost create answer settles nothing.
        create_settle_looks: How many empty looks it takes besides.
        cancel_repeat_seconds: Pause before a cancel that had no effect is sent again.
        fresh_seconds: How old a look at a job may be for a waiting state to be proposed from it.
        poll_interval_seconds: `job_watch_poll_interval`; shortens the pool's tick while it runs.
    """

    provisioning_timeout_seconds: float | None = None
    start_grace_seconds: float = 900.0
    cancel_grace_seconds: float = 60.0
    stall_timeout_seconds: float | None = None
    max_restarts: int = 6
    timeout_seconds: float | None = None
    poll_interval_seconds: float | None = None
    stream_output: bool = True
    spot: bool = False
    error_settle_seconds: float = 120.0
    error_look_seconds: float = 15.0
    create_budget_seconds: float = 900.0
    create_settle_seconds: float = 120.0
    create_settle_looks: int = 3
    cancel_repeat_seconds: float = 60.0
    fresh_seconds: float = 2.0


def format_policy(policy: RunPolicy) -> str:
    """Write what differs from the defaults, as compact JSON."""
    ours, usual = asdict(policy), asdict(RunPolicy())
    changed = {key: value for key, value in ours.items() if value != usual[key]}
    return json.dumps(changed, separators=(",", ":"), sort_keys=True)


@lru_cache(maxsize=1024)
def parse_policy(text: str) -> RunPolicy:
    """Read a policy; what is missing, unknown or unreadable keeps its default.

    It is asked for each run at each tick, and the runs of a deployment share one text.
    """
    try:
        values = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        values = {}
    if not isinstance(values, dict):
        values = {}
    usual = asdict(RunPolicy())
    kept: dict[str, Any] = {
        key: value for key, value in values.items() if key in usual and _fits(value, usual[key])
    }
    return RunPolicy(**kept)


def _fits(value: object, usual: object) -> bool:
    """Whether a value is of the kind of the default that it would replace, and in its range."""
    if isinstance(usual, bool) or isinstance(value, bool):
        return isinstance(usual, bool) and isinstance(value, bool)
    if value is None or usual is None:
        return usual is None and (value is None or is_duration(value))
    return is_count(value) if isinstance(usual, int) else is_duration(value)
