"""The emulator of one trial, in a process of its own, with its control."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from prefect_vertex.cli.children import Child
from prefect_vertex.emulator.control_client import ControlClient
from prefect_vertex.emulator.faults import Stockout
from prefect_vertex.emulator.seeds import Seed

COMMAND: Final = [sys.executable, "-m", "prefect_vertex.emulator", "--control-port", "0"]
START_SECONDS: Final = 60.0
SUBMISSIONS: Final = ("CreateCustomJob", "DeleteCustomJob")
RATE_DENIED: Final = "RESOURCE_EXHAUSTED"
FOREVER: Final = 1e9
_ADDRESSES: Final = 2
_SEEDS_AT_ONCE: Final = 500

_LIVE: Final = frozenset(
    {
        "JOB_STATE_QUEUED",
        "JOB_STATE_PENDING",
        "JOB_STATE_RUNNING",
        "JOB_STATE_CANCELLING",
        "JOB_STATE_UPDATING",
    },
)


class Calls:
    """The calls to the JobService in some stretch of time."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._counts: Mapping[str, Mapping[str, int]] = answer["counts"]
        self._calls: Sequence[Mapping[str, Any]] = answer["calls"]

    @property
    def by_method(self) -> dict[str, int]:
        """How many of each method."""
        return {method: sum(outcomes.values()) for method, outcomes in self._counts.items()}

    @property
    def reads(self) -> int:
        """All but creates and deletes."""
        return sum(n for method, n in self.by_method.items() if method not in SUBMISSIONS)

    def denied(self, *, submissions: bool) -> int:
        """Calls that a rate or quota refused."""
        return sum(
            outcomes.get(RATE_DENIED, 0)
            for method, outcomes in self._counts.items()
            if (method in SUBMISSIONS) is submissions
        )

    def created_at(self) -> list[float]:
        """When jobs were created, seconds since 1970, the first first."""
        return sorted(
            call["at"]
            for call in self._calls
            if call["method"] == "CreateCustomJob" and call["outcome"] == "OK"
        )

    def reads_by_minute(self) -> list[int]:
        """Reads in each full minute since the first call."""
        if not self._calls:
            return []
        first = self._calls[0]["at"]
        minutes = Counter(
            int((call["at"] - first) // 60)
            for call in self._calls
            if call["method"] not in SUBMISSIONS
        )
        full = int((self._calls[-1]["at"] - first) // 60)
        return [minutes[minute] for minute in range(full)]


class Cloud:
    """A started emulator.

    Args:
        child: Its process, started with `COMMAND`.
    """

    def __init__(self, child: Child) -> None:
        child.wait_until(
            lambda: child.output().count("\n") >= _ADDRESSES,
            seconds=START_SECONDS,
            what="it printed its addresses",
        )
        self.address, control = child.output().split()[:_ADDRESSES]
        self._control = ControlClient(control)

    def limit(self, submissions_per_minute: int, calls_per_minute: int) -> None:
        """Enforce quotas from now on."""
        self._control.call(
            "set_rates",
            submissions_per_minute=submissions_per_minute,
            calls_per_minute=calls_per_minute,
        )

    def keep_pending(self) -> None:
        """Let every job wait for machines for ever, so that none of them costs a process."""
        self._control.add_faults(Stockout(after_seconds=FOREVER, times=0))

    def seed(self, seeds: Sequence[Seed]) -> list[str]:
        """Put jobs there that run nothing; their names."""
        names: list[str] = []
        for start in range(0, len(seeds), _SEEDS_AT_ONCE):
            names += self._control.seed_jobs(*seeds[start : start + _SEEDS_AT_ONCE])
        return names

    def reset(self) -> None:
        """Count calls from zero."""
        self._control.call("reset_calls")

    def calls(self) -> Calls:
        """The calls since the last reset."""
        return Calls(self._control.call("calls"))

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """Every job."""
        found: Sequence[Mapping[str, Any]] = self._control.call("jobs")
        return found

    def live(self) -> int:
        """How many jobs have not ended."""
        return sum(job["state"] in _LIVE for job in self.jobs())
