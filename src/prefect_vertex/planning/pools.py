"""The worker pools of a job: how many replicas, and what each pool takes from the first.

Roles by position (https://cloud.google.com/vertex-ai/docs/training/distributed-training, read
2026-11): 0 the primary replica, always one; 1 its workers; 2 parameter or reduction servers;
3 evaluators. An empty pool is skipped and keeps its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_vertex.errors import MachineSpecError, PlanError
from prefect_vertex.planning.fields import whole_number
from prefect_vertex.planning.machines import is_tpu
from prefect_vertex.planning.spelling import shown

POOLS_PATH = "job_spec.worker_pool_specs"

Pool = dict[str, Any]

_OF_THE_MACHINE = ("machine_spec", "disk_spec", "nfs_mounts", "lustre_mounts")
_SECTIONS = ("container_spec", "python_package_spec", "machine_spec", "disk_spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLayout:
    """One worker pool, complete but for env and command.

    Attributes:
        spec: A WorkerPoolSpec in snake_case; empty for a pool that is skipped.
        runs_command: Whether its container starts through the bootstrap: pools 0 and 1 do, the
            others only where they bring neither an image nor a command.
    """

    spec: Pool
    runs_command: bool

    @property
    def replicas(self) -> int:
        """Its replica count; 0 for a pool that is skipped."""
        count = self.spec.get("replica_count", 0)
        return count if isinstance(count, int) else 0

    @property
    def machine_type(self) -> str:
        """Its machine type; empty if it does not say."""
        return str(self.spec.get("machine_spec", {}).get("machine_type", ""))


def lay_out_pools(given: object, worker_count: int) -> tuple[PoolLayout, ...]:
    """The pools with their replica counts and what they take from the first.

    Args:
        given: `worker_pool_specs` as the template rendered it, without nulls.
        worker_count: Replicas in all; 1 leaves the pools as they are written.

    Raises:
        PlanError: There is no first pool, or counts contradict each other.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise PlanError(
            f"{POOLS_PATH} is {shown(given)}, expected a list with at least one pool.",
            variable="job_spec",
        )
    if worker_count < 1:
        raise PlanError(
            f"worker_count is {worker_count}, expected 1 or more.",
            variable="worker_count",
        )
    pools = [_checked(pool, index) for index, pool in enumerate(given)]
    first = pools[0]
    if not first:
        raise PlanError(f"{POOLS_PATH}[0] is empty.", variable="job_spec")
    if worker_count > 1:
        pools = pools if len(pools) > 1 else [first, {}]
        pools[1] = _followers(pools[1], worker_count)
    return tuple(
        PoolLayout(
            spec=_counted(_completed(pool, index, first) if index else pool, index),
            runs_command=_runs_command(pool, index),
        )
        for index, pool in enumerate(pools)
    )


def check_tpu_replicas(pools: Sequence[PoolLayout]) -> None:
    """Refuse a TPU job of several replicas, which Vertex AI does not run.

    Raises:
        MachineSpecError: It is one.
    """
    replicas = sum(pool.replicas for pool in pools)
    for pool in pools:
        if replicas > 1 and is_tpu(pool.machine_type):
            raise MachineSpecError(
                f"{pool.machine_type} is a TPU host, of which a job takes one; there are "
                f"{replicas} replicas.",
                variable="worker_count",
                hint="Set worker_count to 1.",
            )


def _checked(pool: object, index: int) -> Pool:
    if not isinstance(pool, Mapping):
        raise PlanError(
            f"{POOLS_PATH}[{index}] is {shown(pool)}, expected a mapping.",
            variable="job_spec",
        )
    for key in _SECTIONS:
        if key in pool and not isinstance(pool[key], Mapping):
            raise PlanError(
                f"{POOLS_PATH}[{index}].{key} is not a mapping.",
                variable="job_spec",
            )
    return dict(pool)


def _runs_command(pool: Pool, index: int) -> bool:
    if "python_package_spec" in pool:
        return False
    container = pool.get("container_spec", {})
    return index <= 1 or not (container.get("image_uri") or container.get("command"))


def _followers(pool: Pool, worker_count: int) -> Pool:
    count = worker_count - 1
    own = pool.get("replica_count")
    if own is not None and whole_number(own, f"{POOLS_PATH}[1].replica_count") != count:
        raise PlanError(
            f"worker_count is {worker_count}, so pool 1 has {count} replicas, but "
            f"{POOLS_PATH}[1].replica_count is {own}.",
            variable="worker_count",
            hint="Set one of them.",
        )
    return {**pool, "replica_count": count}


def _completed(pool: Pool, index: int, first: Pool) -> Pool:
    """What a pool does not say itself it takes from the first; an empty one stays empty."""
    if not pool:
        return {}
    shared = _OF_THE_MACHINE if index == 1 else _OF_THE_MACHINE[:2]
    completed = {**{key: first[key] for key in shared if key in first}, **pool}
    own_machine = pool.get("machine_spec", {})
    if "machine_type" not in own_machine:
        completed["machine_spec"] = {**first.get("machine_spec", {}), **own_machine}
    if "python_package_spec" in pool:
        return completed
    if "python_package_spec" in first and "container_spec" not in pool:
        return {**completed, "python_package_spec": first["python_package_spec"]}
    own = pool.get("container_spec", {})
    container = first.get("container_spec", {})
    # Args belong to a command; a server's pool takes the image, not what the first one runs.
    taken = {
        key: value
        for key, value in container.items()
        if key == "image_uri" or (index == 1 and not (key == "args" and "command" in own))
    }
    return {**completed, "container_spec": {**taken, **own}}


def _counted(pool: Pool, index: int) -> Pool:
    if not pool:
        return {}
    path = f"{POOLS_PATH}[{index}].replica_count"
    count = whole_number(pool.get("replica_count", 1), path)
    if index == 0 and count != 1:
        raise PlanError(
            f"{path} is {count}; the first pool always has one replica.",
            variable="worker_count",
            hint=f"Set worker_count to {count}, and leave replica_count out.",
        )
    if count < 1:
        raise PlanError(
            f"{path} is {count}, expected 1 or more.",
            variable="job_spec",
            hint="Leave the pool empty to skip it.",
        )
    return {**pool, "replica_count": count}
