"""VertexJobConfiguration: one run's job variables, rendered; it becomes a RunSpec and a RunPolicy.

Prefect resolves it inside its own code, where an exception is a traceback in the worker's log and
a guess in the run's state. So a mistake of the user's is not raised there: it is kept in `fault`,
and `run_spec` raises it where the worker can say it in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self
from uuid import UUID

from pydantic import PrivateAttr

from prefect_vertex.capacity.policy import CapacityPolicy, parse_capacity
from prefect_vertex.errors import PlanError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.credentials import CredentialValues, read_credentials
from prefect_vertex.planning.launches import LaunchFacts
from prefect_vertex.planning.masking import hiding, masked_lines
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec
from prefect_vertex.template.building import (
    Given,
    build_candidate,
    candidate_policy,
    candidate_warnings,
)
from prefect_vertex.template.candidates import check_persistent_resources
from prefect_vertex.template.facts import Origin, launch_facts
from prefect_vertex.template.job import about_waits
from prefect_vertex.template.patience import patiently
from prefect_vertex.template.prefect_settings import kept_back
from prefect_vertex.template.render import about_clear_key, said_twice, set_variables
from prefect_vertex.template.rendered import RenderedTemplate

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse


class VertexJobConfiguration(RenderedTemplate):
    """A rendered base job template, and the flow run that it is for."""

    _fault: PlanError | None = PrivateAttr(default=None)
    _given: Given | None = PrivateAttr(default=None)
    _identity: RunIdentity | None = PrivateAttr(default=None)
    _origin: Origin | None = PrivateAttr(default=None)

    @property
    def fault(self) -> PlanError | None:
        """The user's mistake that this configuration stands in for; None if there is none."""
        return self._fault

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the job variables, one line each."""
        found = [line for each in self.rendered for line in candidate_warnings(each)]
        limit = self.capacity_policy().max_wall_seconds
        found += about_waits(self.rendered, self.titles, limit)
        lines = masked_lines((*self._warnings, *found), self.hidden_anywhere)
        return tuple(dict.fromkeys(lines))

    def warn(self, *lines: str) -> None:
        """Add to what the user should know."""
        self._warnings += lines

    @property
    def given(self) -> Given:
        """What the template rendered, before a flow run's own values joined it."""
        return self._given or Given(dict(self.env), dict(self.labels), self.name, self.command)

    @classmethod
    async def resolve_for_flow_run(
        cls,
        flow_run: FlowRun,
        *,
        client: PrefectClient,
        work_pool: WorkPool,
        worker_name: str,
        worker_id: UUID | None = None,
        deployment: DeploymentResponse | None = None,
    ) -> Self:
        """Build the configuration of a flow run, from the pool, its deployment and itself.

        A mistake of the user's does not raise: the configuration that comes back has it in
        `fault` and can still name its flow run in events. None of the arguments is changed, so a
        second call gives an equal result. What fails here crashes the run, so a bad moment of the
        API's is waited out, for up to a minute each time.

        Raises:
            ObjectNotFound: The deployment or the flow is gone.
        """
        if deployment is None and (deployment_id := flow_run.deployment_id):
            deployment = await patiently(lambda: client.read_deployment(deployment_id))
        flow = await patiently(lambda: client.read_flow(flow_run.flow_id))
        given = deployment.job_variables if deployment else None
        try:
            configuration = await patiently(
                lambda: cls.from_template_and_values(
                    base_job_template=work_pool.base_job_template,
                    values=set_variables(given, flow_run.job_variables),
                    client=client,
                ),
            )
            configuration.warn(
                *said_twice(given, flow_run.job_variables),
                *about_clear_key(given, "deployment"),
                *about_clear_key(flow_run.job_variables, "flow run"),
            )
        except PlanError as fault:
            configuration = cls()
            configuration._fault = fault
        configuration.prepare_for_flow_run(
            flow_run=flow_run,
            deployment=deployment,
            flow=flow,
            work_pool=work_pool,
            worker_name=worker_name,
            worker_id=worker_id,
        )
        return configuration

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Add what depends on the flow run; the same again if it is called again.

        Prefect's own labels are set after the user's, so none of theirs can be overwritten. Its
        settings of this machine and of other processes stay here, unless `env` names them.
        """
        self._given = given = self.given
        self.env, self.labels = dict(given.env), {}
        self.name, self.command = given.name, given.command
        super().prepare_for_flow_run(
            flow_run,
            deployment,
            flow,
            work_pool,
            worker_name,
            worker_id=worker_id,
        )
        # Prefect's base configuration adds every setting of this process.
        self.env = {
            name: value
            for name, value in self.env.items()
            if name in given.env or name not in kept_back()
        }
        self.name = str(self.name)
        self._identity = RunIdentity(
            flow_run_id=str(flow_run.id),
            flow_run_name=flow_run.name,
            work_pool_id=str(work_pool.id) if work_pool else "",
            labels=dict(self.labels),
        )
        self.labels = {**given.labels, **self.labels}
        self._origin = Origin(flow_run, deployment, flow, work_pool)
        for other in self._others:
            other.prepare_for_flow_run(
                flow_run, deployment, flow, work_pool, worker_name, worker_id
            )

    def credential_values(self) -> CredentialValues:
        """What the `credentials` block holds.

        Raises:
            PlanError: It is no such block.
        """
        return read_credentials(self.credentials)

    def run_spec(
        self,
        default_project: str = "",
        service_account: str = "",
        *,
        identities: Mapping[str, tuple[str, str]] | None = None,
    ) -> RunSpec:
        """What this run asks for, with its candidates in order.

        Args:
            default_project: The project that the worker's own credentials name.
            service_account: The service account that the worker's own credentials name.
            identities: The same two by the key of the candidate's credentials, where they have
                been asked.

        Raises:
            PlanError: The fault, or a variable that is missing or wrong.
            RuntimeError: No flow run has been prepared for.
        """
        if self._fault is not None:
            raise self._fault
        if self._identity is None:
            raise RuntimeError("prepare_for_flow_run has not been called.")
        usual = (default_project, service_account)
        candidates: list[Candidate] = []
        for index, each in enumerate(self.rendered):
            with each.judging():
                key = each.credential_values().key
                project, account = (identities or {}).get(key, usual)
                candidates.append(
                    build_candidate(
                        each,
                        index=index,
                        flow_run_id=self._identity.flow_run_id,
                        project=project,
                        service_account=account,
                    )
                )
        with hiding(self.hidden_anywhere):
            check_persistent_resources(candidates)
        # One folder for the run, whichever candidate an attempt of it runs at.
        folder = candidates[0].checkpoint_dir
        return RunSpec(
            identity=self._identity,
            candidates=tuple(replace(each, checkpoint_dir=folder) for each in candidates),
        )

    def launch_facts(self) -> LaunchFacts | None:
        """What the launch record says of the run; None where no flow run was prepared for."""
        if self._origin is None:
            return None
        return launch_facts(self._origin, self.hidden_anywhere)

    def capacity_policy(self) -> CapacityPolicy:
        """How long the run looks for machines; the defaults where it cannot be read."""
        return CapacityPolicy() if self._fault is not None else parse_capacity(self.capacity)

    def run_policy(self, candidate: int = 0) -> RunPolicy:
        """How patient the worker is with this run while it is at that candidate.

        It never raises, because a run may live whose template is broken by now: what cannot be
        read has its default.
        """
        if self._fault is not None:
            return RunPolicy()
        one = self.rendered[candidate]
        return replace(candidate_policy(one), max_restarts=self.capacity_policy().max_restarts)
