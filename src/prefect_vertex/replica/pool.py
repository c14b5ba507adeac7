"""The local pool: units of work in as many processes as this replica has slots.

Each process is a fresh interpreter, so that libraries read their thread settings as they are
imported, and a unit that takes its process down, the kernel's out-of-memory killer included, takes
nothing else with it. `concurrent.futures` gives up all of its work when one process dies.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from prefect_vertex.planning.sizing import THREAD_VARIABLES, WorkProfile
from prefect_vertex.replica import pool_process
from prefect_vertex.replica.pickling import dumps_for
from prefect_vertex.replica.slots import DEVICES, LocalSlots, local_slots, visible_devices

T = TypeVar("T")
R = TypeVar("R")

_END_SECONDS = 10
_OUT_OF_MEMORY = " (if nobody did that, it was out of memory)"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult(Generic[R]):
    """What became of one unit of work.

    Attributes:
        index: Its place among the items, from 0.
        value: What the function returned; None if it failed.
        error: Why it failed, in one line; empty if it did not.
        traceback: Where, if the function raised.
        seconds: How long it took; 0 for one whose process ended.
        cpu_seconds: What of that its process computed, over all cores.
        peak_memory_bytes: The most memory that its process had held by then.
    """

    index: int
    value: R | None = None
    error: str = ""
    traceback: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether it has a value."""
        return not self.error


def map_slots(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    weight: Callable[[T], float] | None = None,
    slots: int | None = None,
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
    environments = child_environments(os.environ, local_slots(), slots)
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(_Process(environment, work.function))
            for environment in environments[: len(units)]
        ]
        work.run(processes)
        for process in processes:
            process.say_end()
        for process in processes:
            process.wait(_END_SECONDS)
    return [work.results[index] for index in range(len(units))]


def child_environments(
    environment: Mapping[str, str],
    here: LocalSlots,
    slots: int | None = None,
    *,
    root: Path = Path("/"),
) -> list[dict[str, str]]:
    """The environments of the pool's processes, one for each slot.

    Libraries are held to the threads of a slot, unless the environment says already to how many;
    the GPUs that are here are dealt out, and shared only where there are fewer than slots.

    Args:
        environment: This process's.
        here: The slots that there are.
        slots: How many to share their cores among instead.
        root: Where `/dev` is looked for.
    """
    count = here.count if slots is None else slots
    threads = str(max(1, here.count * here.cores // count))
    pinned = {**dict.fromkeys(THREAD_VARIABLES, threads), **environment}
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

    def run(self, processes: list[_Process]) -> None:
        """Give out the units until each has its result."""
        busy: dict[Any, tuple[_Process, int]] = {}
        idle = list(processes)
        while True:
            while idle and self._waiting:
                index = self._waiting.popleft()
                if (message := self._message(index)) is not None:
                    process = idle.pop()
                    busy[process.send(message)] = process, index
            if not busy:
                return
            for ready in wait(list(busy)):
                process, index = busy.pop(ready)
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


class _Process:
    """One slot: a process, and the next one if it dies."""

    def __init__(self, environment: Mapping[str, str], function: bytes) -> None:
        self._environment = environment
        self._function = function
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None

    def __enter__(self) -> Self:
        """It is started with its first unit."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it at once, with all that it has started."""
        if self._running is None:
            return
        child, connection = self._running
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        connection.close()
        self._running = None

    def send(self, message: bytes) -> Connection:
        """Hand over a unit; what comes of it is announced on the connection."""
        connection = self._running[1] if self._running else self._start()
        with contextlib.suppress(OSError):  # it is dead, as `result` will find
            connection.send_bytes(message)
        return connection

    def result(self, index: int) -> UnitResult[Any]:
        """What became of the unit that was handed over."""
        if self._running is None:
            raise RuntimeError("no unit was handed over")
        try:
            answer = self._running[1].recv_bytes()
        except (EOFError, OSError):
            return UnitResult(index=index, error=self._death())
        try:
            value, error, trace, seconds, cpu_seconds, peak = pickle.loads(answer)  # noqa: S301 - our own process's words
        except Exception as failure:  # noqa: BLE001 - unpickling runs the value's own code
            told = f"{type(failure).__name__}: {failure}"
            return UnitResult(index=index, error=f"its result cannot be unpickled: {told}")
        return UnitResult(
            index=index,
            value=value,
            error=error,
            traceback=trace,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            peak_memory_bytes=peak,
        )

    def say_end(self) -> None:
        """Tell it that there is no more to do."""
        if self._running is not None:
            with contextlib.suppress(OSError):
                self._running[1].send_bytes(b"")

    def wait(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None if it does not end in that time."""
        if self._running is None:
            return None
        try:
            return self._running[0].wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _start(self) -> Connection:
        connection, theirs = Pipe()
        with theirs:
            # A session of its own: signals to this process's group are this process's to answer.
            child = subprocess.Popen(
                [sys.executable, "-P", pool_process.__file__, str(theirs.fileno())],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._running = child, connection
        with contextlib.suppress(OSError):
            connection.send_bytes(pickle.dumps((sys.path, sys.argv)))
            connection.send_bytes(self._function)
        return connection

    def _death(self) -> str:
        """How the process ended, which the next unit will replace."""
        code = self.wait(_END_SECONDS)
        self.__exit__()
        if code is None:
            return "its process closed its connection"
        if code >= 0:
            return f"its process ended with exit code {code}"
        reason = _OUT_OF_MEMORY if code == -signal.SIGKILL else ""
        return f"its process was ended by {signal.Signals(-code).name}{reason}"
