"""Work is divided among replicas: each piece goes to exactly one, and none has much more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.replica.shares import assign, effective_worker_count, shard

ITEMS = st.lists(st.integers(0, 50), max_size=60)
WORLDS = st.integers(1, 70)


@given(ITEMS, WORLDS)
def test_shards_one_after_the_other_are_the_sorted_items(items: list[int], world: int) -> None:
    shards = [shard(items, rank, world) for rank in range(world)]
    assert [item for each in shards for item in each] == sorted(items)


@given(ITEMS, WORLDS)
def test_assignments_together_are_the_items_each_once(items: list[int], world: int) -> None:
    places = list(enumerate(items))
    assigned = [assign(places, rank, world) for rank in range(world)]
    assert sorted(place for each in assigned for place in each) == places


@given(ITEMS, WORLDS)
def test_no_replica_has_more_than_one_piece_more_than_another(items: list[int], world: int) -> None:
    for divide in (shard, assign):
        sizes = {len(divide(items, rank, world)) for rank in range(world)}
        assert max(sizes) - min(sizes) <= 1


@given(st.sets(st.text(max_size=4)), WORLDS)
def test_a_shard_is_the_same_in_whatever_order_the_items_come(items: set[str], world: int) -> None:
    orders = [sorted(items), sorted(items, reverse=True), list(items)]
    for rank in range(world):
        first, *others = (shard(order, rank, world) for order in orders)
        assert others == [first, first]


@pytest.mark.parametrize(
    ("n", "world", "sizes"),
    [(10, 3, [3, 3, 4]), (2, 5, [0, 0, 1, 0, 1]), (0, 2, [0, 0]), (3, 8, [0, 0, 1, 0, 0, 1, 0, 1])],
)
def test_the_slice_is_the_contracts(n: int, world: int, sizes: list[int]) -> None:
    """With fewer items than replicas some are empty, perhaps the first."""
    assert [len(shard(range(n), rank, world)) for rank in range(world)] == sizes


def test_an_assignment_goes_by_the_order_given() -> None:
    models = ["tft", "arima", "ets", "naive", "theta"]
    assert [assign(models, rank, 2) for rank in range(2)] == [
        ["tft", "ets", "theta"],
        ["arima", "naive"],
    ]


def test_a_set_is_not_assigned_because_each_process_orders_it_in_its_own_way() -> None:
    with pytest.raises(TypeError, match="use shard"):
        assign({"a", "b"}, 0, 2)


def test_what_cannot_be_compared_is_sharded_by_a_key() -> None:
    items = [{"id": 3}, {"id": 1}, {"id": 2}]
    assert shard(items, 0, 1, key=lambda item: item["id"]) == [{"id": 1}, {"id": 2}, {"id": 3}]
    with pytest.raises(TypeError):
        shard(items, 0, 1)


UNORDERED: dict[str, tuple[Any, Callable[[Any], Any] | None]] = {
    "equal keys": ({"a1", "b1", "c2"}, lambda item: item[1]),
    "equal keys, frozen": (frozenset({"a1", "b1"}), len),
    "equal keys of a mapping's keys made from a set": (dict.fromkeys("abc").keys() | {"d"}, len),
    "sets, which are ordered only in part": ({frozenset({1}), frozenset({2})}, None),
    "numbers that are none": ({float("nan"), 1.0}, None),
}


@pytest.mark.parametrize(("items", "key"), UNORDERED.values(), ids=UNORDERED)
def test_a_set_is_sharded_only_where_its_items_are_told_apart(
    items: Any, key: Callable[[Any], Any] | None
) -> None:
    """Each process has its own order for the others: items would be lost, and others done twice."""
    with pytest.raises(TypeError, match="another order in every process"):
        shard(items, 0, 2, key=key)


def test_a_set_whose_items_are_told_apart_is_sharded() -> None:
    assert shard({"b1", "a2"}, 0, 1, key=lambda item: item[1]) == ["b1", "a2"]
    assert shard({3, 1, 2}, 1, 2) == [2, 3]
    assert shard(set(), 0, 2) == []


def test_a_mapping_has_the_order_in_which_it_was_made() -> None:
    """Its keys are a set to Python, but the same list in every process."""
    models = {"tft": 1, "ets": 2, "arima": 3}
    assert assign(models.keys(), 0, 2) == assign(models, 0, 2) == ["tft", "arima"]
    assert shard(models.keys(), 0, 2, key=lambda name: 0) == ["tft"]


@pytest.mark.parametrize(("rank", "world"), [(2, 2), (-1, 2), (0, 0)])
def test_there_is_no_share_for_a_rank_that_there_is_not(rank: int, world: int) -> None:
    for divide in (shard, assign):
        with pytest.raises(ValueError, match=f"no rank {rank} among {world}"):
            divide([1], rank, world)


@pytest.mark.parametrize(
    ("requested", "units", "one_each", "count"),
    [
        (8, 3, False, 3),
        (8, 100, False, 8),
        (1, 100, False, 1),
        (0, 100, False, 1),
        (8, 0, False, 1),
        (1, 5, True, 5),
        (8, 5, True, 5),
        (8, 0, True, 1),
    ],
)
def test_the_worker_count_fits_the_work(
    requested: int, units: int, count: int, *, one_each: bool
) -> None:
    assert effective_worker_count(requested, units, one_each=one_each) == count


@given(requested=st.integers(-3, 100), units=st.integers(1, 100), one_each=st.booleans())
def test_no_replica_of_a_count_that_fits_is_idle(
    *, requested: int, units: int, one_each: bool
) -> None:
    world = effective_worker_count(requested, units, one_each=one_each)
    for divide in (shard, assign):
        assert all(divide(range(units), rank, world) for rank in range(world))


def test_there_is_no_negative_work() -> None:
    with pytest.raises(ValueError, match="units is -1"):
        effective_worker_count(1, -1)
