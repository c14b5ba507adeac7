"""Site: a pool or a deployment as Prefect has it, with what its jobs would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prefect_vertex.cli.doctor.place import Place, place_of
from prefect_vertex.cli.plan import WORKER_NAME, planned
from prefect_vertex.cli.subject import Subject, WithNobody, for_deployment, for_pool
from prefect_vertex.errors import PlanError, PrefectVertexError
from prefect_vertex.template import CredentialValues, VertexJobConfiguration
from prefect_vertex.template.secrets import about_plain_keys

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from prefect_vertex.planning.plan import JobPlan

STAND_IN = "image-of-the-deployments:1"
"""What is planned with where a pool leaves the image to its deployments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is checked.

    Attributes:
        subject: The pool or the deployment.
        credentials: Of the candidates, each once; the machine's own where there are none.
        plans: One for each candidate; empty if there can be none.
        places: What each of them needs.
        fault: Why there is no plan; None if there is.
        lacks_image: The pool leaves the image to its deployments.
        warnings: What a run's owner would be told.
        reads_quotas: Whether the worker reads them before a create.
        streams_output: Whether it brings jobs' log lines into Prefect.
    """

    subject: Subject
    credentials: Sequence[CredentialValues]
    plans: Sequence[JobPlan] = ()
    places: Sequence[Place] = ()
    fault: PrefectVertexError | None = None
    lacks_image: bool = False
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
    lacks_image = False
    try:
        plans = planned(configuration, known)
    except PrefectVertexError as error:
        fault = error
        if not isinstance(error, PlanError) or error.variable != "image" or subject.deployment:
            return Site(subject=subject, credentials=credentials_of(configuration), fault=fault)
        lacks_image = True
        configuration = await _resolve(client, subject, {"image": STAND_IN})
        try:
            plans = planned(configuration, known)
        except PrefectVertexError as second:
            return Site(subject=subject, credentials=credentials_of(configuration), fault=second)
    about_keys = about_plain_keys(each.candidate.secret_env for each in plans)
    lines = [*configuration.warnings, *(line for each in plans for line in each.warnings)]
    return Site(
        subject=subject,
        credentials=credentials_of(configuration),
        plans=plans,
        places=[
            place_of(plan, rendered.staging_bucket)
            for plan, rendered in zip(plans, configuration.rendered, strict=True)
        ],
        lacks_image=lacks_image,
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
