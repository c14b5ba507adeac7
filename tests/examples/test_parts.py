from __future__ import annotations

import json

import parts
import pytest
import report
import units
from results import Contest, Entry, ModelName
from series import choose_names
from units import DivideBy, Unit

from prefect_vertex.replica import Replica, map_slots

NAMES = choose_names(3)
MODELS: list[ModelName] = ["Seasonal naive", "Holt-Winters", "Theta"]


@pytest.fixture(scope="module")
def entries() -> dict[Unit, Entry]:
    """Every model on every series, as a replica alone has them: in two processes of a pool."""
    share = units.share_of(Replica(0, 1), NAMES, MODELS, "series")
    results = map_slots(units.run, share, weight=units.weight, slots=2)
    return {unit: units.entry_of(unit, result) for unit, result in zip(share, results, strict=True)}


def _parts(world_size: int, divide_by: DivideBy) -> list[bytes]:
    """What several replicas leave; each fits anew, in this process."""
    return [
        parts.as_parquet(
            units.run(unit)
            for unit in units.share_of(Replica(rank, world_size), NAMES, MODELS, divide_by)
        )
        for rank in range(world_size)
    ]


def _files(contests: list[Contest]) -> dict[str, bytes]:
    return {
        "accuracy.json": json.dumps(report.accuracy_by_model(contests)).encode(),
        "accuracy.parquet": report.as_parquet(report.accuracy_by_series(contests)),
        "forecasts.parquet": report.as_parquet(report.forecasts(contests)),
    }


@pytest.mark.parametrize("divide_by", ["series", "models"])
@pytest.mark.parametrize("world_size", [3, 8])
def test_the_results_of_many_replicas_are_those_of_one_to_the_last_bit(
    entries: dict[Unit, Entry], world_size: int, divide_by: DivideBy
) -> None:
    """Three series over eight replicas leave five parts empty, which are merged all the same."""
    alone = parts.merge([parts.as_parquet(entries.values())], NAMES, MODELS)
    together = parts.merge(_parts(world_size, divide_by), NAMES, MODELS)
    assert _files(together) == _files(alone)


def test_a_part_is_read_as_it_was_written(entries: dict[Unit, Entry]) -> None:
    for entry in entries.values():
        (read,) = parts.from_parquet(parts.as_parquet([entry]))
        assert (read.series, read.model, read.trial) == (entry.series, entry.model, entry.trial)
        assert (read.fit.warnings, read.fit.failure) == (entry.fit.warnings, entry.fit.failure)
        for bound in ("mean", "lower", "upper"):
            written = getattr(entry.fit.forecast, bound)
            assert getattr(read.fit.forecast, bound).tobytes() == written.tobytes()


def test_the_order_of_the_entries_makes_no_difference(entries: dict[Unit, Entry]) -> None:
    backwards = reversed(entries.values())
    contests = parts.merge([parts.as_parquet(backwards)], NAMES, MODELS)
    assert [each.series.name for each in contests] == NAMES
    assert [list(each.entries) for each in contests] == [MODELS] * len(NAMES)


def test_what_is_missing_or_there_twice_is_an_error_that_names_it(
    entries: dict[Unit, Entry],
) -> None:
    first, second, *others = entries.values()
    with pytest.raises(parts.MergeError) as caught:
        parts.merge(
            [parts.as_parquet([second]), parts.as_parquet([second, *others])], NAMES, MODELS
        )
    message = str(caught.value)
    assert f"{first.model} on {first.series} is there 0 times instead of 1" in message
    assert f"{second.model} on {second.series} is there 2 times instead of 1" in message


def test_a_series_that_nobody_asked_for_is_an_error(entries: dict[Unit, Entry]) -> None:
    """A part of another run, for instance."""
    with pytest.raises(parts.MergeError, match="1 times instead of 0"):
        parts.merge([parts.as_parquet(entries.values())], NAMES[:2], MODELS)


def test_of_many_that_are_missing_the_first_are_named_and_the_others_counted() -> None:
    with pytest.raises(parts.MergeError, match=r"; and 4 more$"):
        parts.merge([parts.as_parquet([])], NAMES, MODELS)
