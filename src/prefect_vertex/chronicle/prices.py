"""A dated list of prices, and what machines cost by it.

List prices only: no discount, no Spot or Flex price, which change by the day, and nothing but
machines and accelerators.  What the list does not cover has no price, rather than a guessed one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from prefect_vertex.errors import SetupError
from prefect_vertex.lifecycle.snapshot import PoolMachines

LISTED_STRATEGIES = frozenset({"", "STANDARD", "ON_DEMAND"})
"""What list prices are for; the unspecified strategy is on demand too."""

_FORM = (
    'Expected {"date": "2026-10-07", "currency": "USD", "source": "...", "prices": '
    '[{"location": "us-central1", "machine_type": "n1-standard-4", "per_hour": 0.22}, ...]}; '
    "an entry has a machine_type or an accelerator_type."
)


@dataclass(frozen=True, slots=True)
class Price:
    """Of one machine or one accelerator, for an hour.

    Attributes:
        derived: Computed from parts, not read from a list as it stands.
    """

    per_hour: float
    derived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Prices as they were on a day.

    Attributes:
        day: When they were read.
        source: Where.
        machines: By location and machine type.
        accelerators: By location and accelerator type, each.
    """

    day: date
    currency: str = "USD"
    source: str = ""
    machines: Mapping[tuple[str, str], Price] = field(default_factory=dict)
    accelerators: Mapping[tuple[str, str], Price] = field(default_factory=dict)

    def of(self, machines: PoolMachines, location: str, strategy: str) -> Price | None:
        """One replica for an hour; None where the list does not cover all of it."""
        if strategy not in LISTED_STRATEGIES:
            return None
        machine = self.machines.get((location, machines.machine_type))
        if machine is None or not machines.accelerator_count:
            return machine
        accelerator = self.accelerators.get((location, machines.accelerator_type))
        if accelerator is None:
            return None
        return Price(
            machine.per_hour + machines.accelerator_count * accelerator.per_hour,
            machine.derived or accelerator.derived,
        )


def parse_prices(text: str, name: str) -> PriceList:
    """Read a price list.

    Args:
        text: JSON.
        name: What messages call it.

    Raises:
        SetupError: It is none; the message says which entry is at fault.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _fault(name, f"it is not JSON: {error}") from error
    if not isinstance(whole, dict) or not isinstance(whole.get("prices"), list):
        raise _fault(name, "it has no list of prices")
    try:
        day = date.fromisoformat(str(whole.get("date")))
    except ValueError as error:
        raise _fault(name, f"its date is {whole.get('date')!r}, expected YYYY-MM-DD") from error
    machines: dict[tuple[str, str], Price] = {}
    accelerators: dict[tuple[str, str], Price] = {}
    for place, entry in enumerate(whole["prices"]):
        kind, key, price = _entry(entry, f"prices[{place}]", name)
        (machines if kind == "machine_type" else accelerators)[key] = price
    return PriceList(
        day=day,
        currency=str(whole.get("currency") or "USD"),
        source=str(whole.get("source") or ""),
        machines=machines,
        accelerators=accelerators,
    )


def _entry(entry: Any, path: str, name: str) -> tuple[str, tuple[str, str], Price]:
    if not isinstance(entry, dict):
        raise _fault(name, f"{path} is {entry!r}, expected an object")
    kinds = [kind for kind in ("machine_type", "accelerator_type") if entry.get(kind)]
    if len(kinds) != 1 or not entry.get("location"):
        raise _fault(name, f"{path} needs a location and a machine_type or an accelerator_type")
    amount = entry.get("per_hour")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 1e6:  # noqa: PLR2004 - no machine costs a million an hour
        raise _fault(name, f"{path}.per_hour is {amount!r}, expected a price for an hour")
    key = (str(entry["location"]), str(entry[kinds[0]]))
    return kinds[0], key, Price(float(amount), bool(entry.get("derived")))


def _fault(name: str, what: str) -> SetupError:
    return SetupError(f"The price list {name} cannot be read: {what}.", hint=_FORM)
