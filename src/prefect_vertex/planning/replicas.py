"""How many replicas a job has, and which of its pools may have them.

Vertex AI counts a pool's replicas in a signed 64-bit number, and knows pools by their position
(https://cloud.google.com/vertex-ai/docs/training/distributed-training, read 2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.fields import whole_number

Pool = dict[str, Any]

POOLS_PATH = "job_spec.worker_pool_specs"
ROLES = ("the primary replica", "its workers", "parameter or reduction servers", "evaluators")
"""What the pools are for, by position; Vertex AI has no role for a fifth."""

MAX_COUNT = 2**63 - 1
"""Of WorkerPoolSpec.replica_count."""


def check_worker_count(worker_count: int) -> None:
    """Refuse a number of replicas that no job can have.

    Raises:
        PlanError: It is one.
    """
    if worker_count < 1:
        raise PlanError(
            f"worker_count is {worker_count}, expected 1 or more.",
            variable="worker_count",
        )
    if worker_count > MAX_COUNT:
        raise PlanError(
            f"worker_count is {worker_count}, which is more than a request can say.",
            variable="worker_count",
            hint="Set worker_count to the replicas that the run needs.",
        )


def check_roles(given: Sequence[object], variable: str) -> None:
    """Refuse a pool at a position for which there is no role.

    Args:
        given: `worker_pool_specs`.
        variable: What is at fault if there is one.

    Raises:
        PlanError: There is one.
    """
    for index, pool in enumerate(given):
        if pool and index >= len(ROLES):
            raise PlanError(
                f"{POOLS_PATH} has a pool {index}; Vertex AI has {len(ROLES)}, by position: "
                f"{', '.join(ROLES)}.",
                variable=variable,
                hint=f"Leave {variable} at {len(ROLES)} pools, and raise a replica_count instead.",
            )


def followers(pool: Pool, worker_count: int) -> Pool:
    """The second pool with the replicas that `worker_count` leaves for it.

    Raises:
        PlanError: It has another count of its own.
    """
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


def counted(pool: Pool, index: int, *, worker_count: int | None = None) -> Pool:
    """The pool with its replica count.

    Args:
        pool: As it was written.
        index: Its position.
        worker_count: The variable; None after a patch, which then is at fault.

    Raises:
        PlanError: It is none that the pool can have.
    """
    if not pool:
        return {}
    path = f"{POOLS_PATH}[{index}].replica_count"
    count = whole_number(pool.get("replica_count", 1), path)
    if index == 0 and count != 1:
        raise _several_primaries(path, count, worker_count)
    if count < 1:
        raise PlanError(
            f"{path} is {count}, expected 1 or more.",
            variable="job_spec_patch" if worker_count is None else "job_spec",
            hint="Leave the pool empty to skip it.",
        )
    if count > MAX_COUNT:
        raise PlanError(
            f"{path} is {count}, which is more than a request can say.",
            variable="job_spec_patch" if worker_count is None else "worker_count",
            hint="Set worker_count to the replicas that the run needs.",
        )
    return {**pool, "replica_count": count}


def _several_primaries(path: str, count: int, worker_count: int | None) -> PlanError:
    hint = "Leave replica_count out"
    if worker_count is not None and worker_count == count:
        hint = f"{hint}: worker_count is {count} already, and fills the second pool."
    elif worker_count is not None and 1 < count <= MAX_COUNT:
        hint = f"Set worker_count to {count}, and leave replica_count out."
    else:
        hint = f"{hint}; worker_count says how many there are in all."
    return PlanError(
        f"{path} is {count}; the first pool always has one replica.",
        variable="job_spec_patch" if worker_count is None else "worker_count",
        hint=hint,
    )
