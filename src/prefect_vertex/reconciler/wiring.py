"""Surroundings: the real adapters, wired for one worker process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool

from prefect_vertex.delivery.packing import packed_bootstrap
from prefect_vertex.errors import ServiceError
from prefect_vertex.planning.launches import LaunchFacts
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import RunSpec, Target
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.faults import log_fault
from prefect_vertex.reconciler.home import Home
from prefect_vertex.reconciler.ports import Figures, World
from prefect_vertex.reconciler.prices import read_prices
from prefect_vertex.reconciler.quotas import within_quotas
from prefect_vertex.runs.journal import PrefectJournal
from prefect_vertex.runs.pages import PrefectPages
from prefect_vertex.runs.prefect import PrefectFlowRuns
from prefect_vertex.runs.telling import Teller
from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import VertexJobConfiguration
from prefect_vertex.template.secrets import about_plain_keys
from prefect_vertex.vertex.gateway import JobGateway
from prefect_vertex.vertex.gateways import Gateways
from prefect_vertex.vertex.objects import GcsObjects
from prefect_vertex.vertex.rest import GoogleRest

logger = logging.getLogger(__name__)


class Employer(Protocol):
    """As much of the worker as the adapters need."""

    name: str

    @property
    def work_pool(self) -> WorkPool:
        """The pool, as last synced."""
        ...

    @property
    def work_pool_id(self) -> str:
        """Its id, empty before the first sync."""
        ...

    def take_slot(self, flow_run_id: str) -> bool:
        """Count an adopted run in the worker's limit."""
        ...

    def free_slot(self, flow_run_id: str) -> None:
        """Count it no more."""
        ...

    def is_submitting(self, flow_run_id: str) -> bool:
        """Whether this worker is about to submit the run, or has it under way."""
        ...


class Surroundings:
    """Gateways, the Prefect port and the pool's home, for one worker.

    Args:
        worker: Whose.
        client: A Prefect client of its own, entered.
        settings: The worker process's.
        instance: This process.
    """

    def __init__(
        self,
        worker: Employer,
        client: PrefectClient,
        settings: VertexSettings,
        *,
        instance: str,
    ) -> None:
        self._worker = worker
        self._client = client
        self._settings = settings
        self._instance = instance
        self._warned_of_plain_keys = False
        self.gateways = Gateways(
            submissions_per_minute=settings.submissions_per_minute,
            reads_per_minute=settings.reads_per_minute,
        )
        self._home = Home(client, self.gateways, settings.extra_locations)

    def world(self) -> World:
        """What the reconciler is given."""
        settings = self._settings
        return World(
            runs=PrefectFlowRuns(
                self._client,
                self._worker.work_pool.name,
                lease_seconds=settings.lease_seconds,
                teller=Teller(
                    pool_name=self._worker.work_pool.name,
                    pool_id=self._worker.work_pool_id,
                    worker_name=self._worker.name,
                ),
            ),
            gateways=self.gateways,
            pool_id=self._worker.work_pool_id,
            worker_name=self._worker.name,
            instance=self._instance,
            home=lambda: self._home.targets,
            log_source=self.gateways.logs,
            journal=PrefectJournal(self._client),
            pages=PrefectPages(self._client),
            objects=GcsObjects(GoogleRest(self.gateways.credentials)),
            prices=read_prices(settings.prices),
            has_console=not self.gateways.is_emulated,
            slots=_WorkerSlots(self._worker),
            figures=Figures(
                tick_seconds=settings.tick_seconds,
                reads_per_minute=settings.reads_per_minute,
                log_poll_seconds=settings.log_poll_seconds,
                sweep_seconds=settings.sweep_seconds,
                lease_seconds=settings.lease_seconds,
                requeue_grace_seconds=settings.requeue_grace_seconds,
                unannounced_seconds=settings.unannounced_seconds,
            ),
        )

    @property
    def create_budget_seconds(self) -> float:
        """How long an outage may last that costs no run."""
        return self._settings.create_budget_seconds

    async def assignment(self, run_id: str, configuration: VertexJobConfiguration) -> Assignment:
        """What a run asks for, judged before anything is created.

        Raises:
            PlanError: A job variable that cannot lead to a job.
            ServiceError: The credentials are missing or refused.
        """
        if configuration.fault is not None:
            raise configuration.fault
        identities: dict[str, tuple[str, str]] = {}
        for one in configuration.rendered:
            with one.judging():
                credentials = one.credential_values()
            key = self.gateways.register(credentials)
            identity = await self.gateways.identity(credentials)
            identities[key] = (identity.project, identity.service_account_email)
        spec = configuration.run_spec(identities=identities)
        self._warn_of_plain_keys(spec)
        assignment = Assignment(
            run_id=run_id,
            spec=spec,
            policy=configuration.run_policy(),
            capacity=configuration.capacity_policy(),
            bootstrap=packed_bootstrap(),
            warnings=configuration.warnings,
            facts=_facts_of(configuration),
        )
        plans = []
        for one, candidate in zip(configuration.rendered, spec.candidates, strict=True):
            # A request that cannot be written is refused here, not minutes later.
            with one.judging():
                plans.append(assignment.plan(candidate, 1))
        assignment = self._with_policies(assignment, configuration, plans)
        judges = [
            index for index, each in enumerate(configuration.rendered) if each.preflight_quota
        ]
        return await within_quotas(assignment, plans, self.gateways.quotas, judges=judges)

    def _with_policies(
        self,
        assignment: Assignment,
        configuration: VertexJobConfiguration,
        plans: Sequence[JobPlan],
    ) -> Assignment:
        """The same assignment with the patience of each candidate."""
        policies = tuple(
            replace(
                configuration.run_policy(each.candidate.index),
                # As it is sent: a patch may have changed both.
                timeout_seconds=each.timeout_seconds,
                spot=each.is_spot,
                create_budget_seconds=self._settings.create_budget_seconds,
                create_settle_seconds=self._settings.create_settle_seconds,
            )
            for each in plans
        )
        return replace(assignment, policy=policies[0], policies=policies)

    def _warn_of_plain_keys(self, spec: RunSpec) -> None:
        warning = about_plain_keys(each.secret_env for each in spec.candidates)
        if warning and not self._warned_of_plain_keys:
            self._warned_of_plain_keys = True
            logger.warning("%s", warning)

    def gateway_for_name(
        self,
        name: ResourceName,
        configuration: VertexJobConfiguration,
    ) -> JobGateway:
        """The gateway of the place that a job's own name gives, whatever the template says."""
        key = self.gateways.register(configuration.credential_values())
        return self.gateways.for_target(Target(name.project, name.location, key))

    async def learn_home(self) -> None:
        """Read where the pool's jobs may be: its template, its deployments, the setting."""
        await self._home.learn(self._worker.work_pool)

    @property
    def unlearned(self) -> tuple[ServiceError, ...]:
        """Why the pool's home is not all known, such as that there are no credentials."""
        return self._home.unlearned

    async def aclose(self) -> None:
        """Close the channels."""
        await self.gateways.aclose()


def _facts_of(configuration: VertexJobConfiguration) -> LaunchFacts | None:
    try:
        return configuration.launch_facts()
    except Exception as error:  # noqa: BLE001 - a record must not cost a run: there is none then
        text = "A flow run gets no launch record: what it would say could not be read."
        log_fault(logger, error, text)
        return None


class _WorkerSlots:
    """The worker's `--limit`."""

    def __init__(self, worker: Employer) -> None:
        self._worker = worker

    def take(self, run_id: str) -> bool:
        return self._worker.take_slot(run_id)

    def free(self, run_id: str) -> None:
        self._worker.free_slot(run_id)

    def is_submitting(self, run_id: str) -> bool:
        return self._worker.is_submitting(run_id)
