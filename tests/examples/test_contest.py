from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import accuracy
import contest
import models
import numpy as np
import pytest
from models import seasonal_naive
from results import Contest, Forecast, ModelName
from series import HORIZON, FloatArray, Series, monthly_series

QUICK: list[ModelName] = ["Seasonal naive", "Holt-Winters", "Theta"]

Hold = Callable[[Series, list[ModelName]], Contest]


def test_another_hold_out_changes_neither_choice_nor_forecast(hold: Hold) -> None:
    """What the competition withheld is read for scores alone."""
    series = monthly_series()["M130"]
    true = hold(series, QUICK)
    false = hold(replace(series, actual=series.actual[::-1] * 50 + 1), QUICK)
    assert false.chosen == true.chosen
    for model in QUICK:
        assert false.entries[model].trial == true.entries[model].trial
        assert (
            false.entries[model].fit.forecast.mean == true.entries[model].fit.forecast.mean
        ).all()


def test_the_backtest_forecasts_the_last_two_years_of_the_past_from_what_came_before() -> None:
    series = monthly_series()["M8"]
    past, ahead = series.train[:-HORIZON], series.train[-HORIZON:]
    expected = accuracy.mase(ahead, seasonal_naive(past, HORIZON).mean, past)
    assert contest.enter(series, "Seasonal naive").trial.mase == pytest.approx(expected)


def test_the_model_with_the_least_backtest_error_is_chosen(hold: Hold) -> None:
    held = hold(monthly_series()["M222"], QUICK)
    errors = {model: entry.trial.mase for model, entry in held.entries.items()}
    assert errors[held.chosen] == min(errors.values())


def test_of_equal_models_the_one_named_first_is_chosen(
    hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed fit has seasonal naive's forecast, and does not win over it."""

    def raises(_values: FloatArray, _horizon: int) -> Forecast:
        raise ValueError("no fit")

    monkeypatch.setitem(models.MODELS, "Theta", raises)
    held = hold(monthly_series()["M8"], ["Seasonal naive", "Theta"])
    assert held.chosen == "Seasonal naive"
    assert held.entries["Theta"].trial.failure == "ValueError: no fit"


def test_a_model_whose_process_died_has_seasonal_naives_forecast_and_the_reason() -> None:
    series = monthly_series()["M8"]
    failed, naive = (
        contest.enter_failed(series, "ARIMA", "it died"),
        contest.enter(series, "Seasonal naive"),
    )
    assert failed.model == "ARIMA"
    assert (failed.trial.failure, failed.fit.failure) == ("it died", "it died")
    assert failed.trial.mase == naive.trial.mase
    assert failed.fit.forecast.mean.tolist() == naive.fit.forecast.mean.tolist()


def test_a_short_past_has_a_backtest_of_one_year() -> None:
    past, ahead = contest.split(monthly_series()["M8"].train[:50])
    assert (len(past), len(ahead)) == (38, 12)


def test_a_past_too_short_for_a_backtest_is_an_error_that_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match=r"a backtest needs 48 months; .* has 47"):
        contest.split(np.arange(47.0))
