"""Request budgets: smooth, fair, slowed by a denial and recovering."""

from __future__ import annotations

import math

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.testing import ManualClock
from prefect_vertex.vertex.budget import (
    FLOOR,
    RECOVERY_SECONDS,
    SPACING,
    MonotonicClock,
    RateBudget,
)

pytestmark = pytest.mark.anyio


async def _take(budget: RateBudget, clock: ManualClock, times: list[float]) -> None:
    await budget.acquire()
    times.append(clock.now())


async def _taken_at(budget: RateBudget, clock: ManualClock, count: int, wait: float) -> list[float]:
    """When each of `count` callers, all there from the start, got its token."""
    times: list[float] = []
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(_take, budget, clock, times)
        await clock.advance(wait)
        group.cancel_scope.cancel()
    return times


async def test_sixty_a_minute_is_one_a_second_and_a_little_and_never_a_burst() -> None:
    clock = ManualClock()

    times = await _taken_at(RateBudget(60, clock), clock, 5, wait=10)

    assert times == pytest.approx([SPACING * place for place in range(5)])


async def test_no_minute_of_the_service_sees_more_than_the_rate() -> None:
    """Also where each request takes up to a second, or none at all, to arrive."""
    clock = ManualClock()
    sent = await _taken_at(RateBudget(60, clock), clock, 200, wait=300)
    arrived = [at + (place % 2) for place, at in enumerate(sent)]

    assert max(sum(at < other <= at + 59.9 for other in arrived) for at in arrived) < 60


async def test_a_long_rest_earns_one_token_only() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    await clock.advance(3600)

    times = await _taken_at(budget, clock, 3, wait=10)

    assert times == pytest.approx([3600 + SPACING * place for place in range(3)])


async def test_callers_are_served_in_the_order_they_came() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    served: list[int] = []

    async def take(number: int) -> None:
        await budget.acquire()
        served.append(number)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(take, number)
            await clock.settle()
        await clock.advance(10)

    assert served == [0, 1, 2, 3, 4, 5]


async def test_a_cancelled_caller_takes_no_token_and_holds_nobody_up() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    await budget.acquire()
    times: list[float] = []
    patience = anyio.CancelScope()

    async def wait_in_vain() -> None:
        with patience:
            await budget.acquire()

    async with anyio.create_task_group() as group:
        group.start_soon(wait_in_vain)
        await clock.settle()
        group.start_soon(_take, budget, clock, times)
        await clock.settle()
        assert budget.waiting == 2
        patience.cancel()
        await clock.advance(5)

    assert times == pytest.approx([SPACING])
    assert budget.waiting == 0


async def test_an_unlimited_budget_never_waits() -> None:
    clock = ManualClock()

    times = await _taken_at(RateBudget(math.inf, clock), clock, 100, wait=0)

    assert times == [0] * 100


async def test_a_denial_halves_the_rate_which_comes_back_linearly() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    budget.deny()

    rates = [budget.rate_per_minute]
    for _ in range(3):
        await clock.advance(RECOVERY_SECONDS / 4)
        rates.append(budget.rate_per_minute)

    assert rates == [30, 45, 60, 60]


async def test_denials_of_requests_already_under_way_count_once() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)

    for _ in range(10):
        budget.deny()

    assert budget.rate_per_minute == 30


async def test_no_number_of_denials_stops_a_budget() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)

    for _ in range(50):
        await clock.advance(6)
        budget.deny()

    assert budget.rate_per_minute >= 60 * FLOOR


async def test_a_denial_without_advice_pauses_for_one_interval_of_the_new_rate() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    budget.deny()

    times = await _taken_at(budget, clock, 1, wait=10)

    assert times == [2]


async def test_the_services_own_advice_when_to_come_back_is_kept() -> None:
    clock = ManualClock()
    budget = RateBudget(600, clock)
    budget.deny(retry_after_seconds=30)

    times = await _taken_at(budget, clock, 1, wait=60)

    assert times == [30]


async def test_a_denial_puts_off_a_caller_who_waits_already() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    await budget.acquire()
    times: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_take, budget, clock, times)
        await clock.advance(0.5)
        budget.deny(retry_after_seconds=10)
        await clock.advance(20)

    assert times == [10.5]


async def test_the_time_in_which_somebody_waited_for_a_token_is_counted() -> None:
    clock = ManualClock()
    budget = RateBudget(60, clock)
    await _taken_at(budget, clock, 4, wait=2.5)

    assert budget.empty_seconds == 2.5

    await clock.advance(100)

    assert budget.empty_seconds == 2.5


@pytest.mark.parametrize("rate", [0, -1, math.nan])
async def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="positive rate"):
        RateBudget(rate, ManualClock())


async def test_the_machines_own_clock_moves_forward() -> None:
    clock = MonotonicClock()
    before = clock.now()

    await clock.sleep(0)

    assert clock.now() >= before


@given(
    rate=st.sampled_from([6.0, 30.0, 60.0, 300.0, 600.0]),
    rests=st.lists(st.floats(0, 200), min_size=1, max_size=40),
    denials=st.sets(st.integers(0, 40), max_size=5),
)
def test_no_minute_ever_sees_more_than_the_rate(
    rate: float, rests: list[float], denials: set[int]
) -> None:
    """Whatever the pauses between callers and the denials, any 60 s hold at most `rate` tokens."""
    clock = ManualClock(auto_advance=True)
    budget = RateBudget(rate, clock)
    times: list[float] = []

    async def spend() -> None:
        for number, rest in enumerate(rests):
            if number in denials:
                budget.deny()
            await clock.sleep(rest)
            for _ in range(8):
                await _take(budget, clock, times)

    anyio.run(spend)

    for start in times:
        # A hair less than a minute: the sums of intervals are not exact.
        assert sum(start <= moment < start + 59.999 for moment in times) <= rate
