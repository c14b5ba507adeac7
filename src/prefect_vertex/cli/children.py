"""Child processes of a command: each with its own log, all ended when the command ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from prefect_vertex.errors import SetupError

STOP_SECONDS = 10.0
"""How long a child may take to end by itself once it is asked to."""


class Process(Protocol):
    """What is asked of a child's process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its process id, which is its group's and its session's too."""

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit status; `subprocess.TimeoutExpired` after so many seconds."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""

    def send_signal(self, sig: int) -> None:
        """Send a signal."""


def usual_interrupt() -> None:
    """Give the child SIGINT at its default, and no signal blocked.

    A shell starts background commands with SIGINT ignored, and a Prefect worker that inherits that
    never ends: it forwards its first SIGTERM to itself as SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


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
        self._asked = False
        self.process = self._begin(list(command), dict(env), cwd)

    def _begin(self, command: list[str], env: dict[str, str], cwd: Path | None) -> Process:
        return subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=usual_interrupt,  # noqa: PLW1509 - no threads touch signals here
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

    @property
    def ending(self) -> str:
        """How it ended: its exit status, or the signal that ended it."""
        status = self.process.poll()
        if status is None:
            return "still running"
        return f"signal {-status}" if status < 0 else f"exit status {status}"

    def tail(self, lines: int = 12) -> list[str]:
        """The last lines that it has written."""
        return [line.rstrip() for line in self.output().splitlines() if line.strip()][-lines:]

    def _last_line(self) -> str:
        return f"{self.ending}, {' '.join(self.tail(1)) or 'without a word'}"

    def ask_to_stop(self) -> None:
        """Ask it to end, without waiting; once, because a second time means "at once" to some."""
        if self.is_alive() and not self._asked:
            self._asked = True
            self.process.terminate()

    def stop(self) -> None:
        """Ask it to end, then end it and its group."""
        if self.is_alive():
            self.ask_to_stop()
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


# Ends what it was told of when the pipe to it is closed, so that not even SIGKILL to the command
# leaves anything running.
_GUARDIAN = """
import os, signal, sys, time
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for number in (signal.SIGTERM, signal.SIGKILL):
    for group in groups:
        try:
            os.killpg(group, number)
        except OSError:
            pass
    deadline = time.monotonic() + SECONDS
    while number == signal.SIGTERM and time.monotonic() < deadline:
        alive = False
        for group in groups:
            try:
                os.killpg(group, 0)
                alive = True
            except OSError:
                pass
        if not alive:
            break
        time.sleep(0.1)
""".replace("SECONDS", str(STOP_SECONDS))


class Children:
    """The children of one command; leaving the block ends them, the last first.

    Args:
        logs: The folder of their output.
        make: What starts one, called as `Child` is.
    """

    def __init__(self, logs: Path, make: Callable[..., Child] = Child) -> None:
        self.logs = logs
        self._make = make
        self._all: list[Child] = []
        self._guardian: subprocess.Popen[str] | None = None

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
        with _undisturbed():
            child = self._make(name, command, env=env, log=log, cwd=cwd)
            self._all.append(child)
            self._tell(f"+{child.process.pid}")
        return child

    def forget(self, child: Child) -> None:
        """Let go of a child that was only to run to its end."""
        child.stop()
        self._all.remove(child)
        self._tell(f"-{child.process.pid}")

    def dead(self) -> Child | None:
        """A child that ended by itself, None while all live."""
        return next((child for child in self._all if not child.is_alive()), None)

    def _tell(self, line: str) -> None:
        if self._guardian is not None and self._guardian.stdin is not None:
            self._guardian.stdin.write(f"{line}\n")
            self._guardian.stdin.flush()

    def __enter__(self) -> Self:
        """Begin; nothing is started yet."""
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARDIAN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End them all, whatever happened; a second signal changes nothing."""
        with _undisturbed():
            for child in self._all:
                child.ask_to_stop()
            for child in reversed(self._all):
                child.stop()
                self._tell(f"-{child.process.pid}")
            self._all.clear()
            if self._guardian is not None and self._guardian.stdin is not None:
                self._guardian.stdin.close()
                self._guardian.wait()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no signal to end this command come between two steps that belong together."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
