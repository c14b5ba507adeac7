"""What a CustomJob asks for, read from the job itself, so that any worker can tell it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from google.cloud.aiplatform_v1 import types

from prefect_vertex.lifecycle.snapshot import JobSnapshot, PoolMachines


def with_machines(snapshot: JobSnapshot, job: types.CustomJob) -> JobSnapshot:
    """The snapshot with machines, strategy and maximum run time, where the job shows them."""
    spec = types.CustomJob.pb(job).job_spec
    if not spec.worker_pool_specs:
        return snapshot
    scheduling = spec.scheduling
    return replace(
        snapshot,
        machines=tuple(
            _machines(place, pool)
            for place, pool in enumerate(spec.worker_pool_specs)
            if pool.replica_count
        ),
        strategy=_name(types.Scheduling.Strategy, scheduling.strategy),
        timeout_seconds=(
            scheduling.timeout.ToTimedelta().total_seconds()
            if scheduling.HasField("timeout")
            else None
        ),
    )


def _machines(place: int, pool: Any) -> PoolMachines:
    machine = pool.machine_spec
    return PoolMachines(
        pool=place,
        replicas=pool.replica_count,
        machine_type=machine.machine_type,
        accelerator_type=_name(types.AcceleratorType, machine.accelerator_type),
        accelerator_count=machine.accelerator_count,
    )


def _name(kind: Any, number: int) -> str:
    """An enum's word, empty for the unspecified one; a number that is newer stays a number."""
    if not number:
        return ""
    try:
        return str(kind(number).name)
    except ValueError:
        return str(number)
