"""Site: a pool or a deployment as Prefect has it, with what its jobs would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.sorting import DeploymentSort

from prefect_vertex.cli.doctor.place import Place, place_of
from prefect_vertex.cli.plan import WORKER_NAME, about_meetings, planned
from prefect_vertex.cli.subject import Subject, WithNobody, for_deployment, for_pool
from prefect_vertex.errors import PlanError, PrefectVertexError
from prefect_vertex.template import CredentialValues, VertexJobConfiguration
from prefect_vertex.template.secrets import about_plain_keys

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from prefect_vertex.planning.plan import JobPlan

_STAND_INS: Final = {"region": "us-central1", "image": "image-of-the-deployments:1"}
"""What is planned with where a pool leaves a variable to its deployments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is checked.

    Attributes:
        subject: The pool or the deployment.
        credentials: Of the candidates, each once; the machine's own where there are none.
        plans: One for each candidate; empty if there can be none, or nobody knows where they run.
        places: What each of them needs.
        fault: Why there is no plan; None if there is.
        left: Names of the variables that the pool leaves to its deployments.
        example: One of those, as FLOW/NAME; empty where nothing is left to them, or none exists.
        warnings: What a run's owner would be told.
        reads_quotas: Whether the worker reads them before a create.
        streams_output: Whether it brings jobs' log lines into Prefect.
    """

    subject: Subject
    credentials: Sequence[CredentialValues]
    plans: Sequence[JobPlan] = ()
    places: Sequence[Place] = ()
    fault: PrefectVertexError | None = None
    left: Sequence[str] = ()
    example: str = ""
    warnings: Sequence[str] = field(default_factory=tuple)
    reads_quotas: bool = False
    streams_output: bool = False


async def read_subject(client: PrefectClient, pool: str, deployment: str) -> Subject:
    """The pool, or the deployment and its pool.

    Raises:
        PlanError: There is no such thing.
    """
    if deployment:
        return await for_deployment(client, deployment, {})
    return await for_pool(client, pool, {})


async def configured(client: PrefectClient, subject: Subject) -> VertexJobConfiguration:
    """The job variables that a run would have, rendered as the worker renders them."""
    return await _resolve(client, subject, {})


async def site_of(
    client: PrefectClient,
    subject: Subject,
    configuration: VertexJobConfiguration,
    known: Mapping[str, tuple[str, str]],
) -> Site:
    """Plan what the worker would submit.

    Args:
        client: Of the Prefect API.
        subject: What for.
        configuration: Its own.
        known: Project and service account by the key of credentials, where they were loaded.
    """
    given: dict[str, str] = {}
    while True:
        try:
            plans = planned(configuration, known)
            break
        except PrefectVertexError as error:
            left = "" if subject.deployment else _left_unset(error)
            if left and left not in given:
                given[left] = _STAND_INS[left]
                configuration = await _resolve(client, subject, given)
                continue
            if "region" not in given or given["region"] not in str(error):
                return Site(subject=subject, credentials=credentials_of(configuration), fault=error)
            # It is about the place, which is none of the pool's.
            plans = []
            break
    if "region" in given:
        # What stands in would be asked about, and is nowhere any job runs.
        plans = []
    about_keys = about_plain_keys(each.candidate.secret_env for each in plans)
    lines = [
        *configuration.warnings,
        *(line for each in plans for line in each.warnings),
        *about_meetings(plans),
    ]
    return Site(
        subject=subject,
        credentials=credentials_of(configuration),
        plans=plans,
        places=[
            place_of(plan, rendered.staging_bucket)
            for plan, rendered in zip(plans, configuration.rendered, strict=bool(plans))
        ],
        left=tuple(given),
        example=await _a_deployment(client, subject) if given else "",
        warnings=tuple(dict.fromkeys([*lines, *([about_keys] if about_keys else [])])),
        reads_quotas=any(each.preflight_quota for each in configuration.rendered),
        streams_output=any(each.stream_output for each in configuration.rendered),
    )


def credentials_of(configuration: VertexJobConfiguration) -> list[CredentialValues]:
    """The candidates' credentials, each once; those that cannot be read are told elsewhere."""
    if configuration.fault is not None:
        return [CredentialValues()]
    found: dict[str, CredentialValues] = {}
    for each in configuration.rendered:
        try:
            values = each.credential_values()
        except PlanError:
            continue
        found.setdefault(values.key, values)
    return list(found.values())


def _left_unset(error: PrefectVertexError) -> str:
    """The variable whose absence is all that an error says; empty: it says something else."""
    variable = error.variable if isinstance(error, PlanError) else ""
    is_unset = variable in _STAND_INS and f"{variable} is not set" in error.message
    return variable if is_unset else ""


async def _a_deployment(client: PrefectClient, subject: Subject) -> str:
    """The newest deployment of the pool, as FLOW/NAME; empty where there is none."""
    found = await client.read_deployments(
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[subject.work_pool.name])),
        sort=DeploymentSort.UPDATED_DESC,
        limit=1,
    )
    if not found:
        return ""
    return f"{(await client.read_flow(found[0].flow_id)).name}/{found[0].name}"


async def _resolve(
    client: PrefectClient, subject: Subject, given: Mapping[str, str]
) -> VertexJobConfiguration:
    run = subject.flow_run
    variables = {**(run.job_variables or {}), **given}
    return await VertexJobConfiguration.resolve_for_flow_run(
        run.model_copy(update={"job_variables": variables}),
        client=WithNobody(client),  # type: ignore[arg-type] # as much of it as is used
        work_pool=subject.work_pool,
        worker_name=WORKER_NAME,
        deployment=subject.deployment,
    )
