"""The private names of Prefect that the replicas lean on, in the installed Prefect."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.cli import flow_run as flow_run_cli
from prefect.context import TagsContext
from prefect.runner import _workspace_runtime_bootstrap, _workspace_supervisor
from prefect.runner._starter_engine import EngineCommandStarter
from prefect.runner._workspace_resolver import prepare_workspace
from prefect.utilities.processutils import command_from_string, command_to_string

from prefect_vertex.replica.seams import (
    ENGINE,
    SEAMS,
    STARTER_ATTRIBUTES,
    bootstrap_path,
    engine_command,
    executor_context,
    replica_starter,
)


@pytest.mark.parametrize("name", SEAMS)
def test_prefect_still_has_the_name(name: str) -> None:
    module, _, attribute = name.partition(":")

    assert callable(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize("name", STARTER_ATTRIBUTES)
def test_prefect_s_starter_still_keeps_what_ours_reads(name: str, tmp_path: Path) -> None:
    starter = replica_starter()(workspace_root=tmp_path)
    try:
        assert hasattr(starter, name)
    finally:
        starter.close()


def test_prefect_s_command_still_makes_its_starter_from_what_ours_takes() -> None:
    """The leader's starter is exchanged by its name in the command's module."""
    source = inspect.getsource(flow_run_cli.execute)

    assert "starter = WorkspaceResolvingEngineCommandStarter(" in source
    assert {"workspace_root", "control_channel"} <= set(
        inspect.signature(replica_starter()).parameters
    )


def test_prefect_s_contexts_still_remember_the_one_that_they_were_entered_in() -> None:
    """By this the runs around a meeting are found."""
    with TagsContext(current_tags={"a"}) as outer, TagsContext(current_tags={"b"}) as inner:
        assert inner._token is not None
        assert inner._token.old_value is outer


def test_prefect_s_supervisor_still_calls_the_two_functions_by_their_names() -> None:
    source = inspect.getsource(_workspace_supervisor.supervise)

    assert "await prepare_workspace_for_flow_run(" in source
    assert "selected_command = _workspace_command(" in source
    assert list(inspect.signature(prepare_workspace).parameters) == [
        "client",
        "flow_run",
        "deployment",
        "workspace_root",
    ]


def test_prefect_s_engine_starter_still_takes_what_ours_gives() -> None:
    assert {
        "command",
        "cwd",
        "env",
        "stream_output",
        "heartbeat_seconds",
        "deployment_name",
        "control_channel",
        "isolate_process_group",
        "env_overrides_settings",
    } <= set(inspect.signature(EngineCommandStarter).parameters)


def test_prefect_s_script_still_runs_an_engine_in_the_process_that_runs_it() -> None:
    """The flow is loaded by the function that ours exchanges."""
    from prefect import flow_engine

    assert Path(bootstrap_path()).samefile(inspect.getfile(_workspace_runtime_bootstrap))
    assert 'flow_engine, "_main"' in inspect.getsource(_workspace_runtime_bootstrap._run_engine)
    assert "_load_flow_from_runtime_entrypoint(" in inspect.getsource(
        flow_engine._run_flow_from_runtime_entrypoint
    )
    assert "_run_flow_from_runtime_entrypoint(" in inspect.getsource(flow_engine._main)


@pytest.mark.parametrize("uses_uv", [False, True])
def test_prefect_finds_the_command_for_hooks_behind_ours(*, uses_uv: bool) -> None:
    """And `uv run` stays in front where Prefect would use it."""
    workspace: Any = SimpleNamespace(runtime_entrypoint="flow.py:main")
    front = ["uv", "run", "--project", "/code"]
    theirs = command_to_string([*front, bootstrap_path(), "engine", "flow.py:main"])
    command = command_from_string(engine_command(theirs if uses_uv else None, workspace))
    ours = ["-m", ENGINE, bootstrap_path()]

    assert command[-2:] == ["engine", "flow.py:main"]
    assert command[-5:-2] == ours
    assert (command[: len(front)] == front) is uses_uv
    assert _workspace_supervisor._hook_command(command) == [*command[:-2], "hook"]


@pytest.mark.anyio
async def test_the_executor_s_context_has_what_a_follower_uses() -> None:
    context = executor_context()

    assert list(inspect.signature(context.create_executor).parameters) == [
        "flow_run",
        "starter",
        "resolve_flow",
        "propose_submitting",
        "hook_runner",
    ]
    assert callable(context.call_after_exit)
    assert "relinquish" in inspect.getsource(
        importlib.import_module("prefect._internal.attempt_control")
    )
