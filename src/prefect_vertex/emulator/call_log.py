"""Which calls came, when, and how they were answered: what a benchmark counts."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

# Far more than any test makes; a server that stands for days does not grow for ever.
_MAX_CALLS: Final = 1_000_000
_MINUTE: Final = 60.0


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        at: When it came, in seconds since 1970.
        method: Such as `ListCustomJobs`.
        location: Empty where the request names none.
        outcome: The name of the gRPC status that was sent, DROPPED where the connection was cut,
            ABANDONED where the client had gone; empty while there is none.
    """

    at: float
    method: str
    location: str
    outcome: str = ""


class CallLog:
    """The calls since the start or the last `clear`, oldest first."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=_MAX_CALLS)

    def begin(self, method: str, location: str) -> Call:
        """Note a call that has just come."""
        call = Call(time.time(), method, location)
        self._calls.append(call)
        return call

    def all(self) -> list[Call]:
        """Every call."""
        return list(self._calls)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many of each method had which outcome."""
        counted: dict[str, Counter[str]] = {}
        for call in self._calls:
            counted.setdefault(call.method, Counter())[call.outcome] += 1
        return {method: dict(outcomes) for method, outcomes in counted.items()}

    def per_minute(self) -> dict[str, list[int]]:
        """How many of each method came in each minute since the first call."""
        if not self._calls:
            return {}
        first, last = self._calls[0].at, self._calls[-1].at
        minutes = int((last - first) // _MINUTE) + 1
        rows: dict[str, list[int]] = {}
        for call in self._calls:
            row = rows.setdefault(call.method, [0] * minutes)
            # The wall clock may have been set back meanwhile.
            row[min(max(int((call.at - first) // _MINUTE), 0), minutes - 1)] += 1
        return rows

    def clear(self) -> None:
        """Forget all."""
        self._calls.clear()
