"""Which visit of a meeting point a call is, also where a run within the flow is tried again."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

Try = tuple[str, int]
"""A flow or task run's id, and which of its tries this is."""


@dataclass
class _Run:
    """The visits of one run of a flow or task: of all its tries, and how far this try is."""

    try_number: int
    made: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    used: Counter[str] = field(default_factory=Counter)


class Visits:
    """Numbers visits from 0, by place; a run that is tried again gets its numbers again.

    Another replica need not try again what failed here only, and so comes once for both tries.
    Every run keeps the numbers that it has got; what lies beyond them comes from the run around it,
    which may itself be at a later try, and in the end from one counter. For any threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counter: Counter[str] = Counter()
        self._runs: dict[str, _Run] = {}

    def start_over(self) -> None:
        """Begin at 0 again: the whole flow is tried again."""
        with self._lock:
            self._counter.clear()
            self._runs.clear()

    def next(self, place: str, tries: Sequence[Try] = ()) -> int:
        """The number of this visit, made within these runs, the innermost first."""
        with self._lock:
            return self._next(place, tries)

    def _next(self, place: str, tries: Sequence[Try]) -> int:
        if not tries:
            self._counter[place] += 1
            return self._counter[place] - 1
        (run_id, try_number), *around = tries
        run = self._runs.setdefault(run_id, _Run(try_number))
        if run.try_number != try_number:
            run.try_number = try_number
            run.used.clear()
        if run.used[place] == len(run.made[place]):
            run.made[place].append(self._next(place, around))
        run.used[place] += 1
        return run.made[place][run.used[place] - 1]
