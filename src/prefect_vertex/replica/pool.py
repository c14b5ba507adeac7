"""The local pool: units of work in as many processes as this replica has slots.

Each process is a fresh interpreter, so that libraries read their thread settings as they are
imported, and a unit that takes its process down, the kernel's out-of-memory killer included, takes
nothing else with it. `concurrent.futures` gives up all of its work when one process dies.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from prefect_vertex.planning.sizing import THREAD_VARIABLES, WorkProfile
from prefect_vertex.replica.pickling import dumps_for
from prefect_vertex.replica.slots import (
    DEVICES,
    SLOT_CORES,
    LocalSlots,
    local_slots,
    visible_devices,
)
from prefect_vertex.replica.unit import UnitProcess, UnitResult

__all__ = ["UnitResult", "child_environments", "map_slots", "measured_profile"]

T = TypeVar("T")
R = TypeVar("R")

_END_SECONDS = 10
# A dead process closes its connection, unless something that it started holds it open.
_LOOK_SECONDS = 0.5


def map_slots(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    weight: Callable[[T], float] | None = None,
    slots: int | None = None,
    profile: WorkProfile | None = None,
    on_result: Callable[[UnitResult[R]], object] | None = None,
) -> list[UnitResult[R]]:
    """Run a function over items, one unit each, in processes of their own; wait for all.

    A unit that raises, or whose process dies, is recorded as failed, is not tried again, and the
    others go on. Whatever ends the call itself, such as Ctrl-C or the SIGTERM that Prefect turns
    into an exception, ends the processes too; so does the end of this process, however it comes.

    Function, items and values travel as cloudpickles: closures and functions of a flow's own script
    will do. Nothing of Prefect's run context goes along: units are no tasks, and what they print
    goes to the container's log.

    Args:
        function: What to do with one item.
        items: All units of work.
        weight: How heavy an item is, in any unit: the heaviest begin first, so that none of them
            is left for the end. None: in the order given.
        slots: Processes at once; None: as many as `current().slots`.
        profile: What a unit was measured to need, from `measured_profile`: slots and their threads
            are then planned by it, as `current().slots_for` does.
        on_result: Called here with each result as it comes, for progress and for saving it.

    Returns:
        One result for each item, in the items' order.

    Raises:
        ValueError: `slots` is below 1.
        Exception: What `on_result` or `weight` raises, or the pickling of `function`.
    """
    units = list(items)
    if slots is not None and slots < 1:
        raise ValueError(f"slots is {slots}, expected 1 or more")
    order = list(range(len(units)))
    if weight is not None:
        order.sort(key=lambda index: -weight(units[index]))
    work = _Work(function, units, order, dumps_for(function), on_result)
    environments = child_environments(os.environ, local_slots(profile=profile), slots)
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(UnitProcess(environment, work.function))
            for environment in environments[: len(units)]
        ]
        work.run(processes)
        for process in processes:
            process.say_end()
        deadline = time.monotonic() + _END_SECONDS
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))
    return [work.results[index] for index in range(len(units))]


def child_environments(
    environment: Mapping[str, str],
    here: LocalSlots,
    slots: int | None = None,
    *,
    root: Path = Path("/"),
) -> list[dict[str, str]]:
    """The environments of the pool's processes, one for each slot.

    Libraries are held to the threads of a slot, unless the user says already to how many; the
    GPUs that are here are dealt out, and shared only where there are fewer than slots.

    Args:
        environment: This process's.
        here: The slots that there are.
        slots: How many to share their cores among instead.
        root: Where `/dev` is looked for.
    """
    count = here.count if slots is None else slots
    threads = str(max(1, here.count * here.cores // count))
    # As many as the plan's slot has cores are the plan's own words, for slots as it had them.
    planned = environment.get(SLOT_CORES)
    pins = {
        name: threads
        for name in THREAD_VARIABLES
        if environment.get(name) is None or environment[name] == planned
    }
    pinned = {**environment, **pins}
    devices = visible_devices(environment, root)
    if not devices:
        return [dict(pinned) for _ in range(count)]
    dealt = [devices[place::count] or (devices[place % len(devices)],) for place in range(count)]
    return [{**pinned, DEVICES: ",".join(own)} for own in dealt]


def measured_profile(results: Iterable[UnitResult[Any]]) -> WorkProfile | None:
    """What the units that came through needed; None if there is none.

    Cores and memory are the most of any unit, the time is the median.
    """
    done = [each for each in results if each.ok and each.seconds > 0]
    if not done:
        return None
    cores = max(each.cpu_seconds / each.seconds for each in done)
    return WorkProfile(
        cores=cores or None,
        peak_memory_bytes=max(each.peak_memory_bytes for each in done) or None,
        seconds_per_unit=sorted(each.seconds for each in done)[len(done) // 2],
    )


class _Work(Generic[T, R]):
    """The units that are still to do, in order, and the results of the others."""

    def __init__(
        self,
        function: Callable[[T], R],
        units: list[T],
        order: list[int],
        dumps: Callable[[Any], bytes],
        on_result: Callable[[UnitResult[R]], object] | None,
    ) -> None:
        self.function = dumps(function)
        self.results: dict[int, UnitResult[R]] = {}
        self._units = units
        self._waiting = deque(order)
        self._dumps = dumps
        self._on_result = on_result

    def run(self, processes: list[UnitProcess]) -> None:
        """Give out the units until each has its result."""
        busy: dict[Any, tuple[UnitProcess, int]] = {}
        idle = list(processes)
        while True:
            while idle and self._waiting:
                index = self._waiting.popleft()
                if (message := self._message(index)) is not None:
                    process = idle.pop()
                    busy[process.send(message)] = process, index
            if not busy:
                return
            ready = wait(list(busy), _LOOK_SECONDS) or [
                connection for connection, (process, _) in busy.items() if process.is_dead
            ]
            for connection in ready:
                process, index = busy.pop(connection)
                self._record(process.result(index))
                idle.append(process)

    def _message(self, index: int) -> bytes | None:
        """A unit, ready to be sent; None if it cannot be, which is then its result."""
        try:
            return self._dumps(self._units[index])
        except Exception as error:  # noqa: BLE001 - a pickler may raise anything
            told = f"{type(error).__name__}: {error}"
            self._record(UnitResult(index=index, error=f"its item cannot be pickled: {told}"))
            return None

    def _record(self, result: UnitResult[R]) -> None:
        self.results[result.index] = result
        if self._on_result is not None:
            self._on_result(result)
