"""The units of work, one model on one series each, and how replicas and processes divide them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from results import Entry, ModelName
from series import monthly_series

from prefect_vertex.replica import Replica, UnitResult

DivideBy = Literal["series", "models"]

_WEIGHTS: Final[dict[ModelName, float]] = {
    "ARIMA": 12,
    "ETS": 3,
    "Theta": 2,
    "Holt-Winters": 1,
    "Seasonal naive": 0.01,
}
"""Seconds for a thousand months of series, roughly: the heaviest are to begin first."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One model on one series."""

    series: str
    model: ModelName


def share_of(
    me: Replica, names: Sequence[str], models: Sequence[ModelName], divide_by: DivideBy
) -> list[Unit]:
    """This replica's units: a shard of the series with all models, or its models on all series.

    All replicas' shares together are each series with each model, once. With more replicas than
    there is to divide, some shares are empty.
    """
    if divide_by == "series":
        names = me.shard(names)
    else:
        # Dealt out heaviest first, so that no two of the heavy ones meet while a replica is free.
        models = me.assign(sorted(models, key=lambda model: -_WEIGHTS[model]))
    return [Unit(name, model) for name in names for model in models]


def weight(unit: Unit) -> float:
    """How long a unit takes beside others: fits take longer on longer series."""
    return _WEIGHTS[unit.model] * len(monthly_series()[unit.series].train)


def run(unit: Unit) -> Entry:
    """Try and fit; what a process of the local pool does, one unit at a time."""
    # statsmodels takes seconds to import, which the flow's own process is spared.
    import contest

    return contest.enter(monthly_series()[unit.series], unit.model)


def entry_of(unit: Unit, result: UnitResult[Entry]) -> Entry:
    """What became of a unit; one that failed counts as a failed fit, and says why."""
    if result.value is not None:
        return result.value
    import contest

    return contest.enter_failed(monthly_series()[unit.series], unit.model, result.error)
