from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest
from series import HORIZON, choose_names, monthly_series


def test_the_competition_has_366_monthly_series_with_two_years_withheld() -> None:
    series = monthly_series().values()
    assert len(series) == 366
    assert {len(each.actual) for each in series} == {HORIZON}


def test_series_are_at_least_as_long_as_the_paper_says() -> None:
    """Table 3 of the paper: 91 to 333 months, hold-out included."""
    lengths = [len(each.train) + len(each.actual) for each in monthly_series().values()]
    assert (min(lengths), max(lengths)) == (91, 333)


@pytest.mark.parametrize("count", [1, 3, 24, 365])
def test_chosen_names_are_spread_in_order_and_always_the_same(count: int) -> None:
    names, every = choose_names(count), list(monthly_series())
    places = [every.index(name) for name in names]
    gaps = {second - first for first, second in pairwise(places)}
    assert len(names) == count
    assert gaps <= {366 // count, 366 // count + 1}
    assert choose_names(count) == names


def test_all_means_every_series() -> None:
    assert choose_names("all") == list(monthly_series()) == choose_names(366)


@pytest.mark.parametrize("count", [0, -1, 367])
def test_a_count_that_cannot_be_met_is_an_error_that_says_what_can(
    count: int | Literal["all"],
) -> None:
    with pytest.raises(ValueError, match=f"series must be 1 to 366 or 'all'; got {count}"):
        choose_names(count)
