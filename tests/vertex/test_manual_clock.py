"""The clock that tests move."""

from __future__ import annotations

import anyio
import pytest

from prefect_vertex.testing import ManualClock

pytestmark = pytest.mark.anyio


async def test_each_sleeper_wakes_at_its_own_moment() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))

    async with anyio.create_task_group() as group:
        group.start_soon(sleep, "late", 5)
        group.start_soon(sleep, "early", 2)
        await clock.advance(10)

    assert woken == [("early", 2), ("late", 5)]
    assert clock.now() == 10


async def test_what_a_sleeper_starts_on_waking_is_part_of_the_same_move() -> None:
    clock = ManualClock()
    ticks: list[float] = []

    async def tick() -> None:
        while len(ticks) < 3:
            await clock.sleep(1)
            ticks.append(clock.now())

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await clock.advance(3)

    assert ticks == [1, 2, 3]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, 5)
        await clock.settle()
        assert clock.sleepers == 1
        group.cancel_scope.cancel()

    assert clock.sleepers == 0


async def test_wall_time_moves_with_it() -> None:
    clock = ManualClock()
    before = clock.utc()

    await clock.advance(90)

    assert (clock.utc() - before).total_seconds() == 90
