"""The forecast example on the import path, quick contests, and a real storage server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

_EXAMPLE = Path(__file__).parents[2] / "examples" / "forecast"

# As in the container, where the folder is on PYTHONPATH and modules import each other plainly.
sys.path.insert(0, str(_EXAMPLE))
# Before NumPy is loaded: the models' matrices are small, and BLAS threads only slow them down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from results import Contest, ModelName
    from series import Series


@pytest.fixture(scope="session")
def example() -> Path:
    """Folder of the forecast example."""
    return _EXAMPLE


@pytest.fixture(scope="session")
def hold() -> Callable[[Series, list[ModelName]], Contest]:
    """Some models on one series, in this process."""
    import contest
    from results import decide

    def hold(series: Series, models: list[ModelName]) -> Contest:
        return decide(series, [contest.enter(series, model) for model in models])

    return hold


@pytest.fixture(scope="session")
def naive_contests(
    hold: Callable[[Series, list[ModelName]], Contest],
) -> Callable[[int], list[Contest]]:
    """Contests of the first series of the competition in which seasonal naive alone takes part."""
    from series import monthly_series

    def hold_many(count: int) -> list[Contest]:
        entrants = list(monthly_series().values())[:count]
        return [hold(series, ["Seasonal naive"]) for series in entrants]

    return hold_many


@pytest.fixture(scope="module")
def storage() -> Iterator[str]:
    """Address of a running storage server with the empty bucket `results`."""
    from prefect_vertex.cli.storage import StorageServer

    with StorageServer() as server:
        server.create_bucket("results")
        yield server.address
