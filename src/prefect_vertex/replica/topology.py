"""Which replica of how many this process is, as its environment says.

The first that speaks decides: `PREFECT_VERTEX_RANK` and `PREFECT_VERTEX_WORLD_SIZE`, which the
bootstrap sets; Vertex AI's `CLUSTER_SPEC`; the variables of a Kubernetes indexed job. Where none
does, the process is alone. What cannot be read is an error, never "alone": every replica would then
do all of the work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.spelling import numeral, shown

RANK = "PREFECT_VERTEX_RANK"
WORLD_SIZE = "PREFECT_VERTEX_WORLD_SIZE"
CLUSTER_SPEC = "CLUSTER_SPEC"
INDEX = "JOB_COMPLETION_INDEX"
TOTALS = ("JOB_COMPLETION_TOTAL", "JOB_COMPLETION_COUNT", WORLD_SIZE)

# Vertex AI names its pools by number, and in some jobs by role.
# Where a job has several of one pool's names, each has its own ranks: none may occur twice.
COUNTED = ("chief", "master", "workerpool0", "worker", "workerpool1")
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Place:
    """One replica's place among those that share the work.

    Attributes:
        rank: From 0; 0 is the primary replica.
        world_size: How many there really are, which may be fewer than were asked for.
    """

    rank: int = 0
    world_size: int = 1


def read_place(environment: Mapping[str, str]) -> Place:
    """The place that the variables describe.

    Raises:
        SetupError: They describe one, but not readably or not completely; or this is a parameter
            server or evaluator, which has no rank.
    """
    rank, size = _number(environment, RANK), _number(environment, WORLD_SIZE)
    if rank is None or size is None:
        found = _of_cluster(environment.get(CLUSTER_SPEC)) or _of_indexed_job(environment)
        if found is not None:
            rank = found.rank if rank is None else rank
            size = found.world_size if size is None else size
    if rank is None and (size is None or size == 1):
        return Place()
    if rank is None or size is None:
        missing, given = (WORLD_SIZE, RANK) if size is None else (RANK, WORLD_SIZE)
        raise SetupError(f"{given} is set, but {missing} is not.", hint=f"Set {missing} too.")
    if rank >= size:
        raise SetupError(
            f"This replica's rank is {rank}, but there are {size} replicas, with ranks from 0.",
            hint=f"Look at {RANK}, {WORLD_SIZE}, {CLUSTER_SPEC} and {INDEX}.",
        )
    return Place(rank, size)


def _of_cluster(text: str | None) -> Place | None:
    """The place in a CLUSTER_SPEC; None where there is none.

    Only hosts and task are read: `job`, `open_ports` and the hosts' names, which need not resolve
    yet, may be anything.
    """
    if not text:
        return None
    try:
        spec = json.loads(text)
        counts = {str(pool): _count(hosts) for pool, hosts in spec["cluster"].items()}
        pool, index = str(spec["task"]["type"]), _index(spec["task"]["index"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise _unreadable(text, repr(error)) from error
    # A single replica's pool has several names: there is no other that it could be.
    if counts == {pool: 1} and index == 0:
        return Place()
    if pool not in COUNTED:
        raise SetupError(
            f"This replica is number {shown(index)} of {_clipped(pool)} in {CLUSTER_SPEC}: "
            "parameter servers and evaluators share no work, and have no rank.",
        )
    if not 0 <= index < counts.get(pool, 0):
        raise _unreadable(text, f"it has no number {index} of {pool}")
    sizes = [counts.get(name, 0) for name in COUNTED]
    return Place(sum(sizes[: COUNTED.index(pool)]) + index, sum(sizes))


def _count(hosts: Any) -> int:
    if not isinstance(hosts, list):
        raise TypeError(f"hosts are {_clipped(repr(hosts))}, expected a list")
    return len(hosts)


def _index(given: Any) -> int:
    """A number, or the text of one; `int` reads 1.9 and true as 1 too."""
    if type(given) is int:
        return given
    number = numeral(given) if isinstance(given, str) else None
    if number is None:
        raise TypeError(f"index is {shown(given)}, expected a number")
    return number


def _unreadable(text: str, why: str) -> SetupError:
    return SetupError(f"{CLUSTER_SPEC} cannot be read ({_clipped(why)}): {_clipped(text)}")


def _clipped(text: str) -> str:
    """As a message shows it: one line, not too long."""
    return " ".join(text[:_SHOWN].split())


def _of_indexed_job(environment: Mapping[str, str]) -> Place | None:
    """The place in a Kubernetes indexed job; None where this is none."""
    index = _number(environment, INDEX)
    if index is None:
        return None
    totals = (_number(environment, name) for name in TOTALS)
    total = next((number for number in totals if number is not None), None)
    if total is None:
        raise SetupError(
            f"{INDEX} is {index}, but nothing says how many replicas there are.",
            hint=f"Set one of {', '.join(TOTALS)} to the job's completions.",
        )
    return Place(index, total)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """A variable's number; None where it is not set, or empty."""
    text = environment.get(name, "").strip()
    if not text:
        return None
    number, least = numeral(text), 1 if name in TOTALS else 0
    if number is None or number < least:
        given = shown(text)
        raise SetupError(f"{name} is {given}, expected a number of {least} or more.")
    return number
