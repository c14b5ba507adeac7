"""What the replicas of a job are told: what each of them runs, when they begin, how much at once.

The counted replicas are those of the first two pools; parameter servers and evaluators take no part
in any of this. The bootstrap and `prefect_vertex.replica` read it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.pools import PoolLayout
from prefect_vertex.planning.sizing import MIB, THREAD_VARIABLES, ResourcePlan
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.planning.spelling import numeral, shown

COUNTED_POOLS = 2

_EXECUTE = ("flow-run", "execute")
# Each says by itself, or with another of them, which replica a process is.
_PLACES = ("PREFECT_VERTEX_RANK", "PREFECT_VERTEX_WORLD_SIZE", "CLUSTER_SPEC")
_NUMBERS = ("PREFECT_VERTEX_SLOTS", "PREFECT_VERTEX_SLOT_CORES", "PREFECT_VERTEX_SLOT_MEMORY_MB")
HEARTBEAT_SECONDS = "PREFECT_VERTEX_HEARTBEAT_SECONDS"
LOSS_SECONDS = "PREFECT_VERTEX_LOSS_SECONDS"
SECONDS_BOUNDS = {
    # The bucket limits writes to one object, and a death has to be noticed in a minute.
    HEARTBEAT_SECONDS: (1.0, 10.0),
    LOSS_SECONDS: (0.0, 3600.0),
}


def is_gang(pools: Sequence[PoolLayout]) -> bool:
    """Whether a job has several counted replicas, all of them behind the bootstrap."""
    counted = [pool for pool in pools[:COUNTED_POOLS] if pool.spec]
    several = sum(pool.replicas for pool in counted) > 1
    return several and all(pool.runs_command for pool in counted)


def gang_environment(candidate: Candidate, pools: Sequence[PoolLayout]) -> dict[str, str]:
    """What counted replicas read that users cannot override."""
    environment: dict[str, str] = {}
    if candidate.staging_folder:
        environment["PREFECT_VERTEX_STAGING"] = candidate.staging_folder
    if not is_gang(pools):
        return environment
    environment["PREFECT_VERTEX_REPLICAS"] = candidate.replicas
    if candidate.gang_start:
        environment["PREFECT_VERTEX_GANG"] = "1"
        if candidate.gang_seconds is not None:
            environment["PREFECT_VERTEX_GANG_SECONDS"] = _decimal(candidate.gang_seconds)
    return environment


def check_replica_environment(
    given: Mapping[str, str], path: str, *, gang: bool, expands: bool = False
) -> None:
    """Refuse values of the user's that no replica could begin with.

    Args:
        given: A counted pool's variables.
        path: Where they stand, for messages.
        gang: Whether there are several counted replicas, of which each has its own place.
        expands: Whether a value may refer to other variables, so that nobody knows it here.

    Raises:
        PlanError: One of them.
    """
    judged = {
        name: value
        for name, value in given.items()
        if value.strip() and not (expands and "$(" in value)
    }
    for name in _PLACES if gang else ():
        if given.get(name):
            raise PlanError(
                f"{path} sets {name} to {shown(given[name])}, which would be the same for several "
                "replicas.",
                variable="env",
                hint="Leave it out: each replica learns its place from Vertex AI.",
            )
    for name in _NUMBERS:
        if name in judged and not numeral(judged[name]):
            raise PlanError(
                f"{path} sets {name} to {shown(judged[name])}, expected a number of 1 or more.",
                variable="env",
                hint="Leave it out for what the machine has room for.",
            )
    for name, (least, most) in SECONDS_BOUNDS.items():
        if name in judged and not least <= _seconds(judged[name]) <= most:
            raise PlanError(
                f"{path} sets {name} to {shown(judged[name])}, expected seconds from "
                f"{least:g} to {most:g}.",
                variable="env",
                hint="Leave it out for what is usual.",
            )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


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


def check_bundle(candidate: Candidate, pools: Sequence[PoolLayout]) -> None:
    """Refuse several counted replicas for an ad-hoc run, of which each would run the whole flow.

    Raises:
        PlanError: There are several.
    """
    command = candidate.command
    # As Prefect writes it: `<launcher> -m <step> … --key <key>`.
    is_bundle = "-m" in command and tuple(command[-2:-1]) == ("--key",)
    replicas = sum(pool.replicas for pool in pools[:COUNTED_POOLS] if pool.runs_command)
    if is_bundle and replicas > 1:
        raise about_bundle_replicas(replicas)


def about_bundle_replicas(count: int) -> PlanError:
    """Why an ad-hoc run cannot have that many replicas."""
    return PlanError(
        f"worker_count is {count}, but an ad-hoc run has one replica: each would run the whole "
        "flow.",
        variable="worker_count",
        hint="Set worker_count to 1, or deploy the flow.",
    )


def _is_prefect(word: str) -> bool:
    return word == "prefect" or word.endswith("/prefect")


def _decimal(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)
