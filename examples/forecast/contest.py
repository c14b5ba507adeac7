"""All models on one series: scored inside its past, chosen there, then put to the test.

The choice is made by `choose`, which is given the estimation sample and nothing else: the 24
months that the competition withheld are read only to score what was already decided.
"""

from collections.abc import Sequence
from typing import Final

import accuracy
from models import fit
from results import Choice, Contest, ModelName
from series import HORIZON, PERIOD, FloatArray, Series

_SHORTEST_PAST: Final = 3 * PERIOD


def choose(train: FloatArray, models: Sequence[ModelName]) -> Choice:
    """Choose a model by a backtest on the end of the estimation sample.

    The backtest forecasts the last 24 months from those before; whole years fewer where the sample
    would leave less than three years to fit on. Equal scores go to the model named first.

    Raises:
        ValueError: The sample has less than four years.
    """
    months = min(HORIZON, (len(train) - _SHORTEST_PAST) // PERIOD * PERIOD)
    if months < PERIOD:
        raise ValueError(f"a backtest needs 48 months; the estimation sample has {len(train)}")
    past, ahead = train[:-months], train[-months:]
    fits = {model: fit(model, past, months) for model in models}
    scores = {model: accuracy.mase(ahead, each.forecast.mean, past) for model, each in fits.items()}
    return Choice(min(scores, key=scores.__getitem__), scores, fits)


def hold(series: Series, models: Sequence[ModelName]) -> Contest:
    """Choose a model for a series, then fit every model to the whole estimation sample."""
    choice = choose(series.train, models)
    fits = {model: fit(model, series.train, len(series.actual)) for model in models}
    return Contest(series, choice, fits)
