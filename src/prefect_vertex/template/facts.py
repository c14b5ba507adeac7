"""Facts: what a launch record says of a run besides its request, without its secrets."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from prefect_vertex._version import __version__
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.launches import LaunchFacts, digest_of
from prefect_vertex.template.declared import parameters_without_secrets
from prefect_vertex.template.hidden import without_secrets
from prefect_vertex.template.render import set_variables

if TYPE_CHECKING:
    from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse


def packages() -> dict[str, str]:
    """Versions of what writes a job, and of what runs it, on this machine."""
    found = {"prefect-vertex": __version__}
    with suppress(PackageNotFoundError):
        found["prefect"] = version("prefect")
    return found


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run comes from, as Prefect has it; None for what it has not, or nobody has read."""

    flow_run: FlowRun
    deployment: DeploymentResponse | None
    flow: Flow | None
    work_pool: WorkPool | None


def launch_facts(origin: Origin, hidden: Iterable[str]) -> LaunchFacts:
    """What of a run's own is kept.

    Args:
        origin: The run's.
        hidden: Texts that stand nowhere in what comes back.
    """
    flow_run, deployment = origin.flow_run, origin.deployment
    flow, work_pool = origin.flow, origin.work_pool
    secrets = frozenset(hidden)
    variables: dict[str, Any] = {}
    with suppress(PlanError):  # nothing is launched with such variables
        deployed = deployment.job_variables if deployment is not None else None
        variables = set_variables(deployed, flow_run.job_variables)
    schema = deployment.parameter_openapi_schema if deployment is not None else None
    given = flow_run.parameters or {}
    parameters, unjudged = parameters_without_secrets(given, schema, secrets)
    return LaunchFacts(
        flow_run_id=str(flow_run.id),
        flow_run_name=flow_run.name,
        flow_name=flow.name if flow is not None else "",
        deployment_id=str(deployment.id) if deployment is not None else "",
        deployment_name=deployment.name if deployment is not None else "",
        work_pool_name=work_pool.name if work_pool is not None else "",
        parameters=parameters,
        unjudged_parameters=unjudged,
        job_variables=without_secrets(variables, secrets),
        template_sha256=digest_of(work_pool.base_job_template) if work_pool is not None else "",
        packages=packages(),
    )
