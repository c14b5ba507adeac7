"""JobPlan: the complete request for one attempt; `build_plan` is the one way to it.

The only module of this package with proto types, so the worker imports it late. Everything that
Vertex AI would refuse for its form is refused here first, before anything is created.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.cloud.aiplatform_v1 import types
from google.protobuf.json_format import MessageToDict

from prefect_vertex.errors import PlanError
from prefect_vertex.planning import command as commands
from prefect_vertex.planning.fields import check_keys, message_values, without_nulls
from prefect_vertex.planning.machines import check_machine
from prefect_vertex.planning.naming import (
    ATTEMPT_LABEL,
    FLOW_RUN_LABEL,
    WORK_POOL_LABEL,
    check_location,
    check_project,
    display_name,
    legal_labels,
)
from prefect_vertex.planning.pools import (
    POOLS_PATH,
    PoolLayout,
    check_tpu_replicas,
    lay_out_pools,
)
from prefect_vertex.planning.scheduling import check_scheduling
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec, Target

MASK = "********"

_ACCELERATORS: dict[str, int] = {
    name: item.value for name, item in types.AcceleratorType.__members__.items()
}
_CUSTOM_JOB_SPEC = types.CustomJobSpec.pb(types.CustomJobSpec()).DESCRIPTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What is submitted for one attempt of one run at one candidate.

    Equal inputs give equal plans.

    Attributes:
        request: The complete CreateCustomJobRequest.
        labels: The labels on the job, as the request carries them.
        dropped_labels: The user's label keys that found no room beside the identity.
        warnings: What the user should know, one line each; nothing that stops the job.
    """

    candidate: Candidate
    attempt: int
    display_name: str
    labels: Mapping[str, str]
    request: types.CreateCustomJobRequest = field(repr=False)
    dropped_labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """Where the job is created, listed and cancelled."""
        return self.candidate.target

    def as_json(self) -> str:
        """The request as JSON in the template's own spelling, values of secrets masked."""
        request: dict[str, Any] = MessageToDict(
            types.CreateCustomJobRequest.pb(self.request),
            preserving_proto_field_name=True,
        )
        request["custom_job"]["labels"] = dict(sorted(self.labels.items()))
        for pool in request["custom_job"]["job_spec"]["worker_pool_specs"]:
            for task in ("container_spec", "python_package_spec"):
                for entry in pool.get(task, {}).get("env", ()):
                    if entry["name"] in self.candidate.secret_env:
                        entry["value"] = MASK
        return json.dumps(request, indent=2, ensure_ascii=False)


def build_plan(
    spec: RunSpec,
    candidate: Candidate,
    *,
    attempt: int,
    bootstrap: str,
    platform_env: Mapping[str, str] | None = None,
) -> JobPlan:
    """Plan one attempt of a run at one candidate.

    Args:
        spec: The run; only its identity is used.
        candidate: Where, and with what.
        attempt: Attempt number, from 1.
        bootstrap: Source that `python3 -c` runs before the command.
        platform_env: Further variables for every container that users cannot override.

    Raises:
        PlanError: The job variable or field that cannot lead to a job.
    """
    if attempt < 1:
        raise PlanError(f"attempt is {attempt}, expected 1 or more.")
    check_project(candidate.project)
    warnings = list(check_location(candidate.location))
    around = _Around(
        identity=spec.identity,
        candidate=candidate,
        attempt=attempt,
        bootstrap=bootstrap,
        platform_env=platform_env or {},
    )
    job_spec, found = _job_spec(around)
    warnings += found
    labels, dropped = _labels(spec.identity, candidate, attempt)
    warnings += [f"label {key!r} is left out: it found no room on the job." for key in dropped]
    name = display_name(
        candidate.name or spec.identity.flow_run_name,
        spec.identity.flow_run_id,
        attempt,
    )
    request = types.CreateCustomJobRequest(
        parent=candidate.target.parent,
        custom_job=types.CustomJob(
            display_name=name,
            job_spec=types.CustomJobSpec(message_values(_CUSTOM_JOB_SPEC, job_spec, "job_spec")),
            labels=labels,
        ),
    )
    return JobPlan(
        candidate=candidate,
        attempt=attempt,
        display_name=name,
        labels=labels,
        request=request,
        dropped_labels=dropped,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _labels(
    identity: RunIdentity,
    candidate: Candidate,
    attempt: int,
) -> tuple[dict[str, str], tuple[str, ...]]:
    return legal_labels(
        candidate.labels,
        {
            **identity.labels,
            FLOW_RUN_LABEL: identity.flow_run_id,
            WORK_POOL_LABEL: identity.work_pool_id,
            ATTEMPT_LABEL: attempt,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What every pool's container needs besides its own spec."""

    identity: RunIdentity
    candidate: Candidate
    attempt: int
    bootstrap: str
    platform_env: Mapping[str, str]
    vertex_retries: bool = False

    @property
    def platform(self) -> dict[str, str]:
        """The variables that users cannot override."""
        return {
            **self.platform_env,
            **commands.platform_environment(
                flow_run_id=self.identity.flow_run_id,
                attempt=self.attempt,
                code=self.candidate.code,
                checkpoint_dir=self.candidate.checkpoint_dir,
                setup_command=self.candidate.setup_command,
                vertex_retries=self.vertex_retries,
            ),
        }

    def common(self, index: int) -> dict[str, str]:
        """The variables that a pool's own entries override."""
        ours = commands.primary_environment(vertex_retries=self.vertex_retries)
        return {**({} if index else ours), **self.candidate.env}


def _job_spec(around: _Around) -> tuple[dict[str, Any], list[str]]:
    """The CustomJobSpec in snake_case, complete, and what the user should know about it."""
    job_spec = without_nulls(around.candidate.job_spec)
    check_keys(_CUSTOM_JOB_SPEC, job_spec, "job_spec")
    if isinstance(job_spec.get("scheduling"), Mapping):
        job_spec["scheduling"] = check_scheduling(job_spec["scheduling"])
    around = replace(around, vertex_retries=_has_vertex_retries(job_spec))
    if job_spec.get("tensorboard") and not job_spec.get("service_account"):
        raise PlanError(
            "tensorboard is set, for which Vertex AI needs a service account.",
            variable="service_account_name",
            hint="Set service_account_name.",
        )
    layouts = lay_out_pools(job_spec.get("worker_pool_specs"), around.candidate.worker_count)
    check_tpu_replicas(layouts)
    pools: list[dict[str, Any]] = []
    warnings: list[str] = []
    for index, layout in enumerate(layouts):
        pool, found = _worker_pool(layout, index, around) if layout.spec else ({}, [])
        pools.append(pool)
        warnings += found
    return {**job_spec, "worker_pool_specs": pools}, warnings


def _has_vertex_retries(job_spec: Mapping[str, Any]) -> bool:
    """Whether Vertex AI may start the job's containers again: what the request itself will say."""
    scheduling = {"scheduling": job_spec.get("scheduling", {})}
    values = message_values(_CUSTOM_JOB_SPEC, scheduling, "job_spec")
    return not types.CustomJobSpec(values).scheduling.disable_retries


def _worker_pool(
    layout: PoolLayout,
    index: int,
    around: _Around,
) -> tuple[dict[str, Any], list[str]]:
    """One WorkerPoolSpec that is not empty, and its warnings."""
    path = f"{POOLS_PATH}[{index}]"
    machine, about_machine = check_machine(
        layout.spec.get("machine_spec", {}),
        _ACCELERATORS,
        warn_only=around.candidate.validate_hardware == "warn",
    )
    is_package = "python_package_spec" in layout.spec
    task = "python_package_spec" if is_package else "container_spec"
    body = dict(layout.spec.get(task, {}))
    body["env"], about_env = commands.merged_environment(
        body.get("env"),
        common=around.common(index),
        platform=around.platform,
        path=f"{path}.{task}.env",
    )
    warnings = [*about_machine, *about_env]
    if not is_package:
        body = _container(body, layout, around, f"{path}.container_spec")
    elif index == 0:
        warnings.append(
            f"{path} runs a Python package, not the bootstrap: the flow runs only if that "
            "package runs it.",
        )
    return {**layout.spec, "machine_spec": machine, task: body}, warnings


def _container(
    body: dict[str, Any],
    layout: PoolLayout,
    around: _Around,
    path: str,
) -> dict[str, Any]:
    if not body.get("image_uri"):
        raise PlanError(
            f"image is not set ({path}.image_uri).",
            variable="image",
            hint="Set image to one that Vertex AI can pull and that has Prefect in it.",
        )
    command = commands.argument_list(body.get("command"), f"{path}.command")
    args = commands.argument_list(body.get("args"), f"{path}.args")
    if layout.runs_command:
        command = commands.wrapped_command(
            command or around.candidate.command,
            python_command=around.candidate.python_command,
            bootstrap=around.bootstrap,
        )
    return {**body, "command": command, "args": args}
