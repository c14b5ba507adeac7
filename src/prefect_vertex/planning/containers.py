"""The containers of a job: its pools with the bootstrap, and the environment that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prefect_vertex.errors import MachineSpecError, PlanError
from prefect_vertex.planning import environment as environments
from prefect_vertex.planning.command import argument_list, wrapped_command
from prefect_vertex.planning.forms import check_image, check_pool_forms
from prefect_vertex.planning.gang import (
    COUNTED_POOLS,
    check_replica_environment,
    check_replicas_command,
    slot_environment,
)
from prefect_vertex.planning.machines import check_machine
from prefect_vertex.planning.packed import unpacking
from prefect_vertex.planning.pools import Pool, PoolLayout
from prefect_vertex.planning.replicas import POOLS_PATH
from prefect_vertex.planning.sizing import ResourcePlan, plan_machine
from prefect_vertex.planning.spec import Candidate, RunIdentity

_API = "PREFECT_API_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What every container of one attempt needs besides its pool's own spec.

    Attributes:
        identity: The run.
        candidate: Where, and with what.
        attempt: Attempt number, from 1.
        bootstrap: Source that `python3 -c` runs before the command.
        platform_env: Further variables that users cannot override.
        accelerators: AcceleratorType of the installed client, name → number.
        vertex_retries: Whether Vertex AI may start a container again.
        gang: Variables of the counted replicas that users cannot override.
        is_gang: Whether there are several of those, all behind the bootstrap.
    """

    identity: RunIdentity
    candidate: Candidate
    attempt: int
    bootstrap: str
    platform_env: Mapping[str, str]
    accelerators: Mapping[str, int]
    vertex_retries: bool
    gang: Mapping[str, str] = field(default_factory=dict)
    is_gang: bool = False

    @property
    def runs_flow(self) -> bool:
        """Whether the counted replicas but the first run the flow as flow runs of their own."""
        return self.is_gang and self.candidate.replicas == "flow"

    @property
    def platform(self) -> dict[str, str]:
        """The variables that users cannot override."""
        return {
            **self.platform_env,
            **environments.secret_environment(self.candidate.api_secrets),
            **environments.platform_environment(
                flow_run_id=self.identity.flow_run_id,
                attempt=self.attempt,
                code=self.candidate.code,
                checkpoint_dir=self.candidate.checkpoint_dir,
                setup_command=self.candidate.setup_command,
                vertex_retries=self.vertex_retries,
            ),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPool:
    """A WorkerPoolSpec that is sent as it is.

    Attributes:
        spec: In snake_case; empty for a pool that is skipped.
        warnings: What the user should know, one line each.
        packed: Names of the variables that travel packed.
        resources: What one of its replicas runs at once; None for a pool that is skipped.
    """

    spec: Pool
    warnings: tuple[str, ...] = ()
    packed: frozenset[str] = frozenset()
    resources: ResourcePlan | None = None


def finished_pool(layout: PoolLayout, index: int, attempt: Attempt) -> FinishedPool:
    """A pool with its machine judged, its env complete and its command behind the bootstrap.

    Raises:
        PlanError: A part of it cannot be sent.
    """
    if not layout.spec:
        return FinishedPool(spec={})
    path = f"{POOLS_PATH}[{index}]"
    machine, about_machine = _machine(layout, index, attempt)
    warnings = (*about_machine, *check_pool_forms(layout.spec, index))
    is_package = "python_package_spec" in layout.spec
    task = "python_package_spec" if is_package else "container_spec"
    body = dict(layout.spec.get(task, {}))
    command = argument_list(body.get("command"), f"{path}.{task}.command")
    args = argument_list(body.get("args"), f"{path}.{task}.args")
    resources = plan_machine(machine)
    env_path = f"{path}.{task}.env"
    common, own = _given_environment(body.get("env"), index, attempt, env_path)
    env = environments.merged_environment(
        own,
        common={**_usual_environment(layout, index, resources, attempt), **common},
        platform={**attempt.platform, **(attempt.gang if index < COUNTED_POOLS else {})},
        path=env_path,
        used=(*command, *args),
        packs=layout.runs_command,
    )
    body["env"] = list(env.entries)
    if layout.runs_command and _API in attempt.candidate.env:
        kept = {*(entry["name"] for entry in env.entries), *env.packed}
        if _API not in kept:
            warnings += (f"{path} has no {_API} in env: its code cannot reach the Prefect API.",)
    if not is_package:
        check_image(body.get("image_uri"), f"{path}.container_spec.image_uri")
        if layout.runs_command:
            command = command or _usual_command(attempt, path)
            if attempt.runs_flow and index < COUNTED_POOLS:
                check_replicas_command([*command, *args], f"{path}.container_spec")
            command = _behind_bootstrap(command, attempt, env.parts)
        body = {**body, "command": command, "args": args}
    elif index == 0:
        warnings += (
            f"{path} runs a Python package, not the bootstrap: the flow runs only if it does.",
        )
    return FinishedPool(
        spec={**layout.spec, "machine_spec": machine, task: body},
        warnings=(*warnings, *env.warnings),
        packed=env.packed,
        resources=resources,
    )


def _given_environment(
    drafted: object, index: int, attempt: Attempt, path: str
) -> tuple[dict[str, str], list[environments.Entry]]:
    """What the user set: for every pool, and for this one, of which a replica can begin with all.

    Raises:
        PlanError: It is no env, or a replica cannot.
    """
    common, own = environments.split_entries(drafted, attempt.candidate.env, path)
    if index < COUNTED_POOLS:
        check_replica_environment(common, "env", gang=attempt.is_gang)
        written = {entry["name"]: entry["value"] for entry in own if entry["value"] is not None}
        check_replica_environment(written, path, gang=attempt.is_gang, expands=True)
    return common, own


def _machine(
    layout: PoolLayout, index: int, attempt: Attempt
) -> tuple[dict[str, object], tuple[str, ...]]:
    """The pool's machine, judged; what is said of any but the first names its pool."""
    try:
        machine, warnings = check_machine(
            layout.spec.get("machine_spec", {}),
            attempt.accelerators,
            warn_only=attempt.candidate.validate_hardware == "warn",
        )
    except MachineSpecError as error:
        if not index:
            raise
        raise MachineSpecError(
            f"{POOLS_PATH}[{index}]: {error.message}", variable=error.variable, hint=error.hint
        ) from error
    if index:
        warnings = tuple(f"{POOLS_PATH}[{index}]: {line}" for line in warnings)
    return machine, warnings


def _behind_bootstrap(command: Sequence[str], attempt: Attempt, parts: int) -> list[str]:
    return wrapped_command(
        command,
        python_command=attempt.candidate.python_command,
        bootstrap=attempt.bootstrap,
        prelude=unpacking(parts),
    )


def _usual_command(attempt: Attempt, path: str) -> list[str]:
    """The run's own command, where a patch has left none; without any nothing could run."""
    if not attempt.candidate.command:
        raise PlanError(
            f"command is not set, and {path}.container_spec has none.",
            variable="command",
            hint="Leave command out for the usual one, `prefect flow-run execute`.",
        )
    return list(attempt.candidate.command)


def _usual_environment(
    layout: PoolLayout, index: int, resources: ResourcePlan, attempt: Attempt
) -> dict[str, str]:
    """What the container reads unless the user says otherwise."""
    usual: dict[str, str] = {}
    if layout.runs_command and index < COUNTED_POOLS:
        usual |= slot_environment(resources, pins=attempt.runs_flow)
    if index == 0:
        usual |= environments.primary_environment(vertex_retries=attempt.vertex_retries)
    return usual
