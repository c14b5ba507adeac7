"""The CustomJob as a patch sees it: complete but for identity, bootstrap and what that reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.command import argument_list
from prefect_vertex.planning.environment import drafted_entries
from prefect_vertex.planning.fields import check_keys, without_nulls
from prefect_vertex.planning.forms import check_job_forms
from prefect_vertex.planning.machines import DEFAULT_MACHINE_TYPE
from prefect_vertex.planning.patch import patched
from prefect_vertex.planning.pools import (
    Pool,
    PoolLayout,
    check_tpu_replicas,
    lay_out_pools,
    relaid_pools,
)
from prefect_vertex.planning.replicas import POOLS_PATH
from prefect_vertex.planning.scheduling import STRATEGIES, check_scheduling
from prefect_vertex.planning.spec import Candidate

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

OUTPUT_ONLY = frozenset(
    {
        "name",
        "state",
        "create_time",
        "start_time",
        "end_time",
        "update_time",
        "error",
        "web_access_uris",
        "satisfies_pzs",
        "satisfies_pzi",
    },
)
"""Fields of CustomJob that only the service sets (google.cloud.aiplatform_v1 2.7.0)."""

_STRATEGY_NAMES = {number: name for name, number in STRATEGIES.items()}


def settled_job(
    candidate: Candidate,
    name: str,
    descriptor: Descriptor,
) -> tuple[dict[str, Any], tuple[PoolLayout, ...]]:
    """The CustomJob in snake_case, patched and judged, and its pools, which lack the bootstrap.

    Args:
        candidate: Where, and with what.
        name: Its display name.
        descriptor: CustomJob's, of the installed client.

    Raises:
        PlanError: An unknown key, a part of the wrong form, or an operation that fails.
    """
    job_spec = without_nulls(candidate.job_spec)
    check_keys(_of_job_spec(descriptor), job_spec, "job_spec")
    before = _drafted_pools(job_spec, candidate)
    drafted = _drafted_job(job_spec, before, candidate, name)
    job = patched(drafted, candidate.job_spec_patch)
    _check_job_keys(job, descriptor)
    job = without_nulls(job)
    _check_job(job)
    job_spec = job["job_spec"]
    pools = relaid_pools(job_spec.get("worker_pool_specs"), before)
    if isinstance(job_spec.get("scheduling"), Mapping):
        job_spec["scheduling"] = check_scheduling(job_spec["scheduling"])
    _check_run_as(job_spec, candidate)
    check_job_forms(job_spec, job.get("encryption_spec", {}))
    check_tpu_replicas(pools)
    return job, pools


def _check_job_keys(job: Mapping[str, Any], descriptor: Descriptor) -> None:
    check_keys(descriptor, {**job, "job_spec": None}, "custom_job")
    check_keys(_of_job_spec(descriptor), job.get("job_spec"), "job_spec")


def _check_job(job: Mapping[str, Any]) -> None:
    """Refuse a job of which a part above its pools is of the wrong shape."""
    for key in ("job_spec", "labels", "encryption_spec"):
        value = job.get(key, {} if key != "job_spec" else None)
        if not isinstance(value, Mapping):
            what = "is gone" if value is None else "is not a mapping"
            raise PlanError(f"{key} of the job {what}.", variable="job_spec_patch")
    for key in sorted(OUTPUT_ONLY & job.keys()):
        raise PlanError(
            f"job_spec_patch sets {key} of the job, which only Vertex AI sets.",
            variable="job_spec_patch",
            hint="Remove that operation.",
        )


def _check_run_as(job_spec: Mapping[str, Any], candidate: Candidate) -> None:
    """Refuse a job without the service account that something in it needs."""
    if job_spec.get("service_account"):
        return
    needs = {
        "tensorboard": job_spec.get("tensorboard"),
        "prefect_api_key_secret": candidate.api_secrets,
    }
    for name in (name for name, value in needs.items() if value):
        raise PlanError(
            f"{name} is set, for which Vertex AI needs a service account.",
            variable="service_account_name",
            hint="Set service_account_name.",
        )


def _of_job_spec(descriptor: Descriptor) -> Descriptor:
    return cast("Descriptor", descriptor.fields_by_name["job_spec"].message_type)


def _drafted_pools(job_spec: Mapping[str, Any], candidate: Candidate) -> tuple[PoolLayout, ...]:
    """The pools with machine, command, args and env; those of the bootstrap come later.

    Raises:
        PlanError: They contradict each other, or a part is of the wrong shape.
    """
    layouts = lay_out_pools(job_spec.get("worker_pool_specs"), candidate.worker_count)
    return tuple(
        replace(layout, spec=_drafted(layout, index, candidate)) if layout.spec else layout
        for index, layout in enumerate(layouts)
    )


def _drafted_job(
    job_spec: Mapping[str, Any],
    pools: tuple[PoolLayout, ...],
    candidate: Candidate,
    name: str,
) -> dict[str, Any]:
    """A CustomJob of plain JSON values in snake_case."""
    spec = {**job_spec, "worker_pool_specs": [layout.spec for layout in pools]}
    if isinstance(spec.get("scheduling"), Mapping):
        spec["scheduling"] = {key: _as_json(key, item) for key, item in spec["scheduling"].items()}
    job = {"display_name": name, "job_spec": spec, "labels": dict(candidate.labels)}
    if candidate.encryption_spec:
        job["encryption_spec"] = dict(candidate.encryption_spec)
    return job


def _drafted(layout: PoolLayout, index: int, candidate: Candidate) -> Pool:
    path = f"{POOLS_PATH}[{index}]"
    machine = {"machine_type": DEFAULT_MACHINE_TYPE, **layout.spec.get("machine_spec", {})}
    task = "python_package_spec" if "python_package_spec" in layout.spec else "container_spec"
    body = dict(layout.spec.get(task, {}))
    body["env"] = drafted_entries(body.get("env"), candidate.env, f"{path}.{task}.env")
    if task == "container_spec":
        command = argument_list(body.get("command"), f"{path}.{task}.command")
        if layout.runs_command:
            command = command or list(candidate.command)
        body["command"] = command
        body["args"] = argument_list(body.get("args"), f"{path}.{task}.args")
    return {**layout.spec, "machine_spec": machine, task: body}


def _as_json(key: str, value: object) -> object:
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{int(seconds) if seconds.is_integer() else seconds}s"
    if key == "strategy" and isinstance(value, int):
        return _STRATEGY_NAMES.get(value, value)
    return value
