"""`prefect-vertex plan --quota`: each candidate beside its project's quotas, as a table or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from prefect_vertex.capacity.meters import demand_of
from prefect_vertex.capacity.quota import LIMITS_ARE_NOT_USAGE, Preflight, Reading, preflight
from prefect_vertex.template import CredentialValues

if TYPE_CHECKING:
    from prefect_vertex.planning.plan import JobPlan

_HEADINGS = ("candidate", "region", "strategy", "quota", "limit", "asked", "says")


async def read_quotas(
    plans: Sequence[JobPlan], credentials: Iterable[CredentialValues]
) -> Preflight:
    """Ask the Cloud Quotas API for the plans' projects; what cannot be read is unknown.

    Args:
        plans: One for each candidate, in order.
        credentials: Theirs; the keys that the plans name have to be among them.

    Raises:
        SetupError: A variable of this machine is wrong.
    """
    # Late: it loads Google's client, which a plan alone does not need.
    from prefect_vertex.vertex.gateways import Gateways

    gateways = Gateways(submissions_per_minute=30, reads_per_minute=300)
    for values in credentials:
        gateways.register(values)
    places = [(each.candidate.project, each.candidate.credentials_key) for each in plans]
    try:
        readings = await gateways.quotas.read(places)
    finally:
        await gateways.aclose()
    return preflight([demand_of(each) for each in plans], readings)


def quota_table(found: Preflight) -> str:
    """For people: a line for each candidate and quota, then what follows from them."""
    rows = [_HEADINGS]
    for each in found.outcomes:
        demand = each.demand
        place = (str(each.index + 1), demand.location, demand.strategy)
        rows += [
            (
                *place,
                reading.meter.metric.rpartition("/")[2],
                _shown_limit(reading),
                str(reading.meter.asked),
                reading.standing.value,
            )
            for reading in each.readings
        ] or [(*place, "-", "-", "-", demand.exempt or each.standing.value)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    notes = found.lines if LIMITS_ARE_NOT_USAGE in " ".join(found.lines) else _with_note(found)
    return "".join(f"{line}\n" for line in (*table, *notes))


def quota_json(found: Preflight) -> dict[str, Any]:
    """For programs: the same."""
    return {
        "note": LIMITS_ARE_NOT_USAGE,
        "problems": list(found.problems),
        "candidates": [
            {
                "candidate": each.index + 1,
                "project": each.demand.project,
                "region": each.demand.location,
                "strategy": each.demand.strategy,
                "says": each.standing.value,
                "worker_count": each.worker_count,
                "asked_worker_count": each.asked_worker_count,
                "quotas": [
                    {
                        "metric": reading.meter.metric,
                        "limit": reading.limit,
                        "asked": reading.meter.asked,
                        "says": reading.standing.value,
                    }
                    for reading in each.readings
                ],
            }
            for each in found.outcomes
        ],
    }


def _with_note(found: Preflight) -> tuple[str, ...]:
    return (LIMITS_ARE_NOT_USAGE, *found.lines)


def _shown_limit(reading: Reading) -> str:
    if reading.limit is None:
        return "-"
    return "unlimited" if reading.limit < 0 else str(reading.limit)
