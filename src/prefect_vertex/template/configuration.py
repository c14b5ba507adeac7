"""VertexJobConfiguration: one run's job variables, rendered; it becomes a RunSpec and a RunPolicy.

Prefect resolves it inside its own code, where an exception is a traceback in the worker's log and
a guess in the run's state. So a mistake of the user's is not raised there: it is kept in `fault`,
and `run_spec` raises it where the worker can say it in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

import httpx
from prefect.exceptions import ObjectNotFound
from prefect.workers.base import BaseJobConfiguration
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from prefect_vertex.errors import PlanError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.command import argument_list
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec
from prefect_vertex.template import resources
from prefect_vertex.template.credentials import CredentialValues, read_credentials
from prefect_vertex.template.patience import patiently
from prefect_vertex.template.render import as_plan_error, check_names, set_variables
from prefect_vertex.template.secrets import secret_names

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Grace = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class _Given:
    """What the template rendered, before a flow run's own values joined it."""

    env: Mapping[str, str | None]
    labels: Mapping[str, str]
    name: str | None
    command: str | None


class VertexJobConfiguration(BaseJobConfiguration):
    """A rendered base job template; see `VertexVariables` for what each value means.

    `job_spec` is a CustomJobSpec in snake_case of which a user may edit any part. The two keys
    that prefect-gcp's templates have in it besides, `maximum_run_time_hours` and
    `service_account_name`, are taken too, so that its pools work unchanged.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    env: dict[str, str | None] = Field(
        default_factory=dict,
        title="Environment Variables",
        description="Environment variables of every container.",
        repr=False,
    )
    region: str | None = None
    project: str | None = None
    credentials: Any = Field(default=None, repr=False)
    job_spec: dict[str, Any] = Field(
        default_factory=dict,
        json_schema_extra={"template": resources.JOB_SPEC_TEMPLATE},
    )
    worker_count: int = Field(default=1, ge=1)
    maximum_run_time_hours: _Seconds = 24.0
    strategy: str | None = None
    disable_retries: bool = True
    validate_hardware: Literal["error", "warn"] = "error"
    staging_bucket: str | None = None
    code_uri: str | None = None
    code_sha256: str | None = None
    python_command: list[str] = Field(default=["python3"], min_length=1)
    setup_command: list[str] = Field(default_factory=list)
    provisioning_timeout_seconds: _Seconds | None = None
    start_grace_seconds: _Grace = 900.0
    cancel_grace_seconds: _Grace = 60.0
    job_watch_poll_interval: _Seconds | None = None

    _fault: PlanError | None = PrivateAttr(default=None)
    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _given: _Given | None = PrivateAttr(default=None)
    _identity: RunIdentity | None = PrivateAttr(default=None)

    @property
    def fault(self) -> PlanError | None:
        """The user's mistake that this configuration stands in for; None if there is none."""
        return self._fault

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the job variables, one line each."""
        return self._warnings

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, values: Any) -> Any:
        """Drop nulls, wherever they come from, and write labels as text."""
        if not isinstance(values, Mapping):
            return values
        values = {key: value for key, value in values.items() if value is not None}
        for name in ("env", "labels"):
            if name in values and not isinstance(values[name], Mapping):
                raise PlanError(f"{name} is not a mapping of names to texts.", variable=name)
        if "labels" in values:
            values["labels"] = {
                str(key): str(value) for key, value in values["labels"].items() if value is not None
            }
        return values

    @classmethod
    async def from_template_and_values(
        cls,
        base_job_template: dict[str, Any],
        values: dict[str, Any],
        client: PrefectClient | None = None,
    ) -> Self:
        """Render a template; neither it nor the values are changed, and a null is unset.

        Raises:
            PlanError: A mistake of the user's: a value, a name, or a reference to what is missing.
        """
        try:
            values = set_variables(values)
            warnings = check_names(base_job_template, values)
            configuration: Self = await super().from_template_and_values(
                base_job_template=base_job_template,
                values=values,
                client=client,
            )
        except PlanError:
            raise
        except httpx.HTTPStatusError as error:
            # Anything else is the API's trouble, not the user's.
            if error.response.status_code != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            raise as_plan_error(error, cls.model_fields) from error
        except (ObjectNotFound, ValueError, TypeError, KeyError, AttributeError) as error:
            raise as_plan_error(error, cls.model_fields) from error
        configuration._warnings = warnings
        return configuration

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

        Prefect's own labels are set after the user's, so none of theirs can be overwritten.
        """
        given = self._given or _Given(dict(self.env), dict(self.labels), self.name, self.command)
        self._given = given
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
        self.name = str(self.name)
        self._identity = RunIdentity(
            flow_run_id=str(flow_run.id),
            flow_run_name=flow_run.name,
            work_pool_id=str(work_pool.id) if work_pool else "",
            labels=dict(self.labels),
        )
        self.labels = {**given.labels, **self.labels}

    def credential_values(self) -> CredentialValues:
        """What the `credentials` block holds.

        Raises:
            PlanError: It is no such block.
        """
        return read_credentials(self.credentials)

    def run_spec(self, default_project: str = "", service_account: str = "") -> RunSpec:
        """What this run asks for.

        Args:
            default_project: The project that the worker's own credentials name.
            service_account: The service account that the worker's own credentials name.

        Raises:
            PlanError: The fault, or a variable that is missing or wrong.
            RuntimeError: No flow run has been prepared for.
        """
        if self._fault is not None:
            raise self._fault
        if self._identity is None or self._given is None:
            raise RuntimeError("prepare_for_flow_run has not been called.")
        credentials = self.credential_values()
        job_spec = resources.job_spec(
            self.job_spec,
            strategy=self.strategy,
            maximum_run_time_hours=self.maximum_run_time_hours,
            disable_retries=self.disable_retries,
            service_account=credentials.service_account or service_account,
        )
        candidate = Candidate(
            project=resources.project(self.project, credentials.project, default_project),
            location=resources.region(self.region),
            job_spec=job_spec,
            worker_count=self.worker_count,
            name=self.name or "",
            labels=dict(self._given.labels),
            env={name: value for name, value in self.env.items() if value is not None},
            command=tuple(argument_list(self.command, "command")),
            python_command=tuple(self.python_command),
            setup_command=tuple(self.setup_command),
            code=resources.code(self.code_uri, self.code_sha256),
            checkpoint_dir=resources.checkpoint_directory(
                job_spec,
                self.staging_bucket,
                self._identity.flow_run_id,
            ),
            credentials_key=credentials.key,
            validate_hardware=self.validate_hardware,
            secret_env=secret_names(self.env),
        )
        return RunSpec(identity=self._identity, candidates=(candidate,))

    def run_policy(self) -> RunPolicy:
        """How patient the worker is with this run.

        It never raises, because a run may live whose template is broken by now: what cannot be
        read has its default.
        """
        if self._fault is not None:
            return RunPolicy()
        timeout, strategy = resources.limits(
            self.job_spec,
            maximum_run_time_hours=self.maximum_run_time_hours,
            strategy=self.strategy,
        )
        return RunPolicy(
            provisioning_timeout_seconds=self.provisioning_timeout_seconds,
            start_grace_seconds=self.start_grace_seconds,
            cancel_grace_seconds=self.cancel_grace_seconds,
            timeout_seconds=timeout,
            poll_interval_seconds=self.job_watch_poll_interval,
            spot=strategy == "SPOT",
        )
