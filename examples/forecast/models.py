"""Five ways to forecast a seasonal series of counts, each a function of the past alone.

Every model takes the values seen so far and a horizon, and gives a point forecast and an 80 %
prediction interval. Counts are never negative, so forecasts are cut at zero. `fit` runs one model
and keeps an account of what went wrong on the way, so that nothing has to be printed.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from results import INTERVAL, Fit, Forecast, ModelName
from series import PERIOD, FloatArray
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.forecasting.theta import ThetaModel
from statsmodels.tsa.holtwinters import ExponentialSmoothing
from statsmodels.tsa.statespace.sarimax import SARIMAX

_Z: Final = 1.2815515655446004
"""Standard normal quantile that leaves 10 % on each side."""

_PATHS: Final = 500
_LARGEST_GROWTH: Final = 10.0


class FitFailedError(Exception):
    """A model gave no usable forecast; the message says why."""


def seasonal_naive(values: FloatArray, horizon: int) -> Forecast:
    """The last twelve months, repeated; its error grows by one yearly change a year."""
    mean = np.resize(values[-PERIOD:], horizon)
    years = 1 + np.arange(horizon) // PERIOD
    changes = values[PERIOD:] - values[:-PERIOD]
    spread = _Z * np.sqrt(np.mean(changes**2) * years) if len(changes) else np.zeros(horizon)
    return Forecast(mean, mean - spread, mean + spread)


def holt_winters(values: FloatArray, horizon: int) -> Forecast:
    """Damped additive trend; seasons multiply where every value is positive, else add."""
    seasonal = "mul" if values.min() > 0 else "add"
    result = ExponentialSmoothing(
        values,
        trend="add",
        damped_trend=True,
        seasonal=seasonal,
        seasonal_periods=PERIOD,
        initialization_method="heuristic",
    ).fit(use_brute=False)
    residuals = values - result.fittedvalues
    if seasonal == "mul":
        residuals = residuals / result.fittedvalues
    return _with_bootstrap(result, residuals, horizon, error=seasonal)


def ets(values: FloatArray, horizon: int) -> Forecast:
    """The exponential smoothing state space model with the least AICc.

    Candidates: errors and seasons that add or multiply, with no trend, a trend or a damped one;
    but no additive error beside multiplicative seasons, whose forecast variance is infinite.
    """
    kinds = [("add", "add")]
    if values.min() > 0:
        kinds += [("mul", "add"), ("mul", "mul")]
    trends = [(None, False), ("add", False), ("add", True)]
    result = _least_aicc(
        partial(_ets_fit, values, error=error, seasonal=seasonal, trend=trend, damped_trend=damped)
        for error, seasonal in kinds
        for trend, damped in trends
    )
    return _with_bootstrap(result, np.asarray(result.resid), horizon)


def _ets_fit(values: FloatArray, **form: Any) -> Any:
    model = ETSModel(values, seasonal_periods=PERIOD, initialization_method="heuristic", **form)
    return model.fit(disp=0)


def theta(values: FloatArray, horizon: int) -> Forecast:
    """The Theta method: exponential smoothing with half the slope of the linear trend.

    Seasons are removed by classical decomposition and put back. The variance is that of
    exponential smoothing with drift, which Theta equals ("Unmasking the Theta method",
    International Journal of Forecasting 19(2), 2003).
    """
    result = ThetaModel(values, period=PERIOD, method="auto").fit(disp=0)
    mean = np.asarray(result.forecast(horizon))
    variance = result.sigma2 * (1 + np.arange(horizon) * result.params["alpha"] ** 2)
    spread = _Z * np.sqrt(variance)
    if result.model.method.startswith("mul"):
        spread = spread * np.asarray(result.forecast_components(horizon).seasonal)
    return Forecast(mean, mean - spread, mean + spread)


_SEASONAL_ORDER: Final = (0, 1, 1, PERIOD)
_FIRST_ORDER: Final = (1, 0, 0)
_OTHER_ORDERS: Final = ((1, 0, 1), (2, 0, 1))


def arima(values: FloatArray, horizon: int) -> Forecast:
    """A seasonal ARIMA on the scale and of the order that the AICc prefers.

    One seasonal difference and a seasonal moving average always, as monthly visitors call for.
    First the scale: logarithm, square root, or as it is; then the order. Three scales and three
    orders make five fits. The search runs on differenced values, which halves the state.
    """
    powers = (0.0, 0.5, 1.0) if values.min() > 0 else (1.0,)
    scales = [(power, _arima_fit(values, power, _FIRST_ORDER)) for power in powers]
    power, first = min(scales, key=lambda scale: _aicc_of_values(values, *scale))
    others = (partial(_arima_fit, values, power, order) for order in _OTHER_ORDERS)
    best = _least_aicc([lambda: first, *others])
    model = SARIMAX(
        _to_power(values, power),
        order=best.model.order,
        seasonal_order=_SEASONAL_ORDER,
        concentrate_scale=True,
    )
    prediction = model.filter(best.params, cov_type="none").get_forecast(horizon)
    lower, upper = np.asarray(prediction.conf_int(alpha=1 - INTERVAL)).T
    mean = np.asarray(prediction.predicted_mean)
    return Forecast(*(_from_power(each, power) for each in (mean, lower, upper)))


def _arima_fit(values: FloatArray, power: float, order: tuple[int, int, int]) -> Any:
    model = SARIMAX(
        _to_power(values, power),
        order=order,
        seasonal_order=_SEASONAL_ORDER,
        simple_differencing=True,
        concentrate_scale=True,
    )
    # Standard errors of parameters are of no use here, nor more digits than an AICc can tell.
    return model.fit(disp=0, maxiter=50, factr=1e9, low_memory=True, cov_type="none")


def _aicc_of_values(values: FloatArray, power: float, result: Any) -> float:
    """AICc of the values themselves, so that fits on different scales can be compared.

    The density of the values is that of the scaled ones times the scale's derivative.
    """
    seen = values[-result.model.nobs :]
    slope = 1 / seen if power == 0 else power * seen ** (power - 1)
    return float(result.aicc - 2 * np.sum(np.log(slope)))


def _to_power(values: FloatArray, power: float) -> FloatArray:
    return np.log(values) if power == 0 else values**power


def _from_power(scaled: FloatArray, power: float) -> FloatArray:
    return np.exp(scaled) if power == 0 else np.maximum(scaled, 0.0) ** (1 / power)


MODELS: Final[dict[ModelName, Callable[[FloatArray, int], Forecast]]] = {
    "Seasonal naive": seasonal_naive,
    "Holt-Winters": holt_winters,
    "ETS": ets,
    "Theta": theta,
    "ARIMA": arima,
}


def fit(model: ModelName, values: FloatArray, horizon: int) -> Fit:
    """Fit one model and forecast; never raises for what a series does to a model.

    Warnings are counted, those of every candidate that the model tried, but for what the garbage
    collector says of files and sockets meanwhile: that is not the model's. A model that raises, or
    whose forecast is not finite or leaves all proportion, gives seasonal naive's forecast and says
    why in `failure`. Not safe in several threads at once: Python's warning filters are global.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            forecast = _checked(MODELS[model](values, horizon), values)
        except Exception as error:  # noqa: BLE001 - optimisers raise what they like; it is reported
            reason = f"{type(error).__name__}: {error}"
            return replace(give_way(values, horizon, reason), warnings=len(caught))
    return Fit(_cut_at_zero(forecast), len(caught))


def give_way(values: FloatArray, horizon: int, reason: str) -> Fit:
    """The fit of a model that failed: seasonal naive's forecast in place of its own."""
    return Fit(_cut_at_zero(seasonal_naive(values, horizon)), failure=reason)


def _checked(forecast: Forecast, values: FloatArray) -> Forecast:
    bounds = (forecast.mean, forecast.lower, forecast.upper)
    if not all(np.isfinite(each).all() for each in bounds):
        raise FitFailedError("the forecast is not finite")
    if forecast.mean.max() > _LARGEST_GROWTH * values.max():
        raise FitFailedError(f"the forecast exceeds {_LARGEST_GROWTH:g} times the largest value")
    return forecast


def _cut_at_zero(forecast: Forecast) -> Forecast:
    bounds = (forecast.mean, forecast.lower, forecast.upper)
    return Forecast(*(np.maximum(each, 0.0) for each in bounds))


def _least_aicc(candidates: Iterable[Callable[[], Any]]) -> Any:
    """The candidate with the least AICc; one that can't be fitted leaves a warning."""
    results = []
    for candidate in candidates:
        try:
            results.append(candidate())
        except (ValueError, ArithmeticError) as error:
            warnings.warn(f"a candidate could not be fitted: {error}", stacklevel=2)
    results = [result for result in results if np.isfinite(result.aicc)]
    if not results:
        raise FitFailedError("no candidate could be fitted")
    return min(results, key=lambda result: float(result.aicc))


def _with_bootstrap(result: Any, residuals: FloatArray, horizon: int, **how: Any) -> Forecast:
    """The result's forecast between quantiles of paths drawn from its own residuals.

    The draw is seeded: the same series gives the same interval in any process.
    """
    errors = np.random.default_rng(0).choice(residuals, (horizon, _PATHS))
    paths = result.simulate(horizon, anchor="end", repetitions=_PATHS, random_errors=errors, **how)
    tail = (1 - INTERVAL) / 2
    lower, upper = np.quantile(np.asarray(paths), (tail, 1 - tail), axis=1)
    return Forecast(np.asarray(result.forecast(horizon)), lower, upper)
