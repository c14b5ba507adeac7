"""Child processes of a command: each with its own log, all ended when the command ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from prefect_vertex.errors import SetupError

STOP_SECONDS = 15.0
"""How long a child may take to end by itself once it is asked to."""


def _usual_interrupt() -> None:
    """Give the child SIGINT at its default.

    A shell starts background commands with SIGINT ignored, and a Prefect worker that inherits that
    never ends: it forwards its first SIGTERM to itself as SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Child:
    """One process in a session of its own, its output in a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._out = log.open("wb")
        self.process = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_usual_interrupt,  # noqa: PLW1509 - no threads touch signals here
        )

    def output(self) -> str:
        """All that it has written."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait_until(self, ready: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Wait for a condition; the child must stay alive meanwhile.

        Raises:
            SetupError: It ended, or was not ready in time; the message holds its last line.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.is_alive():
                raise SetupError(f"{self.name} ended before {what}: {self._last_line()}")
            if time.monotonic() > deadline:
                raise SetupError(f"{self.name} took over {seconds:g} s until {what}.")
            time.sleep(0.1)

    def _last_line(self) -> str:
        lines = [line.strip() for line in self.output().splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.process.returncode}"

    def stop(self) -> None:
        """Ask it to end, then end it and its group."""
        if self.is_alive():
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill()
        self._kill_group()
        self._out.close()

    def _kill(self) -> None:
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Children:
    """The children of one command; leaving the block ends them, the last first."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._all: list[Child] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
    ) -> Child:
        """Start one more."""
        log = self.logs / f"{name.replace(' ', '-')}.log"
        child = Child(name, command, env=env, log=log, cwd=cwd)
        self._all.append(child)
        return child

    def forget(self, child: Child) -> None:
        """Let go of a child that was only to run to its end."""
        child.stop()
        self._all.remove(child)

    def dead(self) -> Child | None:
        """A child that ended by itself, None while all live."""
        return next((child for child in self._all if not child.is_alive()), None)

    def __enter__(self) -> Self:
        """Begin; nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End them all, whatever happened."""
        for child in reversed(self._all):
            child.stop()
        self._all.clear()
