"""How much of what may be held at once: CPUs and accelerators, by location.

Two behaviours are on record: the documentation lets a job wait in QUEUED, and users see the create
refused.  Metrics are named as in the error texts, without the service, such as
`custom_model_training_nvidia_l4_gpus`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from google.cloud.aiplatform_v1.types import AcceleratorType

from prefect_vertex.emulator.names import JobName, Place

_CPUS: Final = re.compile(r"([a-z0-9]+)-(?:standard|highmem|highcpu|ultramem|megamem)-([0-9]+)")
# These two families share one metric.
_SHARED_FAMILIES: Final = ("n1", "e2")
# Part of an accelerator's name, but not of its metric's.
_UNNAMED: Final = ("_TESLA", "_141GB")

QuotaMode = Literal["reject", "queue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimit:
    """The most that may be held of one metric; in each location, where none is named."""

    metric: str
    limit: int
    location: str = ""


class Quotas:
    """What is held by which job; metrics without a limit are not counted against anybody.

    Args:
        on_change: Called when something may be free that was not.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.mode: QuotaMode = "queue"
        self._limits: dict[tuple[str, str], int] = {}
        self._held: dict[JobName, Mapping[str, int]] = {}
        self._used: Counter[tuple[Place, str]] = Counter()
        self._waiting: dict[JobName, Mapping[str, int]] = {}
        self._on_change = on_change

    def set(self, limits: Iterable[QuotaLimit], mode: QuotaMode | None = None) -> None:
        """Replace all limits; those who hold more than that keep it."""
        self._limits = {(limit.location, limit.metric): limit.limit for limit in limits}
        self.mode = mode or self.mode
        self._on_change()

    @property
    def limits(self) -> list[QuotaLimit]:
        """The limits in effect, as the Cloud Quotas API tells them."""
        return [
            QuotaLimit(metric=metric, limit=limit, location=location)
            for (location, metric), limit in self._limits.items()
        ]

    def hold(self, name: JobName, demand: Mapping[str, int]) -> bool:
        """Take all of it or nothing; first come, first served. Held already: True.

        A job that gets nothing is remembered as waiting, until it gets it or releases.
        """
        if name in self._held:
            return True
        if self.exceeded(name, demand) or self._has_others_before(name, demand):
            self._waiting[name] = demand
            return False
        self._waiting.pop(name, None)
        self._held[name] = demand
        for metric, count in demand.items():
            self._used[name.place, metric] += count
        return True

    def release(self, name: JobName) -> None:
        """Give back what a job holds, or its place in the queue."""
        held = self._held.pop(name, None)
        for metric, count in (held or {}).items():
            self._used[name.place, metric] -= count
        if held or self._waiting.pop(name, None):
            self._on_change()

    def exceeded(self, name: JobName, demand: Mapping[str, int]) -> list[str]:
        """The metrics of which there is not enough left."""
        return [
            metric
            for metric, count in demand.items()
            if (limit := self._limit(metric, name.place.location)) is not None
            and self._used[name.place, metric] + count > limit
        ]

    def _has_others_before(self, name: JobName, demand: Mapping[str, int]) -> bool:
        for waiting, wanted in self._waiting.items():
            if waiting == name:
                return False
            limited = {m for m in wanted if self._limit(m, waiting.place.location) is not None}
            if waiting.place == name.place and limited & demand.keys():
                return True
        return False

    def _limit(self, metric: str, location: str) -> int | None:
        return self._limits.get((location, metric), self._limits.get(("", metric)))


def demand_of(spec: Any) -> dict[str, int]:
    """What a CustomJobSpec (protobuf's own message) holds while it lives, by metric."""
    prefix = "custom_model_training_"
    is_preemptible = strategy_of(spec) in {"SPOT", "FLEX_START"}
    if is_preemptible:
        prefix += "preemptible_"
    demand: Counter[str] = Counter()
    for pool in spec.worker_pool_specs:
        machine = pool.machine_spec
        cpus = _CPUS.fullmatch(machine.machine_type)
        if cpus:
            # One metric for all preemptible machines (observed: it refused N1 and A2 alike).
            is_shared = is_preemptible or cpus[1] in _SHARED_FAMILIES
            family = "" if is_shared else f"{cpus[1]}_"
            demand[f"{prefix}{family}cpus"] += int(cpus[2]) * pool.replica_count
        if machine.accelerator_count:
            metric = f"{prefix}{_accelerator_metric(machine.accelerator_type)}"
            demand[metric] += machine.accelerator_count * pool.replica_count
    return dict(demand)


def strategy_of(spec: Any) -> str:
    """STANDARD, SPOT or FLEX_START, older names translated."""
    descriptor = spec.scheduling.DESCRIPTOR.fields_by_name["strategy"].enum_type
    value = descriptor.values_by_number.get(spec.scheduling.strategy)
    name = value.name if value else "STANDARD"
    older = {"STRATEGY_UNSPECIFIED": "STANDARD", "ON_DEMAND": "STANDARD", "LOW_COST": "SPOT"}
    return older.get(name, name)


def _accelerator_metric(accelerator: int) -> str:
    name = AcceleratorType(accelerator).name
    for part in _UNNAMED:
        name = name.replace(part, "")
    if "H100" in name:
        name = name.replace("_80GB", "")
    return name.lower() if name.startswith("TPU") else f"{name.lower()}_gpus"
