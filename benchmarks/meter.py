"""What a worker process costs, and plain statistics."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Final

import psutil

_PERIOD_SECONDS: Final = 0.5
_MEGABYTE: Final = 1e6


class Meter:
    """Looks at one process until it is stopped; the process may have ended by then.

    Args:
        pid: Whose.
    """

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._peak = 0
        self._cpu_seconds = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def cpu_seconds(self) -> float:
        """User and system time since the process began."""
        self._look()
        return self._cpu_seconds

    @property
    def peak_megabytes(self) -> float:
        """Most resident memory seen so far."""
        self._look()
        return self._peak / _MEGABYTE

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_PERIOD_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            times = self._process.cpu_times()
            self._peak = max(self._peak, self._process.memory_info().rss)
        except psutil.Error:
            return  # it has ended; the last look stands
        self._cpu_seconds = times.user + times.system


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of all does not exceed; NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
