"""One process of the local pool: it runs units of work, one after the other, as its parent says.

Started by its path, with the standard library only, so that nothing is imported before the parent's
environment and module search path hold. A message is a pickle, and an empty one says to end.
"""

from __future__ import annotations

import functools
import os
import pickle
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Linux counts in KiB, macOS in bytes.
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


def main(descriptor: int) -> None:
    """Serve the parent at the other end of a connection until it says to end, or is gone."""
    connection = Connection(descriptor)
    # Whatever a unit starts must not hold the connection open once this process is dead, and a
    # child that leaves the unit by its return must not answer for it.
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the only way to say it
    os.register_at_fork(after_in_child=connection.close)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    sys.path[:], sys.argv[:] = pickle.loads(messages.get())  # noqa: S301 - the parent's own words
    function = messages.get()
    while item := messages.get():
        connection.send_bytes(_answer(function, item))


def _listen(connection: Connection, messages: queue.SimpleQueue[bytes]) -> None:
    """Pass messages on; a parent that is gone ends this process and all that it started."""
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os.killpg(0, signal.SIGKILL)


def _answer(function: bytes, item: bytes) -> bytes:
    """What became of one unit, as a pickle of value, error, traceback and what it took."""
    value: Any = None
    error = trace = ""
    begun, busy = time.monotonic(), _cpu_seconds()
    try:
        unit = pickle.loads(item)  # noqa: S301 - the parent's own words
        call = _loaded(function)
        # What loading imported is not the unit's own work.
        begun, busy = time.monotonic(), _cpu_seconds()
        value = call(unit)
    except BaseException as failure:  # noqa: BLE001 - SystemExit too is the unit's failure only
        error, trace = _told(failure), traceback.format_exc()
    figures = time.monotonic() - begun, _cpu_seconds() - busy, _peak_bytes()
    try:
        return _pickled((value, error, trace, *figures))
    except Exception as failure:  # noqa: BLE001 - a pickler may raise anything
        error = f"its result cannot be pickled: {_told(failure)}"
        return pickle.dumps((None, error, traceback.format_exc(), *figures))


@functools.cache
def _loaded(function: bytes) -> Callable[[Any], Any]:
    """The function, loaded once: it may carry much."""
    loaded: Callable[[Any], Any] = pickle.loads(function)  # noqa: S301 - the parent's own words
    return loaded


def _pickled(answer: tuple[Any, ...]) -> bytes:
    """Cloudpickle's, where the parent's message has brought it: results may be the script's own."""
    dumps: Any = getattr(sys.modules.get("cloudpickle"), "dumps", pickle.dumps)
    result: bytes = dumps(answer)
    return result


def _told(error: BaseException) -> str:
    lines = traceback.format_exception_only(error)
    return " ".join(" ".join(lines).split())


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_bytes() -> int:
    # In Linux ru_maxrss begins with what the parent had, whose memory this process began in.
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, LookupError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT


if __name__ == "__main__":
    main(int(sys.argv[1]))
