"""The pairs as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from prefect_vertex.cli.jobs.looking import Look
from prefect_vertex.cli.jobs.pairing import Pair, Standing
from prefect_vertex.cli.jobs.wording import next_step

HEADINGS = ("job", "location", "attempt", "state", "age", "flow run", "run state", "says")
STYLES = {each.value: "bold red" for each in Standing if each.disagrees}

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def rows_of(pairs: Sequence[Pair], now: datetime) -> list[tuple[str, ...]]:
    """One row for each pair, under HEADINGS."""
    rows = [
        (
            pair.job.resource_name.job_id if pair.job is not None else "-",
            pair.job.resource_name.location if pair.job is not None else "-",
            str(pair.job.attempt) if pair.job is not None else "-",
            pair.job.phase.value if pair.job is not None else "-",
            age_of(now - pair.job.create_time) if pair.job is not None else "-",
            pair.run.name if pair.run is not None else pair.run_id,
            pair.run.state_name if pair.run is not None else "deleted",
            pair.standing.value,
        )
        for pair in pairs
    ]
    return [tuple(map(printable, row)) for row in rows]


def printable(text: str) -> str:
    """Text that only prints: anybody names runs, and a name must not steer a terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def age_of(age: timedelta) -> str:
    """A time span in its largest unit."""
    seconds = max(0, int(age.total_seconds()))
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= unit:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"


def disagreements(seen: Look) -> dict[str, list[Pair]]:
    """The pairs where something is left to be done, by run."""
    found: dict[str, list[Pair]] = {}
    for pair in seen.pairs:
        if pair.standing.disagrees:
            found.setdefault(pair.run_id, []).append(pair)
    return found


def steps_of(seen: Look) -> dict[str, str]:
    """What `--settle` would do, by run."""
    return {
        run_id: next_step(seen.runs.get(run_id), seen.jobs_of(run_id), seen.now)
        for run_id in disagreements(seen)
    }


def title_of(seen: Look, run_id: str) -> str:
    """How lines name a run."""
    run = seen.runs.get(run_id)
    return printable(run.name) if run is not None else f"deleted flow run {run_id}"


def as_json(seen: Look) -> dict[str, Any]:
    """The same for programs."""
    steps = steps_of(seen)
    return {
        "places": sorted(target.parent for target in seen.places),
        "troubles": seen.troubles,
        "jobs": [
            {
                "resource_name": str(pair.job.resource_name) if pair.job else None,
                "display_name": pair.job.display_name if pair.job else None,
                "state": pair.job.state if pair.job else None,
                "attempt": pair.job.attempt if pair.job else None,
                "create_time": _moment(pair.job.create_time) if pair.job else None,
                "end_time": _moment(pair.job.end_time) if pair.job else None,
                "error": pair.job.error.message if pair.job and pair.job.error else None,
                "flow_run_id": pair.run_id,
                "flow_run_name": pair.run.name if pair.run else None,
                "flow_run_state": pair.run.state_name if pair.run else None,
                "says": pair.standing.value,
                "disagrees": pair.standing.disagrees,
                "settle_would": steps.get(pair.run_id),
            }
            for pair in seen.pairs
        ],
    }


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
