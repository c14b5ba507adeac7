"""Which visit of a meeting point a call is: in flows, subflows and tasks that are tried again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from prefect import flow, task

from prefect_vertex.replica.seams import runs_around
from prefect_vertex.replica.visits import Visits

Prefect = Any  # the fixture's class; test modules cannot import a conftest


def test_visits_are_counted_by_place() -> None:
    visits = Visits()

    assert [visits.next(place) for place in "aaba"] == [0, 1, 0, 2]


def test_after_starting_over_they_begin_at_zero() -> None:
    visits = Visits()
    assert visits.next("a", [("flow", 1)]) == 0
    visits.start_over()

    assert visits.next("a", [("flow", 2)]) == 0


def test_a_run_that_is_tried_again_gets_its_numbers_again_and_then_new_ones() -> None:
    visits = Visits()
    flow_run = ("flow", 1)
    first = [visits.next("a", [("task", 1), flow_run]) for _ in range(2)]
    again = [visits.next("a", [("task", 2), flow_run]) for _ in range(3)]

    assert (first, again) == ([0, 1], [0, 1, 2])
    assert visits.next("a", [flow_run]) == 3


def test_a_try_that_came_to_nothing_takes_no_number() -> None:
    visits = Visits()

    assert visits.next("a", [("task", 2), ("flow", 1)]) == 0


def test_new_tasks_in_a_subflow_that_is_tried_again_get_the_numbers_of_the_old_ones() -> None:
    """Also where a task in it had been tried again before."""
    visits = Visits()
    around = ("flow", 1)
    for task_try in (1, 2):
        assert visits.next("a", [("task", task_try), ("sub", 1), around]) == 0
    assert visits.next("a", [("later task", 1), ("sub", 1), around]) == 1

    assert visits.next("a", [("new task", 1), ("sub", 2), around]) == 0
    assert visits.next("a", [("newer task", 1), ("sub", 2), around]) == 1
    assert visits.next("a", [("newest task", 1), ("sub", 2), around]) == 2


def test_threads_get_different_numbers() -> None:
    visits = Visits()
    seen: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: seen.extend(visits.next("a", [("flow", 1)]) for _ in range(200))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen) == list(range(1600))


def test_outside_of_runs_there_are_none_around() -> None:
    assert runs_around() == []


def test_prefect_tells_the_runs_around_a_call_and_their_tries(prefect: Prefect) -> None:
    """Innermost first: a task of a subflow, submitted or not, and each again after a failure."""
    seen: list[list[tuple[str, int]]] = []

    @task(retries=1)
    def work() -> None:
        seen.append(runs_around())
        if seen[-1][0][1] == 1:
            raise RuntimeError("the first try")

    @flow(retries=1)
    def sub() -> None:
        work()
        seen.append(runs_around())
        if len(seen) < 4:
            raise RuntimeError("the first try")
        work.submit().wait()

    @flow
    def main() -> None:
        sub()
        seen.append(runs_around())

    main()
    tries = [[number for _, number in around] for around in seen]

    assert tries[:3] == [[1, 1, 1], [2, 1, 1], [1, 1]]
    assert tries[3:6] == [[1, 2, 1], [2, 2, 1], [2, 1]]
    assert tries[6:] == [[1, 2, 1], [2, 2, 1], [1]]
    assert seen[0][1:] == seen[2]
    assert seen[5][0][0] == seen[2][0][0]
    assert len({around[-1] for around in seen}) == 1


def test_prefect_tells_them_in_async_flows_and_in_threads_too(prefect: Prefect) -> None:
    """A flow that a task calls is inside that task."""
    seen: list[list[tuple[str, int]]] = []

    @flow
    async def inner() -> None:
        seen.append(await asyncio.to_thread(runs_around))

    @task(retries=1)
    async def calls() -> None:
        seen.append(runs_around())
        await inner()
        if len(seen) < 3:
            raise RuntimeError("the first try")

    @flow
    async def main() -> None:
        await calls()

    asyncio.run(main())
    tries = [[number for _, number in around] for around in seen]

    assert tries == [[1, 1], [1, 1, 1], [2, 1], [1, 2, 1]]
