"""A forked command is what the usual start would be, only sooner."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.forks import LOADED, NEVER_FORKED, ForkedProcess
from tests.laptop import children_of

from prefect_vertex.cli.children import Child, Children


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with children_of(tmp_path) as children:
        yield children


def prefect(children: Children, *words: str, options: tuple[str, ...] = (), **env: str) -> Child:
    """Start a Prefect command in an environment that is this one's and these."""
    command = [sys.executable, *options, "-m", "prefect", *words]
    return children.start(words[0], command, env={**os.environ, "NO_COLOR": "1", **env})


@pytest.mark.parametrize("name", LOADED)
def test_what_is_loaded_beforehand_is_there(name: str) -> None:
    """The fork server passes over what it cannot import, and each child would pay for it."""
    __import__(name)


@pytest.mark.parametrize("options", [(), (NEVER_FORKED,)])
def test_settings_come_from_the_command_s_own_environment(
    children: Children, tmp_path: Path, options: tuple[str, ...]
) -> None:
    env = {"PREFECT_HOME": str(tmp_path / "home"), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    shown = prefect(children, "config", "view", options=options, **env)

    assert shown.process.wait(60) == 0
    assert "PREFECT_API_URL='http://127.0.0.1:9/api' (from env)" in shown.output()
    assert isinstance(shown.process, ForkedProcess) is not bool(options)


def test_the_exit_status_is_the_command_s(children: Children) -> None:
    refused = prefect(children, "no-such-command")

    assert refused.process.wait(60) != 0
    assert "no-such-command" in refused.output()


def test_a_signal_ends_it_and_is_its_exit_status(children: Children) -> None:
    command = [sys.executable, "-m", "prefect_vertex.emulator"]
    emulator = children.start("emulator", command, env=dict(os.environ))
    emulator.wait_until(lambda: "127.0.0.1" in emulator.output(), seconds=60, what="it served")
    emulator.process.kill()

    assert emulator.process.wait(10) == -signal.SIGKILL
    assert not emulator.is_alive()


def test_it_is_a_session_of_its_own(children: Children) -> None:
    """So that what it starts ends with it."""
    command = [sys.executable, "-m", "prefect_vertex.emulator"]
    emulator = children.start("emulator", command, env=dict(os.environ))
    emulator.wait_until(lambda: "127.0.0.1" in emulator.output(), seconds=60, what="it served")

    assert os.getsid(emulator.process.pid) == emulator.process.pid
