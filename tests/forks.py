"""Commands of this environment, forked from a process that has done their imports already.

A Prefect server, a worker or a `prefect deploy` takes five to fifteen seconds of a core before its
first line of work, nearly all of it imports.  The standard library's fork server does them once for
all tests; what is forked from it is a process, a session and a log file of its own, with its own
environment and settings, and runs the module as `python -m` does.  What a test is about may be the
start itself: then it takes the usual `Child`.
"""

from __future__ import annotations

import atexit
import io
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from prefect_vertex.cli.children import Child, Process, usual_interrupt

LOADED = (
    "prefect.server.api.server",
    "prefect.cli.deploy",
    "prefect.cli.server",
    "prefect.cli.work_pool",
    "prefect.cli.worker",
    "prefect_vertex.cli.app",
    "prefect_vertex.emulator.__main__",
    "prefect_vertex.reconciler.loop",
    "prefect_vertex.reconciler.wiring",
    "prefect_vertex.worker",
)
"""None of them may start a thread or open a channel: a fork would have half of it."""
MODULES = {"prefect", "prefect_vertex", "prefect_vertex.emulator"}
"""What is forked; a container's programs, say, are started as its image starts them."""
NEVER_FORKED = "-u"
"""An option of the interpreter, which only a usual start can give to it."""
_START = threading.Lock()


class ForkedProcess:
    """A forked command, with as much of `subprocess.Popen` as its users need."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit status."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkedChild(Child):
    """A child whose process is forked where that is possible, and started as usual elsewhere."""

    def _begin(self, command: list[str], env: dict[str, str], cwd: Path | None) -> Process:
        if not _is_forkable(command, env):
            return super()._begin(command, env, cwd)
        _, _, module, *arguments = command
        context = multiprocessing.get_context("forkserver")
        with _START:
            context.set_forkserver_preload([*LOADED])
            process = context.Process(
                target=_become,
                args=(module, arguments, env, str(cwd or Path.cwd()), self.log),
                name=module,
                daemon=True,
            )
            process.start()
        return ForkedProcess(process)


def _is_forkable(command: Sequence[str], env: dict[str, str]) -> bool:
    """Whether this is a loaded module with the usual import path."""
    is_module = len(command) > 2 and list(command[:2]) == [sys.executable, "-m"]
    is_usual = env.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    return is_module and command[2] in MODULES and is_usual


def _become(module: str, arguments: list[str], env: dict[str, str], folder: str, log: Path) -> None:
    """Turn this process into `python -m MODULE ARGUMENTS`."""
    from prefect.context import refresh_global_settings_context

    os.setsid()
    usual_interrupt()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, out)):
        os.dup2(file, number)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(encoding="utf-8", line_buffering=True, write_through=True)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.path.insert(0, folder)
    refresh_global_settings_context()
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        # A process of `multiprocessing` leaves by a short cut past these.
        atexit._run_exitfuncs()
