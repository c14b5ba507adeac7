"""One model on one series: tried inside the series' past, then fitted to all of it.

The trial is given the estimation sample and nothing else: the 24 months that the competition
withheld are read only to score what was already decided.
"""

from typing import Final

import accuracy
from models import fit, give_way
from results import Entry, Fit, ModelName, Trial
from series import HORIZON, PERIOD, FloatArray, Series

_SHORTEST_PAST: Final = 3 * PERIOD


def enter(series: Series, model: ModelName) -> Entry:
    """Try a model on the series' past, then fit it to the whole estimation sample.

    Raises:
        ValueError: The sample has less than four years.
    """
    past, ahead = split(series.train)
    tried = fit(model, past, len(ahead))
    fitted = fit(model, series.train, len(series.actual))
    return _entry(series, model, tried, fitted)


def enter_failed(series: Series, model: ModelName, reason: str) -> Entry:
    """The entry of a model whose process came to grief: seasonal naive in its place."""
    past, ahead = split(series.train)
    tried = give_way(past, len(ahead), reason)
    fitted = give_way(series.train, len(series.actual), reason)
    return _entry(series, model, tried, fitted)


def split(train: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the trial fits on, and the months that it forecasts: the last 24 of the sample.

    Whole years fewer where less than three years would be left to fit on.

    Raises:
        ValueError: The sample has less than four years.
    """
    months = min(HORIZON, (len(train) - _SHORTEST_PAST) // PERIOD * PERIOD)
    if months < PERIOD:
        raise ValueError(f"a backtest needs 48 months; the estimation sample has {len(train)}")
    return train[:-months], train[-months:]


def _entry(series: Series, model: ModelName, tried: Fit, fitted: Fit) -> Entry:
    past, ahead = split(series.train)
    score = accuracy.mase(ahead, tried.forecast.mean, past)
    return Entry(series.name, model, Trial(score, tried.warnings, tried.failure), fitted)
