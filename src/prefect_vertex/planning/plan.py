"""JobPlan: the complete request for one attempt; `build_plan` is the one way to it.

The only module of this package with proto types, so the worker imports it late. Everything that
Vertex AI would refuse for its form is refused here first, before anything is created.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.cloud.aiplatform_v1 import types
from google.protobuf.json_format import MessageToDict

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.containers import Attempt, finished_pool
from prefect_vertex.planning.draft import settled_job
from prefect_vertex.planning.fields import message_values, unknown_enum_numbers
from prefect_vertex.planning.forms import check_job_parts
from prefect_vertex.planning.gang import (
    COUNTED_POOLS,
    check_bundle,
    gang_environment,
    is_gang,
)
from prefect_vertex.planning.masking import (
    MASK,
    carried_values,
    masked_lines,
    masked_request,
    secret_values,
    stands_outside_env,
    without_secrets,
)
from prefect_vertex.planning.naming import (
    ATTEMPT_LABEL,
    FLOW_RUN_LABEL,
    WORK_POOL_LABEL,
    check_location,
    check_project,
    display_name,
    label_key,
    legal_labels,
)
from prefect_vertex.planning.placement import check_locations, check_placement
from prefect_vertex.planning.pools import pool_warnings
from prefect_vertex.planning.scheduling import (
    DEFAULT_TIMEOUT,
    SPOT_STRATEGIES,
    check_patience,
    parse_strategy,
)
from prefect_vertex.planning.sizing import ResourcePlan
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec, Target

__all__ = ["MASK", "JobPlan", "build_plan"]

_ACCELERATORS: dict[str, int] = {
    name: item.value for name, item in types.AcceleratorType.__members__.items()
}
_CUSTOM_JOB = types.CustomJob.pb(types.CustomJob()).DESCRIPTOR
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
        packed_env: Names of the variables that travel packed, in any pool.
        resources: What a replica runs at once: of the first pool, and of its workers if any.
    """

    candidate: Candidate
    attempt: int
    display_name: str
    labels: Mapping[str, str]
    request: types.CreateCustomJobRequest = field(repr=False)
    dropped_labels: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    packed_env: frozenset[str] = frozenset()
    resources: tuple[ResourcePlan, ...] = ()

    @property
    def target(self) -> Target:
        """Where the job is created, listed and cancelled."""
        return self.candidate.target

    @property
    def timeout_seconds(self) -> float:
        """The job's longest run time, as it is sent."""
        # A message of the installed client has it as a timedelta.
        timeout: Any = self.request.custom_job.job_spec.scheduling.timeout
        return float((timeout or DEFAULT_TIMEOUT).total_seconds())

    @property
    def is_spot(self) -> bool:
        """Whether Vertex AI may take the job's machines back, as it is sent."""
        strategy = int(self.request.custom_job.job_spec.scheduling.strategy)
        return parse_strategy(strategy) in SPOT_STRATEGIES

    def as_json(self) -> str:
        """The request as JSON in the template's own spelling, values of secrets masked."""
        request: dict[str, Any] = MessageToDict(
            types.CreateCustomJobRequest.pb(self.request),
            preserving_proto_field_name=True,
        )
        request["custom_job"]["labels"] = dict(sorted(self.labels.items()))
        names, secrets = self.candidate.secret_env, secret_values(self.candidate)
        if names or secrets:
            request = masked_request(request, names, secrets)
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

    def plan(chosen: Candidate) -> JobPlan:
        return _planned(
            spec, chosen, attempt=attempt, bootstrap=bootstrap, platform_env=platform_env or {}
        )

    try:
        return plan(candidate)
    except PlanError as error:
        told = without_secrets(error, candidate, plan)
        if told is error:
            raise
        # Not chained: the first one quotes a secret.
        raise told from None


def _planned(
    spec: RunSpec,
    candidate: Candidate,
    *,
    attempt: int,
    bootstrap: str,
    platform_env: Mapping[str, str],
) -> JobPlan:
    check_project(candidate.project)
    warnings = list(check_location(candidate.location))
    name = display_name(
        candidate.name.strip() or spec.identity.flow_run_name,
        spec.identity.flow_run_id,
        attempt,
    )
    job, drafts = settled_job(candidate, name, _CUSTOM_JOB)
    check_bundle(candidate, drafts)
    if job.pop("display_name", name) != name:
        warnings.append("job_spec_patch changes display_name, which has no effect; set name.")
    given_labels = job.pop("labels", {})
    around = Attempt(
        identity=spec.identity,
        candidate=candidate,
        attempt=attempt,
        bootstrap=bootstrap,
        platform_env=platform_env,
        accelerators=_ACCELERATORS,
        vertex_retries=_has_vertex_retries(job["job_spec"]),
        gang=gang_environment(candidate, drafts),
        is_gang=is_gang(drafts),
    )
    pools = [finished_pool(layout, index, around) for index, layout in enumerate(drafts)]
    job["job_spec"]["worker_pool_specs"] = [pool.spec for pool in pools]
    labels, dropped = _labels(spec.identity, given_labels, attempt)
    request = _request(candidate, job, name, labels)
    warnings += pool_warnings(candidate.job_spec.get("worker_pool_specs"), drafts)
    warnings += [line for pool in pools for line in pool.warnings]
    warnings += _check_sent(request, candidate)
    warnings += [_of_dropped(key, spec.identity) for key in dropped]
    return JobPlan(
        candidate=candidate,
        attempt=attempt,
        display_name=name,
        labels=labels,
        request=request,
        dropped_labels=dropped,
        warnings=tuple(dict.fromkeys(masked_lines(warnings, secret_values(candidate)))),
        packed_env=frozenset().union(*(pool.packed for pool in pools)),
        resources=tuple(pool.resources for pool in pools[:COUNTED_POOLS] if pool.resources),
    )


def _request(
    candidate: Candidate,
    job: Mapping[str, Any],
    name: str,
    labels: Mapping[str, str],
) -> types.CreateCustomJobRequest:
    others = {key: value for key, value in job.items() if key != "job_spec"}
    spec = message_values(_CUSTOM_JOB_SPEC, job["job_spec"], "job_spec")
    return types.CreateCustomJobRequest(
        parent=candidate.target.parent,
        custom_job=types.CustomJob(
            message_values(_CUSTOM_JOB, others, "custom_job"),
            display_name=name,
            job_spec=types.CustomJobSpec(spec),
            labels=labels,
        ),
    )


def _check_sent(request: types.CreateCustomJobRequest, candidate: Candidate) -> tuple[str, ...]:
    """Judge the parts of the job by each other, as they will be sent."""
    sent: dict[str, Any] = MessageToDict(
        types.CustomJob.pb(request.custom_job),
        preserving_proto_field_name=True,
    )
    named = {key: value for key, value in sent.items() if key not in {"display_name", "labels"}}
    check_locations(named, candidate.location)
    check_patience(sent["job_spec"].get("scheduling", {}), candidate.gang_seconds)
    warnings = [
        *check_job_parts(sent["job_spec"]),
        *unknown_enum_numbers(types.CustomJob.pb(request.custom_job).job_spec, "job_spec"),
        *check_placement(sent["job_spec"], warn_only=candidate.validate_hardware == "warn"),
    ]
    if stands_outside_env({"custom_job": sent}, carried_values(candidate)):
        names = " or ".join(sorted(candidate.secret_env))
        warnings.append(
            f"The value of {names} stands in the job outside env, where more people may read it: "
            "set prefect_api_key_secret, or take it out."
        )
    return tuple(warnings)


def _of_dropped(key: str, identity: RunIdentity) -> str:
    ours = {*identity.labels, FLOW_RUN_LABEL, WORK_POOL_LABEL, ATTEMPT_LABEL}
    if label_key(key) in {label_key(name) for name in ours}:
        return f"label {key!r} is left out: the worker sets it, to find the job again."
    return f"label {key!r} is left out: it found no room on the job."


def _labels(
    identity: RunIdentity,
    given: Mapping[str, Any],
    attempt: int,
) -> tuple[dict[str, str], tuple[str, ...]]:
    return legal_labels(
        {str(key): value for key, value in given.items()},
        {
            **identity.labels,
            FLOW_RUN_LABEL: identity.flow_run_id,
            WORK_POOL_LABEL: identity.work_pool_id,
            ATTEMPT_LABEL: attempt,
        },
    )


def _has_vertex_retries(job_spec: Mapping[str, Any]) -> bool:
    """Whether Vertex AI may start the job's containers again: what the request itself will say."""
    scheduling = {"scheduling": job_spec.get("scheduling", {})}
    values = message_values(_CUSTOM_JOB_SPEC, scheduling, "job_spec")
    return not types.CustomJobSpec(values).scheduling.disable_retries
