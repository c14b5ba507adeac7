from __future__ import annotations

from dataclasses import replace

import accuracy
import contest
import models
import numpy as np
import pytest
from models import seasonal_naive
from results import Forecast, ModelName
from series import HORIZON, FloatArray, monthly_series

QUICK: list[ModelName] = ["Seasonal naive", "Holt-Winters", "Theta"]


def test_another_hold_out_changes_neither_choice_nor_forecast() -> None:
    """What the competition withheld is read for scores alone."""
    series = monthly_series()["M130"]
    true = contest.hold(series, QUICK)
    false = contest.hold(replace(series, actual=series.actual[::-1] * 50 + 1), QUICK)
    assert false.choice.model == true.choice.model
    assert false.choice.scores == true.choice.scores
    for model in QUICK:
        assert (false.fits[model].forecast.mean == true.fits[model].forecast.mean).all()


def test_the_backtest_forecasts_the_last_two_years_of_the_past_from_what_came_before() -> None:
    train = monthly_series()["M8"].train
    expected = accuracy.mase(
        train[-HORIZON:], seasonal_naive(train[:-HORIZON], HORIZON).mean, train[:-HORIZON]
    )
    assert contest.choose(train, QUICK).scores["Seasonal naive"] == pytest.approx(expected)


def test_the_model_with_the_least_backtest_error_is_chosen() -> None:
    choice = contest.choose(monthly_series()["M222"].train, QUICK)
    assert choice.scores[choice.model] == min(choice.scores.values())


def test_of_equal_models_the_one_named_first_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed fit has seasonal naive's forecast, and does not win over it."""

    def raises(_values: FloatArray, _horizon: int) -> Forecast:
        raise ValueError("no fit")

    monkeypatch.setitem(models.MODELS, "Theta", raises)
    choice = contest.choose(monthly_series()["M8"].train, ["Seasonal naive", "Theta"])
    assert choice.model == "Seasonal naive"
    assert choice.fits["Theta"].failure == "ValueError: no fit"


def test_a_short_past_has_a_backtest_of_one_year() -> None:
    choice = contest.choose(monthly_series()["M8"].train[:50], ["Seasonal naive"])
    assert len(choice.fits["Seasonal naive"].forecast.mean) == 12


def test_a_past_too_short_for_a_backtest_is_an_error_that_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match=r"a backtest needs 48 months; .* has 47"):
        contest.choose(np.arange(47.0), QUICK)
