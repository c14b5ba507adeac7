"""Meters: which of a project's quotas a candidate's job counts in, and for how much.

Names of metrics: documented for the accelerators and for N1 and E2
(https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/quotas); the other
families follow the pattern.  Spot and Flex Start count in the preemptible quotas
(https://cloud.google.com/vertex-ai/docs/training/schedule-jobs-dws).  For preemptible vCPUs there
is one metric, whatever the family: it was seen to refuse N1 and A2 alike (public report, 2026).
They are Vertex AI's own, apart from those of Compute Engine.

vCPUs by shape: https://cloud.google.com/compute/docs/accelerator-optimized-machines, read 2026-11.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from prefect_vertex.planning.scheduling import SPOT_STRATEGIES
from prefect_vertex.planning.shapes import shape_of

if TYPE_CHECKING:
    from prefect_vertex.planning.plan import JobPlan

SERVICE: Final = "aiplatform.googleapis.com"
PREFIX: Final = f"{SERVICE}/custom_model_training_"

_PREEMPTIBLE: Final = SPOT_STRATEGIES | {"FLEX_START"}
_ONE_CPU_METRIC: Final = frozenset({"n1", "e2"})
_CORES_IN_NAME: Final = re.compile(r"[a-z0-9]+-[a-z]+-(?P<cores>[0-9]+)")
_GPUS_IN_NAME: Final = re.compile(r"[a-z0-9]+-[a-z]+-[0-9]+g")
_NAME_OF_METRIC: Final = {
    "NVIDIA_H100_80GB": "nvidia_h100_gpus",
    "NVIDIA_H100_MEGA_80GB": "nvidia_h100_mega_gpus",
    "NVIDIA_H200_141GB": "nvidia_h200_gpus",
}


class Kind(Enum):
    """What a meter counts, in a user's words."""

    DEVICE = "accelerators"
    """One job's alone: fewer replicas fit into less."""
    CPU = "vCPUs"
    """Everybody's in the project: only advised about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDemand:
    """One worker pool, as far as quotas go."""

    machine_type: str
    replicas: int
    accelerator_type: str = ""
    accelerator_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one candidate's job would hold.

    Attributes:
        index: The candidate's place in the walk.
        strategy: Of its scheduling.
        pools: In Vertex AI's order; an unused pool has no replicas.
        worker_count: The candidate's.
        exempt: Why its job is not judged by quotas; empty if it is.
    """

    index: int
    project: str
    location: str
    strategy: str = "STANDARD"
    pools: tuple[PoolDemand, ...] = ()
    worker_count: int = 1
    exempt: str = ""

    @property
    def place(self) -> str:
        """How messages name it."""
        return ", ".join(part for part in (self.location, self.strategy) if part)

    @property
    def can_shrink(self) -> bool:
        """Whether fewer replicas are a smaller `worker_count`: else pools say their own numbers."""
        return len(self.pools) > 1 and self.worker_count == 1 + self.pools[1].replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One metric, and what a job counts in it.

    Attributes:
        metric: Full name, `aiplatform.googleapis.com/custom_model_training_…`.
        fixed: What the job holds with a `worker_count` of 1.
        per_worker: What each replica more holds; 0 where the number of replicas is not ours.
        workers: Replicas more than one.
    """

    metric: str
    kind: Kind
    fixed: int
    per_worker: int = 0
    workers: int = 0

    @property
    def asked(self) -> int:
        """What the whole job holds."""
        return self.fixed + self.per_worker * self.workers


def demand_of(plan: JobPlan) -> Demand:
    """What a candidate's job would hold, read off the request itself."""
    spec = plan.request.custom_job.job_spec
    exempt = ""
    if spec.persistent_resource_id:
        exempt = f"it runs on persistent resource {spec.persistent_resource_id}"
    return Demand(
        index=plan.candidate.index,
        project=plan.candidate.project,
        location=plan.candidate.location,
        strategy=_strategy(spec.scheduling.strategy),
        pools=tuple(
            PoolDemand(
                machine_type=pool.machine_spec.machine_type,
                replicas=pool.replica_count,
                accelerator_type=_name(pool.machine_spec.accelerator_type),
                accelerator_count=pool.machine_spec.accelerator_count,
            )
            for pool in spec.worker_pool_specs
        ),
        worker_count=plan.candidate.worker_count,
        exempt=exempt,
    )


def meters_of(demand: Demand) -> tuple[Meter, ...]:
    """The meters of a job, those of its accelerators first."""
    fixed: dict[tuple[str, Kind], int] = defaultdict(int)
    per_worker: dict[tuple[str, Kind], int] = defaultdict(int)
    for index, pool in enumerate(demand.pools):
        varies = index == 1 and demand.can_shrink
        for key, amount in _of_one_replica(pool, demand.strategy):
            if pool.replicas and varies:
                per_worker[key] += amount
            elif pool.replicas:
                fixed[key] += amount * pool.replicas
    workers = demand.pools[1].replicas if demand.can_shrink else 0
    found = (
        Meter(
            metric=metric,
            kind=kind,
            fixed=fixed[metric, kind],
            per_worker=per_worker[metric, kind],
            workers=workers if per_worker[metric, kind] else 0,
        )
        for metric, kind in {**fixed, **per_worker}
    )
    return tuple(sorted(found, key=lambda meter: (meter.kind is Kind.CPU, meter.metric)))


def cores_of(machine_type: str) -> int:
    """A machine's vCPUs; 0 where its name does not tell."""
    if match := _CORES_IN_NAME.fullmatch(machine_type):
        return int(match["cores"])
    # A TPU host's vCPUs count in no CPU metric.
    return (shape_of(machine_type).cores or 0) if _GPUS_IN_NAME.fullmatch(machine_type) else 0


def accelerator_metric(accelerator_type: str, strategy: str) -> str:
    """The metric that counts such accelerators."""
    usual = accelerator_type.replace("_TESLA", "").lower()
    if not accelerator_type.startswith("TPU_"):
        usual += "_gpus"
    name = _NAME_OF_METRIC.get(accelerator_type, usual)
    return f"{PREFIX}{'preemptible_' if strategy in _PREEMPTIBLE else ''}{name}"


def cpu_metric(machine_type: str, strategy: str) -> str:
    """The metric that counts such a machine's vCPUs."""
    if strategy in _PREEMPTIBLE:
        return f"{PREFIX}preemptible_cpus"
    family = machine_type.partition("-")[0]
    return f"{PREFIX}{'' if family in _ONE_CPU_METRIC else f'{family}_'}cpus"


def _of_one_replica(pool: PoolDemand, strategy: str) -> Iterable[tuple[tuple[str, Kind], int]]:
    if pool.accelerator_type and pool.accelerator_count:
        metric = accelerator_metric(pool.accelerator_type, strategy)
        yield (metric, Kind.DEVICE), pool.accelerator_count
    if cores := cores_of(pool.machine_type):
        yield (cpu_metric(pool.machine_type, strategy), Kind.CPU), cores


def _strategy(value: object) -> str:
    name = _name(value)
    return "STANDARD" if name in {"", "STRATEGY_UNSPECIFIED", "ON_DEMAND"} else name


def _name(value: object) -> str:
    """An enum's word; empty for what is unset, and for a number newer than the client."""
    name = str(getattr(value, "name", ""))
    return "" if name.endswith("_UNSPECIFIED") else name
