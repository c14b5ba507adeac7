"""What a contest leaves: forecasts, fits, the choice. Values only.

They stand apart from the models, whose libraries take seconds to import: the process that runs the
flow handles results, and only those that fit need more.
"""

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
class Choice:
    """The model with the least MASE on the backtest, and how each did there."""

    model: ModelName
    scores: dict[ModelName, float]
    fits: dict[ModelName, Fit]


@dataclass(frozen=True, slots=True)
class Contest:
    """One series with its forecasts by model, and the model chosen before the hold-out was read."""

    series: Series
    choice: Choice
    fits: dict[ModelName, Fit]
