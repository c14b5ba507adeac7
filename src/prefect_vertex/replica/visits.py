"""Which visit of a meeting point a call is, also where a run within the flow is tried again.

Another replica need not try again what failed here only, and so comes once for both tries.  A try
may come to less than the one before: Prefect takes tasks and subflows from their results.  So a
number is remembered by where its call stands: in which of the calls of which task or subflow, and
as which of that run's own visits.  What stands nowhere that is known comes from one counter.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prefect_vertex.errors import ReplicaError


class Around(NamedTuple):
    """A run of a flow or task that a call is made in.

    Attributes:
        run_id: Its id, which a later try of the flow around it may replace.
        try_number: Which of the run's tries this is.
        kind: What it is a run of.
        call: Which call of that it is, the same in each try; empty: the calls are told apart by
            their order only.
        may_be_skipped: Whether Prefect may take its result from an earlier try.
    """

    run_id: str
    try_number: int
    kind: str = ""
    call: str = ""
    may_be_skipped: bool = False


class _Stand:
    """Where calls to one place stand: in one run, whichever try it is in."""

    def __init__(self, kind: str = "", *, may_be_skipped: bool = False) -> None:
        self.kind = kind
        self.may_be_skipped = may_be_skipped
        self.numbers: list[int] = []
        self.tries = 0
        self.current_try: tuple[str, int] | None = None
        self._used = 0
        self._inner: dict[tuple[str, str, int], _Stand] = {}
        self._entered: dict[str, _Stand] = {}
        self._calls: Counter[tuple[str, str]] = Counter()

    def begin(self, run_id: str, try_number: int) -> None:
        """Count this try's calls from 0, unless it has begun."""
        if self.current_try != (run_id, try_number):
            self.current_try = (run_id, try_number)
            self.tries += 1
            self._used = 0
            self._entered.clear()
            self._calls.clear()

    def inner(self, run: Around) -> _Stand:
        """The same for a run within this one."""
        found = self._entered.get(run.run_id)
        if found is None:
            if self.tries > 1 and run.may_be_skipped and not run.call:
                raise ReplicaError(
                    f"In a retry it cannot be told which call of {run.kind} this is.",
                    hint="Let its results not be persisted, or not by result_storage_key.",
                )
            call = run.kind, run.call
            new = _Stand(run.kind, may_be_skipped=run.may_be_skipped)
            found = self._inner.setdefault((*call, self._calls[call]), new)
            self._calls[call] += 1
            self._entered[run.run_id] = found
            # Whatever its own number of tries: the run around it is at another.
            found.current_try = None
        found.begin(run.run_id, run.try_number)
        return found

    def next(self, counter: Iterator[int]) -> int:
        """The number of the next visit in this try."""
        if self._used == len(self.numbers):
            self.numbers.append(next(counter))
        self._used += 1
        return self.numbers[self._used - 1]

    def take_back(self, numbers: _Numbers) -> None:
        """Count the last visit of this try as not made."""
        self._used -= 1
        is_last = self._used == len(self.numbers) - 1 and self.numbers[-1] == numbers.made - 1
        if is_last:
            self.numbers.pop()
            numbers.made -= 1

    def is_uncertain(self) -> bool:
        """Whether this try came to fewer visits than an earlier one, though Prefect left none out.

        Then nobody knows which of them the flow's own code left out.
        """
        if 0 < self._used < len(self.numbers):
            return True
        known = Counter(each.kind for each in self._inner.values() if not each.may_be_skipped)
        entered = list(self._entered.values())
        seen = Counter(each.kind for each in entered if not each.may_be_skipped)
        return any(seen[kind] < known[kind] for kind in seen) or any(
            each.is_uncertain() for each in entered
        )

    def was_tried_again(self) -> bool:
        """Whether this run, or one within it, had a second try."""
        return self.tries > 1 or any(each.was_tried_again() for each in self._inner.values())


class _Numbers:
    """What has been numbered at one place."""

    def __init__(self) -> None:
        self.made = 0
        self.process = _Stand()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.made += 1
        return self.made - 1


class Visits:
    """Numbers visits from 0, by place; a run that is tried again gets its numbers again.

    For any threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, _Numbers] = {}
        self._calls = 0

    def start_over(self) -> None:
        """Begin a try of all: what is known by then gets its numbers again."""
        with self._lock:
            self._calls += 1

    def next(self, place: str, around: Sequence[Around] = ()) -> int:
        """The number of this visit, made within these runs, the innermost first.

        Raises:
            ReplicaError: In a retry it cannot be told which visit this is.
        """
        with self._lock:
            numbers, stand = self._find(place, around)
            return stand.next(numbers)

    def take_back(self, place: str, around: Sequence[Around] = ()) -> None:
        """Count the visit that was numbered last within these runs as not made."""
        with self._lock:
            numbers, stand = self._find(place, around)
            stand.take_back(numbers)

    def _find(self, place: str, around: Sequence[Around]) -> tuple[_Numbers, _Stand]:
        numbers = self._places.setdefault(place, _Numbers())
        stand = numbers.process
        stand.begin("", self._calls)
        for run in reversed(around):
            stand = stand.inner(run)
        return numbers, stand

    def of_retries(self) -> dict[str, int]:
        """How many visits of a place were numbered, for places that saw a retry."""
        with self._lock:
            return {
                place: numbers.made
                for place, numbers in self._places.items()
                if self._calls > 1 or numbers.process.was_tried_again()
            }

    def uncertain(self) -> list[str]:
        """The places at which a retry may have got the numbers of other visits."""
        with self._lock:
            return [
                place
                for place, numbers in self._places.items()
                if numbers.process.current_try == ("", self._calls)
                and numbers.process.is_uncertain()
            ]
