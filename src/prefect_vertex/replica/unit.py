"""One unit of work in a process of its own: what is handed over, and what became of it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, Self, TypeVar

from prefect_vertex.replica import pool_process

R = TypeVar("R")

_DEATH_SECONDS = 10
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


class UnitProcess:
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

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended, whatever became of its connection."""
        return self._running is not None and self._running[0].poll() is not None

    def result(self, index: int) -> UnitResult[Any]:
        """What became of the unit that was handed over."""
        if self._running is None:
            raise RuntimeError("no unit was handed over")
        connection = self._running[1]
        # In this order: what it said before it died is still to be read.
        if self.is_dead and not connection.poll():
            return UnitResult(index=index, error=self._death())
        try:
            answer = connection.recv_bytes()
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
        code = self.wait(_DEATH_SECONDS)
        self.__exit__()
        if code is None:
            return "its process closed its connection"
        if code >= 0:
            return f"its process ended with exit code {code}"
        reason = _OUT_OF_MEMORY if code == -signal.SIGKILL else ""
        return f"its process was ended by {_signal_name(-code)}{reason}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name of their own
        return f"signal {number}"
