"""As PID 1 the bootstrap is an init: it forwards signals, reaps, returns the command's end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.delivery.packing import packed_bootstrap

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

pytestmark = pytest.mark.linux


@pytest.fixture(scope="module", autouse=True)
def _pid_namespace() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a PID namespace")


@contextmanager
def as_pid_1(env: dict[str, str], *command: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the bootstrap as PID 1; yield it and its PID as seen from here, once it has spoken."""
    bootstrap = [sys.executable, "-I", "-S", "-c", packed_bootstrap(), *command]
    with subprocess.Popen(
        [*UNSHARE, *bootstrap],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            yield process, int(children.split()[0])
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_reach_the_command(bootstrap_env: dict[str, str], name: str) -> None:
    """Also a command without a handler of its own could be ended: it is not PID 1."""
    script = f"trap 'echo got {name}; exit 5' {name}; echo ready; while :; do sleep 0.02; done"
    with as_pid_1(bootstrap_env, "sh", "-c", script) as (process, pid):
        signal.pidfd_send_signal(_pidfd(pid), signal.Signals[f"SIG{name}"])
        output, _ = process.communicate()

    assert (process.returncode, output) == (5, f"got {name}\n")


def test_a_command_without_a_handler_ends_by_the_signal(bootstrap_env: dict[str, str]) -> None:
    """128 + n, as a shell would say it; as PID 1 itself it would have ignored SIGTERM."""
    with as_pid_1(bootstrap_env, "sh", "-c", "echo ready; exec sleep 60") as (process, pid):
        signal.pidfd_send_signal(_pidfd(pid), signal.SIGTERM)
        process.communicate()

    assert process.returncode == 143


def test_signals_reach_the_command_s_whole_group(bootstrap_env: dict[str, str]) -> None:
    """A shell that waits for its child does not run its own trap before the child has ended."""
    inner = "trap 'echo child; exit' TERM; echo ready; while :; do sleep 0.02; done"
    script = f"trap 'echo shell; exit 6' TERM; sh -c {shlex.quote(inner)}"
    with as_pid_1(bootstrap_env, "sh", "-c", script) as (process, pid):
        signal.pidfd_send_signal(_pidfd(pid), signal.SIGTERM)
        output, _ = process.communicate()

    assert (process.returncode, output) == (6, "child\nshell\n")


def test_orphans_are_reaped(bootstrap_env: dict[str, str], wait_until: Callable[..., None]) -> None:
    """None of the command's abandoned grandchildren stays as a zombie."""
    orphans = "i=0; while [ $i -lt 20 ]; do sh -c 'sleep 0.05 &'; i=$((i+1)); done"
    script = f"{orphans}; echo ready; exec sleep 60"
    with as_pid_1(bootstrap_env, "sh", "-c", script) as (_, pid):
        listed = Path(f"/proc/{pid}/task/{pid}/children")
        wait_until(lambda: len(listed.read_text().split()) == 1, "the orphans' end")


def test_an_orphan_s_end_is_not_the_command_s(bootstrap_env: dict[str, str]) -> None:
    script = "sh -c '(sleep 0.05; exit 9) &'; echo ready; sleep 0.3; exit 4"
    with as_pid_1(bootstrap_env, "sh", "-c", script) as (process, _):
        process.communicate()

    assert process.returncode == 4


def test_a_command_that_is_not_there_is_told_as_by_a_shell(bootstrap_env: dict[str, str]) -> None:
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-I", "-S", "-c", packed_bootstrap(), "no-such-command"],
        env=bootstrap_env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 127
    assert done.stderr.startswith("prefect-vertex: cannot run no-such-command")


def test_a_signal_before_the_command_ends_pid_1_too(
    bootstrap_env: dict[str, str],
    serve: Callable[..., Any],
    wait_until: Callable[..., None],
) -> None:
    """While it claims its start the kernel would drop a SIGTERM that has no handler."""
    reached, gate = threading.Event(), threading.Event()

    def script(asked: Any) -> tuple[int, bytes]:
        if asked.method == "GET":
            return 200, b"true"
        reached.set()
        gate.wait(15)
        return 0, b""

    env = {"PREFECT_API_URL": serve(script).url, "PREFECT__FLOW_RUN_ID": "r"}
    command = [sys.executable, "-I", "-S", "-c", packed_bootstrap(), "echo", "ran"]
    process = subprocess.Popen(
        [*UNSHARE, *command],
        env={**bootstrap_env, **env, "PREFECT_VERTEX_ATTEMPT": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(reached.is_set, "the claim")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        signal.pidfd_send_signal(_pidfd(int(children.split()[0])), signal.SIGTERM)
        output, _ = process.communicate(timeout=15)
    finally:
        gate.set()
        process.kill()

    assert (process.returncode, output) == (143, "")


@pytest.mark.parametrize("when", ["asked", "command"])
def test_a_signal_between_two_runs_of_the_command_ends_it(
    bootstrap_env: dict[str, str],
    serve: Callable[..., Any],
    wait_until: Callable[..., None],
    tmp_path: Path,
    when: str,
) -> None:
    """The platform says once that it takes the machine back: a flow begun after that is lost.

    It comes while the API is asked whether to run again, or to a command that then fails.
    """
    count, gate = tmp_path / "count", threading.Event()
    asked_again = threading.Event()

    def script(asked: Any) -> tuple[int, bytes]:
        if asked.method == "POST":
            return 201, b""
        if count.exists() and when == "asked":
            asked_again.set()
            gate.wait(15)
        return 200, b'{"state_type": "PENDING"}'

    env = {"PREFECT_API_URL": serve(script).url, "PREFECT__FLOW_RUN_ID": "r"}
    note = f"echo >> {shlex.quote(str(count))}"
    waits = "while :; do sleep 0.02; done" if when == "command" else "exit 3"
    program = f"trap 'exit 3' TERM; echo ready; {note}; {waits}"
    variables = {**bootstrap_env, **env, "PREFECT_VERTEX_ATTEMPT": "1"}
    with as_pid_1(variables, "sh", "-c", program, "execute") as (process, pid):
        wait_until(asked_again.is_set if when == "asked" else count.exists, "the moment")
        signal.pidfd_send_signal(_pidfd(pid), signal.SIGTERM)
        process.communicate(timeout=15)
        gate.set()

    assert process.returncode == {"asked": 143, "command": 3}[when]
    assert count.read_text() == "\n"


def _pidfd(pid: int) -> int:
    return os.pidfd_open(pid)


@pytest.mark.parametrize(
    ("state", "last", "runs"),
    [
        ("PENDING", "execute", 2),
        ("RUNNING", "execute", 1),
        ("PENDING", "other", 1),
        ("deleted meanwhile", "execute", 1),
    ],
)
def test_prefect_s_command_runs_once_more_where_its_run_had_not_started(
    bootstrap_env: dict[str, str],
    serve: Callable[..., Any],
    tmp_path: Path,
    state: str,
    last: str,
    runs: int,
) -> None:
    """Prefect gives up at its first connection: an API that was away for seconds costs no run."""
    count = tmp_path / "count"

    def script(asked: Any) -> tuple[int, bytes]:
        if asked.method != "GET":
            return 201, b""
        if state.isupper() or not count.exists():
            return 200, f'{{"state_type": "{state.upper()}"}}'.encode()
        return 404, b"{}"

    env = {"PREFECT_API_URL": serve(script).url, "PREFECT__FLOW_RUN_ID": "r"}
    program = f"echo >> {shlex.quote(str(count))}; exit 3"
    command = [sys.executable, "-I", "-S", "-c", packed_bootstrap(), "sh", "-c", program, last]
    done = subprocess.run(
        [*UNSHARE, *command],
        env={**bootstrap_env, **env, "PREFECT_VERTEX_ATTEMPT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert count.read_text() == "\n" * runs
    assert ("running it again" in done.stdout) is (runs == 2)
