"""Machine-hours and an estimate of their cost, from a chronicle.

Whether Vertex AI bills the time in which machines are prepared is not documented, so the estimate
is a range: from the jobs' start times at least, from their create times at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from prefect_vertex.chronicle.chronicle import AttemptRecord, Chronicle
from prefect_vertex.chronicle.prices import LISTED_STRATEGIES, PriceList
from prefect_vertex.lifecycle.snapshot import PoolMachines

_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a run's machines come to, so far.

    Attributes:
        hours: Of running machines, by what they are.
        low: In the price list's currency, with machines counted from their jobs' start.
        high: The same from their jobs' creation.
        derived: Whether a price was computed rather than listed.
        unpriced: What has no price, each with its reason; those machines are not in `low`, `high`.
        priced: Whether anything has.
        untimed: Attempts that ran, nobody knows since when; they are in `high` alone.
    """

    hours: Mapping[str, float] = field(default_factory=dict)
    low: float = 0.0
    high: float = 0.0
    derived: bool = False
    unpriced: tuple[str, ...] = ()
    priced: bool = False
    untimed: int = 0


def add_up(chronicle: Chronicle, prices: PriceList | None) -> Bill:
    """Add up the machines of every attempt."""
    hours: dict[str, float] = {}
    unpriced: dict[str, None] = {}
    low, high, derived, priced, untimed = 0.0, 0.0, False, False, 0
    for record in chronicle.attempts:
        if record.job is None:
            continue
        untimed += record.ran_untimed
        running, waiting = hours_of(record, chronicle.at)
        if not record.job.machines:
            unpriced["the machines of a job that is gone"] = None
        for machines in record.job.machines:
            label, count = machines_text(machines), machines.replicas
            hours[label] = hours.get(label, 0.0) + running * count
            location, strategy = record.job.resource_name.location, record.job.strategy
            price = prices.of(machines, location, strategy) if prices is not None else None
            if price is None:
                listed = strategy in LISTED_STRATEGIES
                unpriced[f"{label} in {location}" if listed else f"{label} with {strategy}"] = None
                continue
            priced, derived = True, derived or price.derived
            low += running * count * price.per_hour
            high += waiting * count * price.per_hour
    return Bill(
        hours=hours,
        low=low,
        high=high,
        derived=derived,
        unpriced=tuple(unpriced),
        priced=priced,
        untimed=untimed,
    )


def hours_of(record: AttemptRecord, at: datetime) -> tuple[float, float]:
    """Hours of one replica: since its job's start, and since its creation."""
    end = record.ended_at or at
    whole = max(0.0, (end - record.began_at).total_seconds() / _HOUR)
    if record.started_at is None:
        return 0.0, whole
    # Clocks differ: a replica may claim its start before its job is said to be created.
    return min(whole, max(0.0, (end - record.started_at).total_seconds() / _HOUR)), whole


def machines_text(machines: PoolMachines) -> str:
    """One replica's machine, as `n1-standard-4 + 2 NVIDIA_TESLA_T4`."""
    text = machines.machine_type or "a machine without a name"
    if machines.accelerator_count:
        text += f" + {machines.accelerator_count} {machines.accelerator_type}"
    return text
