from __future__ import annotations

import accuracy
import numpy as np
import pytest
from models import seasonal_naive
from series import HORIZON, FloatArray, monthly_series

ACTUAL = np.array([100.0, 200.0])
FORECAST = np.array([110.0, 180.0])

# Table 4 of the paper, row "SNaïve" under MASE: its ten columns.
_HORIZONS = (1, 2, 3, 6, 12, 18, 24)
_TABLE_4 = (1.23, 1.43, 1.40, 1.47, 1.09, 1.78, 1.48, 1.35, 1.37, 1.54)


def test_mape_is_the_mean_of_errors_in_percent_of_actual_values() -> None:
    assert accuracy.mape(ACTUAL, FORECAST) == pytest.approx((10 + 10) / 2)


def test_mape_refuses_an_actual_value_of_zero() -> None:
    with pytest.raises(ValueError, match="MAPE is undefined where an actual value is zero"):
        accuracy.mape(np.array([0.0, 1.0]), FORECAST)


def test_smape_measures_errors_against_the_middle_of_actual_and_forecast() -> None:
    assert accuracy.smape(ACTUAL, FORECAST) == pytest.approx((1000 / 105 + 2000 / 190) / 2)


def test_smape_of_a_month_with_both_at_zero_is_zero_and_never_exceeds_200() -> None:
    assert accuracy.smape(np.array([0.0, 0.0]), np.array([0.0, 5.0])) == pytest.approx(100)


def test_mase_is_in_units_of_the_yearly_change_inside_the_training_sample() -> None:
    train = np.repeat([10.0, 14.0], 12)
    assert accuracy.mase(ACTUAL, FORECAST, train) == pytest.approx(15 / 4)


def test_mase_refuses_a_series_that_repeats_itself() -> None:
    with pytest.raises(ValueError, match="MASE is undefined"):
        accuracy.mase(ACTUAL, FORECAST, np.repeat(7.0, 36))


def test_coverage_counts_months_inside_the_interval_bounds_included() -> None:
    lower, upper = np.array([100.0, 201.0]), np.array([101.0, 300.0])
    assert accuracy.coverage(ACTUAL, lower, upper) == pytest.approx(50)


@pytest.fixture(scope="module")
def naive_errors() -> FloatArray:
    """Absolute errors of seasonal naive, a row for each of the 366 series."""
    return np.array(
        [
            np.abs(each.actual - seasonal_naive(each.train, HORIZON).mean)
            for each in monthly_series().values()
        ]
    )


def test_seasonal_naive_has_the_published_mape() -> None:
    """22.56: Table 4 of https://doi.org/10.1016/j.ijforecast.2010.04.009, average over 1-24."""
    scores = [
        accuracy.mape(each.actual, seasonal_naive(each.train, HORIZON).mean)
        for each in monthly_series().values()
    ]
    assert round(float(np.mean(scores)), 2) == 22.56


def test_seasonal_naive_has_the_published_mase() -> None:
    """1.63: R package Tcomp 1.0.1, vignette "tourism-comp", monthly, average over 1-24."""
    scores = [
        accuracy.mase(each.actual, seasonal_naive(each.train, HORIZON).mean, each.train)
        for each in monthly_series().values()
    ]
    assert round(float(np.mean(scores)), 2) == 1.63


def test_the_papers_own_mase_comes_out_when_the_scale_is_over_the_whole_series(
    naive_errors: FloatArray,
) -> None:
    """Every figure of Table 4 for seasonal naive, the 1.54 that the paper prints included."""
    scales = [
        accuracy.seasonal_scale(np.concatenate([each.train, each.actual]))
        for each in monthly_series().values()
    ]
    scaled = naive_errors / np.array(scales)[:, None]
    single = [scaled[:, horizon - 1].mean() for horizon in _HORIZONS]
    averages = [scaled[:, :horizon].mean() for horizon in (3, 12, 24)]
    assert [*single, *averages] == pytest.approx(_TABLE_4, abs=0.0051)
