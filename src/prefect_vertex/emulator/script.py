"""The script: what is to go wrong, in order, each as often as it says and no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from prefect_vertex.emulator.faults import CallFault, Fault, JobFault, Preemption

_JobFaultT = TypeVar("_JobFaultT", bound=JobFault)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the conditions of a `JobFault` are compared with."""

    name: str
    location: str
    machine_types: frozenset[str]
    strategy: str
    labels: Mapping[str, str]

    def fit(self, fault: JobFault) -> bool:
        """Whether the fault may happen to this job."""
        return (
            fault.job in {"", self.name, self.name.rpartition("/")[2]}
            and fault.location in {"", self.location}
            and (not fault.machine_type or fault.machine_type in self.machine_types)
            and fault.strategy in {"", self.strategy}
            and (not isinstance(fault, Preemption) or self.strategy == "SPOT")
            and fault.labels.items() <= self.labels.items()
        )


class Faults:
    """The script: faults in the order in which they were added, each used `times` times.

    Args:
        on_change: Called when a fault was added.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._left: list[tuple[Fault, int]] = []
        self._on_change = on_change

    def add(self, *faults: Fault) -> None:
        """Append to the script; running jobs are looked at too."""
        self._left.extend((fault, fault.times) for fault in faults)
        self._on_change()

    def clear(self) -> None:
        """Forget what has not happened yet."""
        self._left.clear()

    def remaining(self) -> list[Fault]:
        """What has not happened yet, with `times` as many as are left."""
        return [dataclasses.replace(fault, times=left) for fault, left in self._left]

    def assert_all_used(self) -> None:
        """Fail if something never happened: the test did not test what it says.

        Faults for every time (`times=0`) do not count.

        Raises:
            AssertionError: Naming them.
        """
        unused = [fault for fault in self.remaining() if fault.times]
        if unused:
            raise AssertionError(f"Scripted faults that never happened: {unused}")

    def take_call(self, method: str, location: str) -> CallFault | None:
        """Use the first fault for this call."""
        for fault, _ in self._left:
            if (
                isinstance(fault, CallFault)
                and fault.method in {"", method}
                and fault.location in {"", location}
            ):
                self.use(fault)
                return fault
        return None

    def of_job(self, facts: JobFacts) -> Iterator[JobFault]:
        """What may happen to this job."""
        return (
            fault for fault, _ in self._left if isinstance(fault, JobFault) and facts.fit(fault)
        )

    def take(self, kind: type[_JobFaultT], facts: JobFacts) -> _JobFaultT | None:
        """Use the first fault of that kind for this job."""
        for fault in self.of_job(facts):
            if isinstance(fault, kind):
                self.use(fault)
                return fault
        return None

    def use(self, fault: Fault | JobFault) -> None:
        """It happens now, once."""
        for position, (candidate, left) in enumerate(self._left):
            if candidate is fault:
                if left == 1:
                    del self._left[position]
                elif left:
                    self._left[position] = (candidate, left - 1)
                return
