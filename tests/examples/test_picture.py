from __future__ import annotations

import struct
from collections.abc import Callable

import picture
import pytest
from results import Contest


def _size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_picture_is_a_png_of_one_width_for_any_number_of_series(
    naive_contests: Callable[[int], list[Contest]], count: int
) -> None:
    width, height = _size(picture.draw(naive_contests(count)))
    assert width == 2102
    assert height > 600


def test_of_many_series_at_most_24_are_drawn_evenly_spread(
    naive_contests: Callable[[int], list[Contest]],
) -> None:
    contests = naive_contests(48)
    shown = picture._spread(contests)
    assert [each.series.name for each in shown] == [each.series.name for each in contests[1::2]]


def test_a_wide_interval_does_not_squash_the_lines() -> None:
    """The axis ends a little above 1.6 times the highest value at most."""
    import numpy as np

    ceiling = picture._ceiling(np.array([10.0]), np.array([20.0]), np.array([1e6]))
    assert ceiling == pytest.approx(1.08 * 1.6 * 20)
