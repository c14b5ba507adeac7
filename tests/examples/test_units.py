from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import units
from results import MODEL_NAMES, Entry
from series import choose_names, monthly_series
from units import DivideBy, Unit

from prefect_vertex.replica import Replica, UnitResult, map_slots


@pytest.mark.parametrize("divide_by", ["series", "models"])
@pytest.mark.parametrize("world_size", [1, 3, 8])
@pytest.mark.parametrize("count", [3, 24])
def test_all_replicas_shares_are_each_series_with_each_model_once(
    count: int, world_size: int, divide_by: DivideBy
) -> None:
    """Also with fewer series than replicas, of which some then have nothing to do."""
    names = choose_names(count)
    shares = [
        units.share_of(Replica(rank, world_size), names, MODEL_NAMES, divide_by)
        for rank in range(world_size)
    ]
    together = sorted((unit.series, unit.model) for share in shares for unit in share)
    assert together == sorted((name, model) for name in names for model in MODEL_NAMES)


def test_a_shard_has_all_models_and_an_assignment_all_series() -> None:
    names = choose_names(6)
    shard = units.share_of(Replica(1, 3), names, MODEL_NAMES, "series")
    assert {unit.model for unit in shard} == {*MODEL_NAMES}
    assert len({unit.series for unit in shard}) == 2
    assigned = units.share_of(Replica(1, 3), names, MODEL_NAMES, "models")
    assert {unit.series for unit in assigned} == {*names}


def test_the_heaviest_models_go_to_different_replicas() -> None:
    heavy = [
        {unit.model for unit in units.share_of(Replica(rank, 3), ["M8"], MODEL_NAMES, "models")}
        for rank in range(3)
    ]
    assert ["ARIMA" in heavy[0], "ETS" in heavy[1], "Theta" in heavy[2]] == [True] * 3


def test_a_longer_series_is_heavier_and_so_is_a_model_that_fits_more() -> None:
    by_length = sorted(monthly_series().values(), key=lambda series: len(series.train))
    short, long = by_length[0].name, by_length[-1].name
    assert units.weight(Unit(long, "ETS")) > units.weight(Unit(short, "ETS"))
    assert units.weight(Unit(short, "ARIMA")) > units.weight(Unit(short, "ETS"))


def test_a_unit_whose_process_is_killed_is_a_failed_fit_and_the_others_go_on() -> None:
    """In a real pool; the reason is kept for the table."""
    share = [Unit("M8", "Seasonal naive"), Unit("M8", "Theta"), Unit("M69", "Theta")]

    def run(unit: Unit) -> Entry:
        if unit == Unit("M8", "Theta"):
            os.kill(os.getpid(), signal.SIGKILL)
        return units.run(unit)

    results = map_slots(run, share, weight=units.weight, slots=1)
    entries = [units.entry_of(*each) for each in zip(share, results, strict=True)]

    assert [(entry.series, entry.model) for entry in entries] == [
        (unit.series, unit.model) for unit in share
    ]
    naive, killed, theta = entries
    assert "SIGKILL" in str(killed.fit.failure)
    assert killed.fit.forecast.mean.tolist() == naive.fit.forecast.mean.tolist()
    assert (naive.fit.failure, theta.fit.failure) == (None, None)


def test_the_process_of_the_flow_is_spared_the_models_libraries(example: Path) -> None:
    """They take seconds to import, in each replica."""
    import subprocess
    import sys

    script = "import sys, forecast; print('statsmodels' in sys.modules, 'pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=example,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]


def test_a_unit_that_came_through_is_its_entry() -> None:
    entry = units.run(Unit("M8", "Seasonal naive"))
    result = UnitResult(index=0, value=entry)
    assert units.entry_of(Unit("M8", "Seasonal naive"), result) is entry
