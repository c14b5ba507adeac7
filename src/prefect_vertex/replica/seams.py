"""Every private name of Prefect's that the replicas lean on, in one place.

Each was read and tried in Prefect 3.9.1; tests/architecture/test_replica_seams.py fails when one of
them moves.  The leader runs Prefect's own `prefect flow-run execute`, so that what SIGTERM does
there stays Prefect's; a follower uses the same executor without the command around it, because the
command refuses a run without a deployment and would reschedule it.  Between either of them and the
engine stands Prefect's workspace supervisor, in which two functions are exchanged: where the
deployment comes from (for a follower from the leader's run), and the engine's command (ours, which
wraps the flow's function).  The runs around a call are found by what Prefect's contexts remember.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect_vertex.replica.visits import Around

SUPERVISOR = "prefect_vertex.replica.supervisor"
ENGINE = "prefect_vertex.replica.engine"

SEAMS: tuple[str, ...] = (
    "prefect.cli.flow_run:WorkspaceResolvingEngineCommandStarter",
    "prefect.cli.flow_run:execute",
    "prefect.flow_engine:_load_flow_from_runtime_entrypoint",
    "prefect.flow_engine:_main",
    "prefect.runner._control_channel:ControlSignalStatus",
    "prefect.runner._flow_run_executor:FlowRunExecutorContext",
    "prefect.runner._starter_engine:EngineCommandStarter",
    "prefect.runner._workspace_resolver:prepare_workspace",
    "prefect.runner._workspace_runtime:WorkspaceSupervisorConfig",
    "prefect.runner._workspace_runtime:write_private_model",
    "prefect.runner._workspace_starter:WorkspaceResolvingEngineCommandStarter",
    "prefect.runner._workspace_supervisor:_hook_command",
    "prefect.runner._workspace_supervisor:_workspace_command",
    "prefect.runner._workspace_supervisor:main",
    "prefect.runner._workspace_supervisor:prepare_workspace_for_flow_run",
)
"""Module and name; the test looks for each in the installed Prefect."""

STARTER_ATTRIBUTES: tuple[str, ...] = (
    "_config_path",
    "_control_channel",
    "_deployment_name",
    "_environment",
    "_heartbeat_seconds",
    "_manifest_path",
    "_source_cwd",
    "_stream_output",
    "_workspace_root",
)

Loader = Callable[[str], Any]


def bootstrap_path() -> str:
    """Prefect's script that runs an engine or hooks in a prepared workspace."""
    from prefect.runner import _workspace_supervisor

    return str(Path(_workspace_supervisor.__file__).with_name("_workspace_runtime_bootstrap.py"))


def replica_starter() -> type[Any]:
    """Prefect's workspace starter, but with our supervisor in between."""
    import anyio.abc
    from prefect.runner._process_manager import ProcessHandle
    from prefect.runner._starter_engine import EngineCommandStarter
    from prefect.runner._workspace_runtime import WorkspaceSupervisorConfig, write_private_model
    from prefect.runner._workspace_starter import WorkspaceResolvingEngineCommandStarter
    from prefect.utilities.processutils import command_to_string, get_sys_executable

    class ReplicaStarter(WorkspaceResolvingEngineCommandStarter):
        """Starts a flow run's process through `prefect_vertex.replica.supervisor`."""

        async def start(
            self,
            flow_run: Any,
            task_status: anyio.abc.TaskStatus[ProcessHandle] = anyio.TASK_STATUS_IGNORED,
        ) -> None:
            config = WorkspaceSupervisorConfig(
                flow_run_id=flow_run.id,
                workspace_root=self._workspace_root,
                manifest_path=self._manifest_path,
            )
            write_private_model(self._config_path, config)
            starter = EngineCommandStarter(
                command=command_to_string(
                    [get_sys_executable(), "-m", SUPERVISOR, str(self._config_path)]
                ),
                cwd=self._source_cwd,
                env=self._environment,
                stream_output=self._stream_output,
                heartbeat_seconds=self._heartbeat_seconds,
                deployment_name=self._deployment_name,
                control_channel=self._control_channel,
                isolate_process_group=True,
                env_overrides_settings=True,
            )
            await starter.start(flow_run, task_status=task_status)

    return ReplicaStarter


async def execute_as_prefect_does(run_id: UUID) -> int:
    """Run `prefect flow-run execute` in this process, with our starter; its exit code."""
    module: Any = importlib.import_module("prefect.cli.flow_run")
    theirs = module.WorkspaceResolvingEngineCommandStarter
    module.WorkspaceResolvingEngineCommandStarter = replica_starter()
    try:
        await module.execute(run_id)
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        module.WorkspaceResolvingEngineCommandStarter = theirs
    return 0


def executor_context() -> Any:
    """What Prefect executes a single flow run in."""
    from prefect.runner._flow_run_executor import FlowRunExecutorContext

    return FlowRunExecutorContext()


async def tell_engine_to_leave_the_state(context: Any, run_id: UUID) -> tuple[bool, bool]:
    """Before the engine is killed: has it acknowledged, and has it reported an end already."""
    from prefect.runner._control_channel import ControlSignalStatus

    status = await context.control_channel.signal(run_id, "relinquish")
    return (
        status is ControlSignalStatus.ACKNOWLEDGED,
        status is ControlSignalStatus.ALREADY_CONCLUDED,
    )


def supervise(arguments: list[str], read_deployment: Callable[[Any], Awaitable[Any]]) -> int:
    """Run Prefect's workspace supervisor with our two functions in it.

    Args:
        arguments: Its own.
        read_deployment: From a client to the deployment that brings the code.
    """
    from prefect.client.orchestration import get_client
    from prefect.runner._workspace_resolver import PreparedWorkspace, prepare_workspace

    supervisor: Any = importlib.import_module("prefect.runner._workspace_supervisor")

    async def prepare(flow_run_id: UUID, workspace_root: Path) -> PreparedWorkspace:
        async with get_client() as client:
            run = await client.read_flow_run(flow_run_id)
            deployment = await read_deployment(client)
            return await prepare_workspace(client, run, deployment, workspace_root)

    theirs = supervisor._workspace_command  # noqa: SLF001 - the seam

    def command(
        workspace: PreparedWorkspace,
        explicit_command: str | None,
        *,
        environment: Mapping[str, str],
    ) -> str:
        selected = theirs(workspace, explicit_command, environment=environment)
        return engine_command(selected, workspace)

    supervisor.prepare_workspace_for_flow_run = prepare
    supervisor._workspace_command = command  # noqa: SLF001 - the seam
    code: int = supervisor.main(arguments)
    return code


def engine_command(theirs: str | None, workspace: Any) -> str:
    """The command of our engine in a prepared workspace.

    Prefect's own script and the word `engine` stand behind ours, for by them Prefect finds the
    command for hooks.  Where Prefect would use `uv run`, it stays in front.
    """
    from prefect.utilities.processutils import (
        command_from_string,
        command_to_string,
        get_sys_executable,
    )

    script = bootstrap_path()
    python = [get_sys_executable()]
    if theirs is not None:
        words = command_from_string(theirs)
        python = [*words[: words.index(script)], "python"]
    return command_to_string(
        [*python, "-m", ENGINE, script, "engine", workspace.runtime_entrypoint]
    )


def run_engine(arguments: list[str], wrap: Callable[[Any], Any]) -> None:
    """Run Prefect's script (engine or hooks) in this process; a flow that it loads is wrapped.

    Args:
        arguments: The script's path and its own arguments.
        wrap: From the flow to the flow that is run.
    """
    import runpy

    import prefect.flow_engine as engine

    load: Loader = engine._load_flow_from_runtime_entrypoint  # noqa: SLF001 - the seam
    engine._load_flow_from_runtime_entrypoint = lambda entrypoint: wrap(load(entrypoint))  # noqa: SLF001 - the seam
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def runs_around() -> list[Around]:
    """The flow and task runs that the caller is in, innermost first.

    Empty outside of runs, and where Prefect is not loaded at all.
    """
    context = sys.modules.get("prefect.context")
    if context is None:
        return []
    tasks = list(_entered(context.TaskRunContext))
    flows = [each for each in _entered(context.FlowRunContext) if each.flow_run]
    around: list[Around] = []
    for place, flow in enumerate(flows):
        around += [_task(each, flow) for each in tasks if _is_in(each, flow)]
        outer = next(iter(flows[place + 1 :]), None)
        in_task = outer is not None and any(_is_in(each, outer) for each in tasks)
        around.append(_flow(flow, is_called_by_task=in_task))
    around = around or [_task(each, None) for each in tasks]  # a task outside of any flow
    # Prefect enters a task run's context more than once.
    return list({run.run_id: run for run in around}.values())


def _is_in(task: Any, flow: Any) -> bool:
    return bool(task.task_run.flow_run_id == flow.flow_run.id)


def _flow(context: Any, *, is_called_by_task: bool) -> Around:
    """A subflow's parent task run is the same in each try, unless a task has called the subflow."""
    run = context.flow_run
    call = "" if is_called_by_task else str(run.parent_task_run_id or "")
    may_be_skipped = bool(call and context.persist_result)
    return Around(str(run.id), run.run_count, context.flow.name, call, may_be_skipped)


def _task(context: Any, flow: Any) -> Around:
    """Prefect knows a call of a task again by its cache key, and only if it keeps the result.

    The run's own dynamic key is a random one.
    """
    run, task = context.task_run, context.task
    call = _cache_key(context, flow) if context.persist_result else ""
    may_be_skipped = bool(call or (context.persist_result and task.result_storage_key))
    return Around(str(run.id), run.run_count, task.task_key, call, may_be_skipped)


def _cache_key(context: Any, flow: Any) -> str:
    policy = context.task.cache_policy
    if not hasattr(policy, "compute_key"):
        return ""
    try:
        key = policy.compute_key(
            task_ctx=context,
            inputs=context.parameters or {},
            flow_parameters=(flow.parameters if flow else None) or {},
        )
    except Exception:  # noqa: BLE001 - where there is none, Prefect keeps no result either
        return ""
    return str(key or "")


def _entered(kind: Any) -> Iterator[Any]:
    """The contexts of a kind that are entered, the innermost first."""
    context = kind.get()
    while context is not None:
        yield context
        token = context._token  # noqa: SLF001 - the seam
        outer = token.old_value if token is not None else None
        context = outer if isinstance(outer, kind) else None
