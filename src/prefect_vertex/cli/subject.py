"""What `prefect-vertex plan` plans for: a pool, a deployment or a flow run, read from Prefect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.client.schemas.objects import Flow, FlowRun
from prefect.exceptions import ObjectNotFound

from prefect_vertex.errors import PlanError
from prefect_vertex.template.carried_over import OURS, PREFECT_GCP
from prefect_vertex.template.render import layered

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import WorkPool
    from prefect.client.schemas.responses import DeploymentResponse

NOBODY = UUID(int=0)
"""Stands for what does not exist yet: the flow run and, for a whole pool, the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is planned for, as Prefect has it."""

    what: str
    flow_run: FlowRun
    work_pool: WorkPool
    deployment: DeploymentResponse | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is said of a pool that was made for another kind of worker."""
        kind = self.work_pool.type
        if kind in {OURS, PREFECT_GCP}:
            return ()
        line = (
            f"work pool {self.work_pool.name!r} is of type {kind!r}: this worker takes its runs "
            f"only if started with --type {OURS}, and its own workers plan something else."
        )
        return (line,)


async def for_pool(client: PrefectClient, name: str, given: Mapping[str, Any]) -> Subject:
    """Any run of a work pool.

    Raises:
        PlanError: There is no such pool.
    """
    return Subject(
        what=f"work pool {name}",
        flow_run=FlowRun(id=NOBODY, name="plan", flow_id=NOBODY, job_variables=dict(given)),
        work_pool=await _read_pool(client, name),
    )


async def for_deployment(client: PrefectClient, text: str, given: Mapping[str, Any]) -> Subject:
    """Any run of a deployment, named FLOW/NAME or by its id.

    Raises:
        PlanError: There is no such deployment, or it has no work pool.
    """
    found = await _read_deployment(client, text)
    if not found.work_pool_name:
        raise PlanError(f"Deployment {text} has no work pool.", hint="Deploy it to one.")
    run = FlowRun(
        id=NOBODY,
        name="plan",
        flow_id=found.flow_id,
        deployment_id=found.id,
        job_variables=dict(given),
    )
    return Subject(
        what=f"deployment {text}",
        flow_run=run,
        work_pool=await _read_pool(client, found.work_pool_name),
        deployment=found,
    )


async def for_flow_run(client: PrefectClient, text: str, given: Mapping[str, Any]) -> Subject:
    """One flow run, by its id, with further job variables above its own.

    Raises:
        PlanError: There is no such run, or it is in no work pool.
    """
    run_id = _as_id(text)
    if run_id is None:
        raise PlanError(f"--flow-run {text!r} is not a flow run's id.")
    try:
        run = await client.read_flow_run(run_id)
    except ObjectNotFound as error:
        raise PlanError(f"There is no flow run {text}.") from error
    if not run.work_pool_name:
        raise PlanError(f"Flow run {text} is in no work pool.", hint="Deploy its flow to one.")
    variables = layered(run.job_variables or {}, given)
    return Subject(
        what=f"flow run {text}",
        flow_run=run.model_copy(update={"job_variables": variables}),
        work_pool=await _read_pool(client, run.work_pool_name),
    )


async def _read_pool(client: PrefectClient, name: str) -> WorkPool:
    try:
        return await client.read_work_pool(name)
    except ObjectNotFound as error:
        raise PlanError(
            f"There is no work pool {name!r}.",
            hint=f"Make it: prefect work-pool create {name} --type vertex-custom-job",
        ) from error


async def _read_deployment(client: PrefectClient, text: str) -> DeploymentResponse:
    found_id = _as_id(text)
    if found_id is None and "/" not in text:
        raise PlanError(f"--deployment {text!r} is neither FLOW/NAME nor a deployment's id.")
    try:
        if found_id is not None:
            return await client.read_deployment(found_id)
        return await client.read_deployment_by_name(text)
    except ObjectNotFound as error:
        raise PlanError(
            f"There is no deployment {text!r}.", hint="`prefect deployment ls` lists them."
        ) from error


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


class WithNobody:
    """A client that has the flow of a run which does not exist."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client

    async def read_flow(self, flow_id: UUID) -> Flow:
        """Read a flow, or make up nobody's."""
        if flow_id == NOBODY:
            return Flow(id=NOBODY, name="plan", labels={})
        return await self._client.read_flow(flow_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
