"""Which visit of a meeting point a call is: in flows, subflows and tasks that are tried again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, task

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.seams import runs_around
from prefect_vertex.replica.visits import Around, Visits

Prefect = Any  # the fixture's class; test modules cannot import a conftest


def test_visits_are_counted_by_place() -> None:
    visits = Visits()

    assert [visits.next(place) for place in "aaba"] == [0, 1, 0, 2]


def test_after_starting_over_they_begin_at_zero() -> None:
    visits = Visits()
    assert visits.next("a", [Around("flow", 1)]) == 0
    visits.start_over()

    assert visits.next("a", [Around("flow", 2)]) == 0


def test_a_run_that_is_tried_again_gets_its_numbers_again_and_then_new_ones() -> None:
    visits = Visits()
    flow_run = Around("flow", 1)
    first = [visits.next("a", [Around("task", 1), flow_run]) for _ in range(2)]
    again = [visits.next("a", [Around("task", 2), flow_run]) for _ in range(3)]

    assert (first, again) == ([0, 1], [0, 1, 2])
    assert visits.next("a", [flow_run]) == 3


def test_a_try_that_came_to_nothing_takes_no_number() -> None:
    visits = Visits()

    assert visits.next("a", [Around("task", 2), Around("flow", 1)]) == 0


def test_new_tasks_in_a_subflow_that_is_tried_again_get_the_numbers_of_the_old_ones() -> None:
    """Also where a task in it had been tried again before."""
    visits = Visits()
    around = Around("flow", 1)
    for task_try in (1, 2):
        assert visits.next("a", [Around("task", task_try), Around("sub", 1), around]) == 0
    assert visits.next("a", [Around("later task", 1), Around("sub", 1), around]) == 1

    assert visits.next("a", [Around("new task", 1), Around("sub", 2), around]) == 0
    assert visits.next("a", [Around("newer task", 1), Around("sub", 2), around]) == 1
    assert visits.next("a", [Around("newest task", 1), Around("sub", 2), around]) == 2


PARTS = "gather/parts"


def phase(number: int, flow_try: int, *, is_kept: bool = False) -> list[Around]:
    """A task of the flow's, whose result may be kept, and the flow."""
    run_id = f"phase {number} of try {flow_try}"
    call = f"inputs {number}" if is_kept else ""
    task_run = Around(run_id, 1, "phase", call, may_be_skipped=is_kept)
    return [task_run, Around("main", flow_try, "main")]


def test_a_retry_that_leaves_out_kept_results_gets_the_numbers_of_those_that_it_comes_to() -> None:
    visits = Visits()
    assert [visits.next(PARTS, phase(number, 1, is_kept=True)) for number in range(3)] == [0, 1, 2]
    visits.start_over()

    assert visits.next(PARTS, phase(2, 2, is_kept=True)) == 2
    assert visits.next(PARTS, phase(3, 2, is_kept=True)) == 3
    assert visits.uncertain() == []


def test_concurrent_runs_of_one_task_that_meet_by_names_may_come_in_another_order() -> None:
    visits = Visits()
    for flow_try, order in enumerate([(0, 1), (1, 0)], 1):
        visits.start_over()
        for number in order:
            assert visits.next(f"gather/{number}", phase(number, flow_try)) == 0
    assert visits.uncertain() == []


def _of_the_flow(number: int, flow_try: int) -> list[Around]:
    return phase(number, flow_try)[1:]


@pytest.mark.parametrize("around", [_of_the_flow, phase], ids=["its own visits", "its tasks"])
def test_what_the_flow_s_own_code_leaves_out_of_a_retry_makes_it_uncertain(
    around: Callable[[int, int], list[Around]],
) -> None:
    """As a loop does that skips what has its file already."""
    visits = Visits()
    for number in range(3):
        visits.next(PARTS, around(number, 1))
    visits.start_over()
    visits.next(PARTS, around(2, 2))
    assert visits.uncertain() == [PARTS]

    visits.next(PARTS, around(3, 2))
    visits.next(PARTS, around(4, 2))
    assert visits.uncertain() == []  # by what is known here
    assert visits.of_retries() == {PARTS: 3}  # others came to five


def test_a_place_that_a_retry_leaves_out_wholly_is_certain() -> None:
    visits = Visits()
    visits.next("gather/first", _of_the_flow(0, 1))
    visits.next("gather/second", _of_the_flow(1, 1))
    visits.start_over()

    assert visits.next("gather/second", _of_the_flow(1, 2)) == 0
    assert visits.uncertain() == []


def test_in_a_retry_a_call_whose_result_has_a_place_that_nobody_knows_is_refused() -> None:
    around = [Around("task", 1, "phase", may_be_skipped=True), Around("main", 1)]
    visits = Visits()
    assert visits.next(PARTS, around) == 0

    with pytest.raises(ReplicaError, match=r"which call of phase this is.*result_storage_key"):
        visits.next(PARTS, [around[0]._replace(run_id="again"), Around("main", 2)])


def test_a_number_that_was_taken_back_is_the_next_one_s() -> None:
    visits = Visits()
    assert visits.next("a", phase(0, 1)) == 0
    assert visits.next("a", phase(1, 1)) == 1
    visits.take_back("a", phase(1, 1))

    assert visits.next("a", phase(1, 1)) == 1
    visits.take_back("a", phase(1, 1))
    assert visits.next("a", phase(2, 1)) == 1


def test_threads_get_different_numbers() -> None:
    visits = Visits()
    seen: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: seen.extend(visits.next("a", [Around("flow", 1)]) for _ in range(200))
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
    seen: list[list[Around]] = []

    @task(retries=1)
    def work() -> None:
        seen.append(runs_around())
        if seen[-1][0].try_number == 1:
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
    tries = [[run.try_number for run in around] for around in seen]

    assert tries[:3] == [[1, 1, 1], [2, 1, 1], [1, 1]]
    assert tries[3:6] == [[1, 2, 1], [2, 2, 1], [2, 1]]
    assert tries[6:] == [[1, 2, 1], [2, 2, 1], [1]]
    assert seen[0][1:] == seen[2]
    assert seen[5][0].run_id == seen[2][0].run_id
    assert len({around[-1] for around in seen}) == 1


def test_prefect_tells_them_in_async_flows_and_in_threads_too(prefect: Prefect) -> None:
    """A flow that a task calls is inside that task."""
    seen: list[list[Around]] = []

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
    tries = [[run.try_number for run in around] for around in seen]

    assert tries == [[1, 1], [1, 1, 1], [2, 1], [1, 2, 1]]


def _in_tasks(meet: Callable[[int], None]) -> Callable[[int], Any]:
    @task(persist_result=True)
    def kept(number: int) -> int:
        meet(number)
        return number

    return kept


def _in_subflows(meet: Callable[[int], None]) -> Callable[[int], Any]:
    @flow(persist_result=True)
    def kept(number: int) -> int:
        meet(number)
        return number

    return kept


@pytest.mark.parametrize("starts_over", [True, False], ids=["flow", "command"])
@pytest.mark.parametrize("made", [_in_tasks, _in_subflows])
def test_a_retried_flow_whose_first_phases_prefect_has_gets_the_number_of_the_third(
    made: Callable[[Callable[[int], None]], Callable[[int], Any]],
    starts_over: bool,  # noqa: FBT001 - pytest passes parameters by name
    prefect: Prefect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `replicas: command` nothing wraps the flow, and so nothing begins a try for all."""
    monkeypatch.setenv("PREFECT_LOCAL_STORAGE_PATH", str(tmp_path))
    visits = Visits()
    seen: list[tuple[int, int]] = []

    def meet(number: int) -> None:
        seen.append((number, visits.next(PARTS, runs_around())))
        if len(seen) == 3:
            raise RuntimeError("the third phase's first try")

    kept = made(meet)

    @flow(retries=1)
    def main() -> None:
        if starts_over:
            visits.start_over()
        for number in range(4):
            kept(number)

    main()

    assert seen == [(0, 0), (1, 1), (2, 2), (2, 2), (3, 3)]
    assert visits.uncertain() == []
