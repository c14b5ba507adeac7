"""How replicas divide work among them: pure arithmetic on rank and world size.

Every replica computes its own share from the same items, and asks nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Reversible
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from prefect_vertex.planning.spelling import shown

T = TypeVar("T")


def shard(
    items: Iterable[T],
    rank: int,
    world_size: int,
    *,
    key: Callable[[T], Any] | None = None,
) -> list[T]:
    """The replica's contiguous slice of the sorted items, `[n*r//W, n*(r+1)//W)`.

    All replicas' shards together are the items, each once; their sizes differ by one at most, and
    with fewer items than replicas some are empty, perhaps the first.

    Args:
        items: In any order, the same on every replica.
        rank: From 0.
        world_size: Replicas in all.
        key: What to sort by, for items that cannot be compared; items of equal keys have to be
            given in the same order everywhere.

    Raises:
        ValueError: There is no such rank.
        TypeError: Two items cannot be compared, or those of a set are only partly in order: the
            order of a set differs from process to process.
    """
    _check(rank, world_size)
    if _is_unordered(items):
        items = list(items)
        _check_order(items, key)
    ordered: list[T] = sorted(items, key=key)  # type: ignore[type-var,arg-type] # says so itself
    n = len(ordered)
    return ordered[n * rank // world_size : n * (rank + 1) // world_size]


def assign(items: Iterable[T], rank: int, world_size: int) -> list[T]:
    """The replica's items by their place: those whose place modulo the world size is its rank.

    For few items of different weight, the heaviest first: neighbours go to different replicas.

    Args:
        items: In an order that is the same on every replica.
        rank: From 0.
        world_size: Replicas in all.

    Raises:
        ValueError: There is no such rank.
        TypeError: The items are a set, whose order differs from process to process.
    """
    _check(rank, world_size)
    if _is_unordered(items):
        raise TypeError("a set has another order in every process: assign a list, or use shard")
    return list(items)[rank::world_size]


def effective_worker_count(requested: int, units: int, *, one_each: bool = False) -> int:
    """How many replicas to ask for so that none is idle; at least one.

    Args:
        requested: How many one would like; below 1 counts as 1.
        units: Pieces of work: series to shard, or models to assign.
        one_each: Each unit is heavy enough for a machine of its own: as many as there are units.

    Raises:
        ValueError: `units` is negative.
    """
    if units < 0:
        raise ValueError(f"units is {units}, expected 0 or more")
    return max(1, units if one_each else min(requested, units))


def _is_unordered(items: Iterable[Any]) -> bool:
    """Whether it is a set; a mapping's views, and sets that keep an order, can be reversed."""
    return isinstance(items, AbstractSet) and not isinstance(items, Reversible)


def _check_order(items: list[Any], key: Callable[[Any], Any] | None) -> None:
    """Refuse a set's items that a sort leaves in the order in which they came."""
    places = items if key is None else [key(item) for item in items]
    ordered = sorted(places)
    for lower, upper in itertools.pairwise(ordered):
        if not lower < upper:
            told = "have equal keys" if lower == upper else "are not in any order"
            raise TypeError(
                f"two items of a set {told} ({shown(lower)}, {shown(upper)}), and a set has "
                "another order in every process: shard a list, or give a key that tells them apart"
            )


def _check(rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ValueError(f"there is no rank {rank} among {world_size} replicas")
