"""What a replica is started with: argv, and the variables that Vertex AI documents.

Sources: https://cloud.google.com/vertex-ai/docs/training/distributed-training and
.../code-requirements; README.md says which were only observed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.cloud.aiplatform_v1.types import CustomJobSpec, WorkerPoolSpec

from prefect_vertex.emulator.expansion import expand, expand_environment
from prefect_vertex.emulator.names import JobName
from prefect_vertex.emulator.ports import free_ports

_LOOPBACK: Final = "127.0.0.1"
_TENSORFLOW_ROLES: Final = ("chief", "worker", "ps", "evaluator")
# The service sends this literally for container jobs, as a string of JSON.
_JOB_FIELD: Final = json.dumps({"python_module": "", "package_uris": [], "job_args": []})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """One replica: `argv` is empty where the spec leaves the command to an image."""

    name: str
    host_name: str
    argv: tuple[str, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Seat:
    """A replica's place: pool position, index in the pool, rank in the job, its two ports."""

    pool: int
    index: int
    rank: int
    port: int
    free_port: int

    @property
    def name(self) -> str:
        return f"workerpool{self.pool}-{self.index}"

    @property
    def address(self) -> str:
        return f"{_LOOPBACK}:{self.port}"


def plan_replicas(
    spec: CustomJobSpec,
    job: JobName,
    *,
    platform_variables: Mapping[str, str],
    single_replica_pool: str,
    source: random.Random,
) -> list[ReplicaPlan]:
    """Every replica of every pool, the primary first; takes free ports for their addresses."""
    seats = _seats(spec.worker_pool_specs)
    cluster = _cluster(seats, single_replica_pool)
    job_hash = _hex(source, 10)
    plans = []
    for seat in seats:
        platform = {
            "CLUSTER_SPEC": _cluster_spec(seat, cluster, single_replica_pool, alone=len(seats) == 1)
        }
        platform |= _distributed_variables(seat, seats) if len(seats) > 1 else {}
        platform |= _job_variables(spec, job) | dict(platform_variables)
        pool = spec.worker_pool_specs[seat.pool]
        # The pod's random suffix is there so that nobody reads a rank from a host name.
        host = f"cmle-training-workerpool{seat.pool}-{job_hash}-{seat.index}-{_hex(source, 6)}"
        plans.append(_plan(seat, pool, platform, host))
    return plans


def _plan(
    seat: _Seat, pool: WorkerPoolSpec, platform: Mapping[str, str], host_name: str
) -> ReplicaPlan:
    container = pool.container_spec
    entries = [(entry.name, entry.value) for entry in container.env]
    variables = expand_environment(entries, platform)
    return ReplicaPlan(
        name=seat.name,
        host_name=host_name,
        argv=tuple(expand(part, variables) for part in (*container.command, *container.args)),
        variables=variables,
    )


def _hex(source: random.Random, digits: int) -> str:
    return f"{source.getrandbits(4 * digits):0{digits}x}"


def _seats(pools: Sequence[WorkerPoolSpec]) -> list[_Seat]:
    places = [
        (position, index)
        for position, pool in enumerate(pools)
        for index in range(pool.replica_count)
    ]
    ports = iter(free_ports(2 * len(places)))
    return [
        _Seat(position, index, rank, next(ports), next(ports))
        for rank, (position, index) in enumerate(places)
    ]


def _cluster(seats: Sequence[_Seat], single_replica_pool: str) -> dict[str, list[str]]:
    if len(seats) == 1:
        return {single_replica_pool: [seats[0].address]}
    cluster: dict[str, list[str]] = {}
    for seat in seats:
        cluster.setdefault(f"workerpool{seat.pool}", []).append(seat.address)
    return cluster


def _cluster_spec(
    seat: _Seat, cluster: Mapping[str, list[str]], single_replica_pool: str, *, alone: bool
) -> str:
    task_type = single_replica_pool if alone else f"workerpool{seat.pool}"
    return json.dumps(
        {
            "cluster": cluster,
            "environment": "cloud",
            "task": {"type": task_type, "index": seat.index},
            "job": _JOB_FIELD,
            "open_ports": [seat.free_port],
        }
    )


def _distributed_variables(seat: _Seat, seats: Sequence[_Seat]) -> dict[str, str]:
    return {
        "TF_CONFIG": _tf_config(seat, seats),
        "MASTER_ADDR": _LOOPBACK,
        "MASTER_PORT": str(seats[0].port),
        "RANK": str(seat.rank),
        "WORLD_SIZE": str(len(seats)),
    }


def _tf_config(seat: _Seat, seats: Sequence[_Seat]) -> str:
    cluster: dict[str, list[str]] = {}
    for other in seats:
        # Evaluators know the cluster without standing in it.
        if _role(other) != "evaluator":
            cluster.setdefault(_role(other), []).append(other.address)
    config: dict[str, Any] = {
        "cluster": cluster,
        "task": {"type": _role(seat), "index": seat.index},
        "job": {},
        "environment": "cloud",
    }
    return json.dumps(config)


def _role(seat: _Seat) -> str:
    return _TENSORFLOW_ROLES[seat.pool] if seat.pool < len(_TENSORFLOW_ROLES) else "worker"


def _job_variables(spec: CustomJobSpec, job: JobName) -> dict[str, str]:
    variables = {
        "CLOUD_ML_PROJECT_ID": job.place.project_number,
        "CLOUD_ML_JOB_ID": job.job_id,
        "CLOUD_ML_REGION": job.place.location,
    }
    base = spec.base_output_directory.output_uri_prefix.rstrip("/")
    if base:
        variables |= {
            "AIP_MODEL_DIR": f"{base}/model/",
            "AIP_CHECKPOINT_DIR": f"{base}/checkpoints/",
            "AIP_TENSORBOARD_LOG_DIR": f"{base}/logs/",
        }
    return variables
