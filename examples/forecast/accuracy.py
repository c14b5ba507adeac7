"""Measures of forecast accuracy, as the competition and its successors define them.

MAPE and MASE follow section 4 of "The tourism forecasting competition", International Journal of
Forecasting 27(3), 822-844 (2011), https://doi.org/10.1016/j.ijforecast.2010.04.009. sMAPE is that
of the M3 competition. All are averages over the months of one series; a table averages them over
series.
"""

import numpy as np
from series import PERIOD, FloatArray


def mape(actual: FloatArray, forecast: FloatArray) -> float:
    """Mean absolute percentage error, in percent.

    Raises:
        ValueError: An actual value is zero, where a percentage means nothing.
    """
    if not actual.all():
        raise ValueError("MAPE is undefined where an actual value is zero")
    return float(np.mean(100 * np.abs((actual - forecast) / actual)))


def smape(actual: FloatArray, forecast: FloatArray) -> float:
    """Symmetric MAPE, in percent, from 0 to 200; a month with both at zero counts as no error."""
    size = np.abs(actual) + np.abs(forecast)
    error = 200 * np.abs(actual - forecast)
    return float(np.mean(np.divide(error, size, out=np.zeros_like(size), where=size > 0)))


def seasonal_scale(values: FloatArray) -> float:
    """Mean absolute change from one year to the next: what MASE measures errors in.

    Raises:
        ValueError: The series repeats itself exactly, or is not longer than a year.
    """
    changes = np.abs(values[PERIOD:] - values[:-PERIOD])
    if not changes.any():
        raise ValueError("MASE is undefined where no month differs from the same month a year on")
    return float(np.mean(changes))


def mase(actual: FloatArray, forecast: FloatArray, train: FloatArray) -> float:
    """Mean absolute error in units of the seasonal naive error inside the estimation sample.

    This is the paper's formula, and gives 1.63 for seasonal naive over the 366 monthly series, as
    the R package Tcomp does. The paper's own Table 4 prints 1.54: that figure, and each of the
    table's other nine for seasonal naive, comes out exactly when the scale is taken over the
    whole series, hold-out included.
    """
    return float(np.mean(np.abs(actual - forecast))) / seasonal_scale(train)


def coverage(actual: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Share of the months inside the interval, in percent."""
    return float(np.mean(100.0 * ((lower <= actual) & (actual <= upper))))
