from __future__ import annotations

import warnings

import models
import numpy as np
import pytest
from models import fit, seasonal_naive
from results import MODEL_NAMES, Forecast, ModelName
from series import HORIZON, FloatArray, monthly_series

SEASONS = np.array([0.6, 0.7, 0.9, 1.0, 1.1, 1.4, 1.8, 1.7, 1.1, 0.9, 0.7, 0.5])


def _values(name: str, months: int | None = None) -> FloatArray:
    return monthly_series()[name].train[:months]


@pytest.mark.parametrize("model", MODEL_NAMES)
@pytest.mark.parametrize(
    ("name", "months"),
    [
        pytest.param("M1", None, id="as-it-is"),
        pytest.param("M160", None, id="a-quarter-zeros"),
        pytest.param("M8", 36, id="three-years"),
    ],
)
def test_every_model_forecasts_every_kind_of_series(
    model: ModelName, name: str, months: int | None
) -> None:
    """A finite value for each month, never negative, between bounds in order; no failure."""
    result = fit(model, _values(name, months), HORIZON)
    bounds = np.array([result.forecast.lower, result.forecast.mean, result.forecast.upper])
    assert result.failure is None
    assert bounds.shape == (3, HORIZON)
    assert np.isfinite(bounds).all()
    assert bounds.min() >= 0
    assert (result.forecast.lower <= result.forecast.upper).all()


@pytest.mark.parametrize("model", [name for name in MODEL_NAMES if name != "Seasonal naive"])
def test_a_model_follows_trend_and_seasons_that_seasonal_naive_misses(model: ModelName) -> None:
    months = np.arange(144.0)
    truth = (1000 + 10 * months) * np.resize(SEASONS, 144)
    noise = np.random.default_rng(7).normal(1, 0.01, 120)
    result = fit(model, truth[:120] * noise, HORIZON)
    ahead = truth[120:]
    missed = np.abs(ahead - seasonal_naive(truth[:120], HORIZON).mean).mean()
    assert np.abs(ahead - result.forecast.mean).mean() < missed / 2


def test_seasonal_naive_repeats_the_last_year_and_is_less_sure_of_the_second() -> None:
    values = _values("M8")
    forecast = seasonal_naive(values, HORIZON)
    widths = forecast.upper - forecast.lower
    assert forecast.mean.tolist() == [*values[-12:], *values[-12:]]
    assert widths[12:] == pytest.approx(widths[:12] * np.sqrt(2))


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_a_forecast_does_not_depend_on_the_unit(model: ModelName) -> None:
    """Thousands or ones: ARIMA's choice of scale by likelihood included."""
    values = _values("M100")
    ones, thousands = fit(model, values, HORIZON), fit(model, values / 1000, HORIZON)
    assert thousands.forecast.mean * 1000 == pytest.approx(ones.forecast.mean, rel=0.02)


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_the_same_values_give_the_same_forecast_and_interval(model: ModelName) -> None:
    first, second = (fit(model, _values("M69"), HORIZON).forecast for _ in range(2))
    assert first.mean.tolist() == second.mean.tolist()
    assert first.upper.tolist() == second.upper.tolist()


def _constant(value: float) -> Forecast:
    return Forecast(*(np.full(HORIZON, value) for _ in range(3)))


def test_warnings_of_a_fit_are_counted_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated ones too; here a warning that got through would fail the test."""

    def complains(_values: FloatArray, _horizon: int) -> Forecast:
        for _ in range(3):
            warnings.warn("did not converge", stacklevel=1)
        return _constant(5)

    monkeypatch.setitem(models.MODELS, "Theta", complains)
    assert fit("Theta", _values("M8"), HORIZON).warnings == 3


def test_what_is_collected_meanwhile_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that other code left open warns whenever the collector comes by."""

    def collects(_values: FloatArray, _horizon: int) -> Forecast:
        warnings.warn("unclosed socket", ResourceWarning, stacklevel=1)
        warnings.warn("did not converge", stacklevel=1)
        return _constant(5)

    monkeypatch.setitem(models.MODELS, "Theta", collects)
    assert fit("Theta", _values("M8"), HORIZON).warnings == 1


def test_a_model_that_raises_gives_way_to_seasonal_naive_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raises(_values: FloatArray, _horizon: int) -> Forecast:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setitem(models.MODELS, "ETS", raises)
    result = fit("ETS", _values("M8"), HORIZON)
    assert result.failure == "LinAlgError: singular"
    assert result.forecast.mean.tolist() == [*_values("M8")[-12:]] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [(np.nan, "is not finite"), (np.inf, "is not finite"), (1e9, "10 times the largest value")],
)
def test_a_forecast_beyond_reason_is_a_failed_fit(
    monkeypatch: pytest.MonkeyPatch, value: float, reason: str
) -> None:
    monkeypatch.setitem(models.MODELS, "ARIMA", lambda _values, _horizon: _constant(value))
    result = fit("ARIMA", _values("M8"), HORIZON)
    assert reason in str(result.failure)
    assert np.isfinite(result.forecast.mean).all()


def test_a_candidate_that_cannot_be_fitted_counts_as_a_warning() -> None:
    def fails() -> object:
        raise ValueError("no")

    with pytest.warns(UserWarning, match="a candidate could not be fitted: no"):  # noqa: SIM117
        with pytest.raises(models.FitFailedError, match="no candidate could be fitted"):
            models._least_aicc([fails])
