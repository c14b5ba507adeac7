"""What a contest leaves: forecasts, fits, the choice. Values only.

They stand apart from the models, whose libraries take seconds to import: the process that runs the
flow handles results, and only those that fit need more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from series import FloatArray, Series

ModelName = Literal["Seasonal naive", "Holt-Winters", "ETS", "Theta", "ARIMA"]
MODEL_NAMES: Final[tuple[ModelName, ...]] = get_args(ModelName)

INTERVAL: Final = 0.8
"""Nominal coverage of every interval."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Point forecast and the interval's bounds, one value a month."""

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, slots=True)
class Fit:
    """A forecast and how the fit went; after a failure the forecast is seasonal naive's."""

    forecast: Forecast
    warnings: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """How a model did on the backtest, inside the past; after a failure seasonal naive did."""

    mase: float
    warnings: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one series: its trial, and its fit to the whole estimation sample."""

    series: str
    model: ModelName
    trial: Trial
    fit: Fit


@dataclass(frozen=True, slots=True)
class Contest:
    """One series with its entries by model, and the model that their trials chose."""

    series: Series
    chosen: ModelName
    entries: dict[ModelName, Entry]


def decide(series: Series, entries: Sequence[Entry]) -> Contest:
    """Choose the model with the least MASE on its trial; of equal ones that named first.

    Trials know nothing of the 24 months that the competition withheld, and nothing else is read.
    """
    chosen = min(entries, key=lambda entry: entry.trial.mase).model
    return Contest(series, chosen, {entry.model: entry for entry in entries})
