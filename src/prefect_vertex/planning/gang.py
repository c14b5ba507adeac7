"""What the replicas of a job are told: what each of them runs, when they begin, how much at once.

The counted replicas are those of the first two pools; parameter servers and evaluators take no part
in any of this. The bootstrap and `prefect_vertex.replica` read it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.pools import PoolLayout
from prefect_vertex.planning.sizing import MIB, THREAD_VARIABLES, ResourcePlan
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.planning.spelling import shown

COUNTED_POOLS = 2

_EXECUTE = ("flow-run", "execute")
_RANK = "PREFECT_VERTEX_RANK"


def is_gang(pools: Sequence[PoolLayout]) -> bool:
    """Whether a job has several counted replicas, all of them behind the bootstrap."""
    counted = [pool for pool in pools[:COUNTED_POOLS] if pool.spec]
    several = sum(pool.replicas for pool in counted) > 1
    return several and all(pool.runs_command for pool in counted)


def gang_environment(candidate: Candidate, pools: Sequence[PoolLayout]) -> dict[str, str]:
    """What counted replicas read that users cannot override.

    Raises:
        PlanError: All replicas would have the same rank.
    """
    environment: dict[str, str] = {}
    if candidate.staging_folder:
        environment["PREFECT_VERTEX_STAGING"] = candidate.staging_folder
    if not is_gang(pools):
        return environment
    if candidate.env.get(_RANK):
        raise PlanError(
            f"env sets {_RANK} to {shown(candidate.env[_RANK])}, which every replica would have "
            "for its rank.",
            variable="env",
            hint="Leave it out: each replica learns its rank from Vertex AI.",
        )
    environment["PREFECT_VERTEX_REPLICAS"] = candidate.replicas
    if candidate.gang_start:
        environment["PREFECT_VERTEX_GANG"] = "1"
        if candidate.gang_seconds is not None:
            environment["PREFECT_VERTEX_GANG_SECONDS"] = _decimal(candidate.gang_seconds)
    return environment


def slot_environment(plan: ResourcePlan, *, pins: bool) -> dict[str, str]:
    """What a replica reads of its resource plan unless the user says otherwise.

    Args:
        plan: It; what it does not know is left out, and the container finds out.
        pins: Whether libraries are held to the cores of one slot. Only where the job is this
            package's in all: a flow that had a machine to itself keeps all of its threads.
    """
    values = {
        "PREFECT_VERTEX_SLOTS": plan.slots,
        "PREFECT_VERTEX_SLOT_CORES": plan.slot_cores,
        "PREFECT_VERTEX_SLOT_MEMORY_MB": plan.slot_memory_bytes and plan.slot_memory_bytes // MIB,
        **(dict.fromkeys(THREAD_VARIABLES, plan.slot_cores) if pins else {}),
    }
    return {name: str(value) for name, value in values.items() if value}


def check_replicas_command(command: Sequence[str], path: str) -> None:
    """Refuse a command of which replicas that run the flow would not know what to do.

    Args:
        command: Command and args of a counted pool.
        path: Where they stand, for the message.

    Raises:
        PlanError: It does not execute the flow run.
    """
    if tuple(command[-2:]) == _EXECUTE and command[-3:-2] and _is_prefect(command[-3]):
        return
    raise PlanError(
        f"{path} runs {shown(shlex.join(command))}, but the job has several replicas and replicas "
        "is flow: each of them runs the flow itself, with `prefect flow-run execute`.",
        variable="replicas",
        hint="Set replicas: command to run this command on every replica as it is, or leave "
        "command out.",
    )


def _is_prefect(word: str) -> bool:
    return word == "prefect" or word.endswith("/prefect")


def _decimal(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)
