"""RenderedTemplate: a base job template filled in with job variables, once for each candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from prefect.workers.base import BaseJobConfiguration
from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SkipValidation,
    ValidationError,
    model_validator,
)

from prefect_vertex.capacity.candidates import VariableSet, fill_region, naming
from prefect_vertex.capacity.policy import parse_capacity
from prefect_vertex.planning.durations import MAX_SECONDS
from prefect_vertex.planning.masking import hiding, masked, told_without
from prefect_vertex.template import resources
from prefect_vertex.template.candidates import placed, variable_sets, without_entries
from prefect_vertex.template.composed import without_marks
from prefect_vertex.template.declared import declared_secrets
from prefect_vertex.template.hidden import NotingClient, passwords_of, secret_texts
from prefect_vertex.template.job import JobFields, names_wait, waits
from prefect_vertex.template.names import check_names, explaining, without_effect
from prefect_vertex.template.render import (
    as_plan_error,
    check_texts,
    is_unset,
    renamed,
    set_variables,
)
from prefect_vertex.template.variables import VertexVariables

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
    from prefect.client.schemas.responses import DeploymentResponse

_Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
_Grace = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
_Hours = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RenderedTemplate(JobFields, BaseJobConfiguration):
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
        repr=False,
    )
    worker_count: int = Field(default=1, ge=1)
    maximum_run_time_hours: _Hours = 24.0
    replicas: Literal["flow", "command"] = "flow"
    gang_start: bool = True
    regions: list[str] = Field(default_factory=list)
    # Judged with the rest of the walk, in words that name the entry at fault.
    strategy: SkipValidation[str | list[str] | None] = None
    candidates: list[dict[str, Any]] = Field(default_factory=list, repr=False)
    capacity: dict[str, Any] = Field(default_factory=dict)
    preflight_quota: bool = False
    disable_retries: bool = True
    hardware: Literal["cpu", "gpu"] | None = None
    gpu_type: str | None = None
    validate_hardware: Literal["error", "warn"] = "error"
    staging_bucket: str | None = None
    code_uri: str | None = None
    code_sha256: str | None = None
    python_command: list[str] = Field(default=["python3"], min_length=1)
    setup_command: list[str] = Field(default_factory=list)
    prefect_api_key_secret: str | None = None
    provisioning_timeout_seconds: _Seconds | None = None
    start_grace_seconds: _Seconds = 900.0
    stall_timeout_seconds: _Seconds | None = None
    cancel_grace_seconds: _Grace = 60.0
    stream_output: bool = True
    job_watch_poll_interval: _Seconds | None = None

    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _title: str = PrivateAttr(default="")
    _idle: frozenset[str] = PrivateAttr(default=frozenset())
    _of_blocks: frozenset[str] = PrivateAttr(default=frozenset())
    _of_run: frozenset[str] = PrivateAttr(default=frozenset())
    _others: tuple[Self, ...] = PrivateAttr(default=())
    _others_wait: bool = PrivateAttr(default=False)

    def __init__(self, **values: Any) -> None:
        composed: set[str] = set()
        # In marks, what a secret itself holds is out of the region's reach.
        plain = without_marks(fill_region(values, values.get("region")), composed)
        # Of a field whatever it is, an address may hold a password.
        composed |= {*passwords_of(plain)}
        try:
            super().__init__(**plain)
        except ValidationError as error:
            if not composed:
                raise
            told = as_plan_error(error, type(self).model_fields)
            # Not chained: pydantic's error holds the values.
            raise told_without(told, composed) from None
        self._of_blocks = frozenset(composed)

    @property
    def title(self) -> str:
        """How messages name this candidate; empty where it is the only one."""
        return self._title

    @property
    def rendered(self) -> tuple[Self, ...]:
        """One configuration for each candidate, in order; this one is the first."""
        return (self, *self._others)

    @property
    def titles(self) -> tuple[str, ...]:
        """How messages name the candidates, in order; empty where there is only one."""
        return tuple(each.title for each in self.rendered)

    @property
    def hidden(self) -> frozenset[str]:
        """Texts that may never be shown, sent or not.

        Secrets of blocks and all that they went into, of Prefect's, and of the run's parameters.
        """
        places = (self.env, self.job_spec, self.worker_pools, self.job_spec_patch)
        return (self._of_blocks | self._of_run).union(*(secret_texts(each) for each in places))

    @property
    def hidden_anywhere(self) -> frozenset[str]:
        """What is hidden of any candidate."""
        return frozenset().union(*(each.hidden for each in self.rendered))

    @property
    def others_wait(self) -> bool:
        """Whether its `max_wait_duration`, if it has one, is meant for other candidates."""
        return self._others_wait

    def leave_waiting(self, overrides: Mapping[str, Any]) -> None:
        """Some candidate of its run waits, so a wait that its own entry does not name is theirs."""
        self._others_wait = not names_wait(overrides)

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Say of a mistake found inside which candidate has it, and whether the template does.

        No secret is told with it.
        """
        with hiding(self.hidden), naming(self._title), explaining(self._idle):
            yield

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, values: Any) -> Any:
        """Drop nulls and blank texts, wherever they come from, and write labels as text."""
        if not isinstance(values, Mapping):
            return values
        values = {key: value for key, value in values.items() if not is_unset(value)}
        if isinstance(values.get("region"), str):
            values["region"] = values["region"].strip()
        for name in ("env", "labels"):
            check_texts(values.get(name, {}), name)
        if "labels" in values:
            values["labels"] = {
                str(key): str(value) for key, value in values["labels"].items() if value is not None
            }
        if "capacity" in values:
            parse_capacity(values["capacity"])
        return values

    @classmethod
    async def from_template_and_values(
        cls,
        base_job_template: dict[str, Any],
        values: dict[str, Any],
        client: PrefectClient | None = None,
    ) -> Self:
        """Render a template; neither it nor the values are changed, and a null is unset.

        It is rendered once for each candidate; what comes back is the first, with the others in
        `rendered`.

        Raises:
            PlanError: A mistake of the user's: a value, a name, or a reference to what is missing.
        """
        with hiding({*passwords_of(values), *passwords_of(base_job_template)}):
            return await cls._several(base_job_template, set_variables(values), client)

    @classmethod
    async def _several(
        cls, base_job_template: dict[str, Any], values: dict[str, Any], client: PrefectClient | None
    ) -> Self:
        warnings = check_names(base_job_template, values, ours=VertexVariables.model_fields)
        variables = without_entries(base_job_template, values)
        plain: Self = await cls._render(base_job_template, variables, client)
        plain._idle = without_effect(base_job_template, variables)
        with hiding(plain.hidden), renamed(cls.model_fields):
            sets, found = variable_sets(base_job_template, values, plain)
        # What a candidate says may have been resolved before.
        known = plain._of_blocks
        several = [await cls._of_set(base_job_template, each, client, known) for each in sets]
        if any(waits(each) for each in several):
            for each, chosen in zip(several, sets, strict=True):
                each.leave_waiting(chosen.overrides)
        first: Self = several[0] if several else plain
        first._others = tuple(several[1:])
        first._warnings = (*warnings, *found)
        return first

    @classmethod
    async def _of_set(
        cls,
        template: dict[str, Any],
        chosen: VariableSet,
        client: PrefectClient | None,
        known: frozenset[str],
    ) -> Self:
        title = masked(chosen.title, known)
        variables = without_entries(template, chosen.variables)
        with hiding(known), naming(title):
            one: Self = await cls._render(placed(template, chosen.overrides), variables, client)
        one.strategy = one.strategy or None
        one._title = title
        one._idle = without_effect(template, variables)
        one._of_blocks |= known
        return one

    @classmethod
    async def _render(
        cls, template: dict[str, Any], values: dict[str, Any], client: PrefectClient | None
    ) -> Self:
        noting = NotingClient(client) if client is not None else None
        secrets = noting.secrets if noting is not None else set()
        with hiding(secrets), renamed(cls.model_fields):
            one: Self = await super().from_template_and_values(
                base_job_template=template,
                values=values,
                client=noting,  # type: ignore[arg-type] # as much of a client as is used
            )
        one._of_blocks |= secrets
        return one

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Add what depends on the flow run, and hide what its flow declares as secret."""
        super().prepare_for_flow_run(
            flow_run, deployment, flow, work_pool, worker_name, worker_id=worker_id
        )
        schema = deployment.parameter_openapi_schema if deployment is not None else None
        parameters = flow_run.parameters or {}
        self._of_run = declared_secrets(parameters, schema).union(secret_texts(parameters))
