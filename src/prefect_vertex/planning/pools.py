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
from prefect_vertex.planning.replicas import (
    POOLS_PATH,
    ROLES,
    check_roles,
    check_worker_count,
    counted,
    followers,
)
from prefect_vertex.planning.spelling import shown
from prefect_vertex.planning.tpu import is_tpu

MANY_REPLICAS = 1_000
"""From here on a warning: a region's usual quota is 2,200 CPUs, and a machine has four or more."""

Pool = dict[str, Any]

_OF_THE_MACHINE = ("machine_spec", "disk_spec", "nfs_mounts", "lustre_mounts")
_SERVERS = 2
_TASKS = ("container_spec", "python_package_spec")
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


_NO_POOL = PoolLayout(spec={}, runs_command=False)


def lay_out_pools(given: object, worker_count: int) -> tuple[PoolLayout, ...]:
    """The pools with their replica counts and what they take from the first.

    Args:
        given: `worker_pool_specs` as the template rendered it, without nulls.
        worker_count: Replicas in all, but for what pools say themselves: with 1 a second pool has
            its own number, and is left out where it has none.

    Raises:
        PlanError: There is no first pool, or counts contradict each other.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise PlanError(
            f"{POOLS_PATH} is {shown(given)}, expected a list with at least one pool.",
            variable="job_spec",
        )
    check_worker_count(worker_count)
    check_roles(given, "worker_pools")
    pools = [_checked(pool, index) for index, pool in enumerate(given)]
    first = pools[0]
    if not first:
        raise PlanError(f"{POOLS_PATH}[0] is empty.", variable="job_spec")
    if worker_count > 1:
        pools = pools if len(pools) > 1 else [first, {}]
        pools[1] = followers(pools[1], worker_count)
    elif len(pools) > 1 and "replica_count" not in pools[1]:
        pools = [first, {}, *pools[2:]] if pools[2:] else [first]
    return tuple(
        PoolLayout(
            spec=counted(
                _completed(pool, index, first) if index else pool, index, worker_count=worker_count
            ),
            runs_command=_runs_command(pool, index),
        )
        for index, pool in enumerate(pools)
    )


def merged_pools(given: object, over: Sequence[Mapping[str, Any] | None]) -> object:
    """The pools of a template with the entries of `worker_pools` laid over them, by position.

    An empty entry changes nothing and keeps an unused pool's place; a null in one unsets what the
    pool has there. Mappings are merged, env by name, other lists replaced; the task that an entry
    names takes the place of the other kind of task. Neither argument is changed.

    Args:
        given: `worker_pool_specs` as the template rendered it; what is no list is returned as it
            is, for `lay_out_pools` to refuse.
        over: The variable.
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        return given
    entries = list(over)
    while entries and not entries[-1]:
        entries.pop()
    pools: list[Any] = [*given, *[{}] * (len(entries) - len(given))]
    for index, entry in enumerate(entries):
        pool = {} if pools[index] is None else pools[index]
        if entry and isinstance(pool, Mapping):
            replaced = {own: other for own, other in (_TASKS, _TASKS[::-1]) if own in entry}
            kept = {key: item for key, item in pool.items() if key not in replaced.values()}
            pools[index] = _overlaid(kept, entry)
    return pools


def _overlaid(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Pool:
    result = dict(lower)
    for key, value in upper.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and key != "env":
            result[key] = _overlaid(below, value)
        else:
            result[key] = _merged_env(below, value) if key == "env" and below else value
    return result


def _merged_env(lower: Any, upper: Any) -> Any:
    """Two envs as one list, the upper's entries last; what is no env is left to be refused."""
    layers = [
        [{"name": name, "value": value} for name, value in env.items()]
        if isinstance(env, Mapping)
        else env
        for env in (lower, upper)
    ]
    if not all(isinstance(layer, list) for layer in layers):
        return upper
    return [*layers[0], *layers[1]]


def relaid_pools(given: object, before: Sequence[PoolLayout]) -> tuple[PoolLayout, ...]:
    """The pools again after a patch; unchanged ones are as they were.

    Args:
        given: `worker_pool_specs` of the patched job, without nulls.
        before: The pools that were patched.

    Raises:
        PlanError: There is no first pool any more, or a count or shape is wrong.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not given or not given[0]:
        raise PlanError(f"{POOLS_PATH} has no first pool left.", variable="job_spec_patch")
    check_roles(given, "job_spec_patch")
    layouts: list[PoolLayout] = []
    for index, item in enumerate(given):
        pool = _checked(item, index)
        runs_command = index <= 1 and "python_package_spec" not in pool
        if index > 1:
            old = before[index] if index < len(before) else _NO_POOL
            same = _brought(old.spec) == _brought(pool)
            runs_command = old.runs_command if same else _runs_command(pool, index)
        layouts.append(PoolLayout(spec=counted(pool, index), runs_command=runs_command))
    return tuple(layouts)


def _brought(pool: Pool) -> tuple[object, ...]:
    """What decides whether a server's pool runs as it is."""
    container = pool.get("container_spec", {})
    package = "python_package_spec" in pool
    return package, container.get("image_uri"), container.get("command")


def pool_warnings(given: object, pools: Sequence[PoolLayout]) -> tuple[str, ...]:
    """What is likely to be a mistake in pools that Vertex AI takes.

    Args:
        given: `worker_pool_specs` before they were laid out.
        pools: As they are sent.
    """
    found: list[str] = []
    has_workers = len(pools) > 1 and pools[1].replicas
    if isinstance(given, Sequence) and len(given) > 1 and given[1] and not has_workers:
        found.append(
            f"worker_count is 1, which leaves no replica for worker_pools[1] ({ROLES[1]}): it is "
            "left out. Set worker_count to the replicas in all."
        )
    replicas = sum(pool.replicas for pool in pools)
    if replicas > MANY_REPLICAS:
        found.append(f"The job has {replicas} replicas: look at worker_count and replica_count.")
    first = pools[0].spec.get("machine_spec", {})
    for index, pool in enumerate(pools[2:], start=2):
        if pool.runs_command:
            found.append(
                f"worker_pools[{index}] ({ROLES[index]}) brings neither an image nor a command, so "
                "its replicas run what the first pool's run."
            )
        has_gpu = first.get("accelerator_type") and pool.spec.get("machine_spec") == first
        if pool.spec and index == _SERVERS and has_gpu:
            found.append(
                f"worker_pools[{index}] ({ROLES[index]}) takes the machine of the first pool, with "
                "its accelerator: set its machine_spec if it needs none."
            )
    return tuple(found)


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
    checked = dict(pool)
    # A text box that was emptied: as good as not set.
    for key in ("machine_spec", "disk_spec"):
        if key in checked:
            checked[key] = {
                name: value
                for name, value in checked[key].items()
                if not (isinstance(value, str) and not value.strip())
            }
    return checked


def _runs_command(pool: Pool, index: int) -> bool:
    if "python_package_spec" in pool:
        return False
    container = pool.get("container_spec", {})
    return index <= 1 or not (container.get("image_uri") or container.get("command"))


def _completed(pool: Pool, index: int, first: Pool) -> Pool:
    """What a pool does not say itself it takes from the first; an empty one stays empty."""
    if not pool:
        return {}
    shared = _OF_THE_MACHINE if index == 1 else _OF_THE_MACHINE[:2]
    completed = {**{key: first[key] for key in shared if key in first}, **pool}
    has_own_machine = "machine_type" in pool.get("machine_spec", {})
    for key in ("disk_spec",) if has_own_machine else ("disk_spec", "machine_spec"):
        if key in pool or key in first:
            completed[key] = {**first.get(key, {}), **pool.get(key, {})}
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
    return {**completed, "container_spec": _overlaid(taken, own)}
