"""The command: found, then become, or kept as a child by PID 1."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from typing import NoReturn

from prefect_vertex.delivery.bootstrap.basics import die, env, say
from prefect_vertex.delivery.bootstrap.claims import is_unstarted

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
NOT_FOUND = 127
LAUNCHER = "prefect_vertex.replica"
FORWARDED = (*SIGNALS, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH)
# Signals that were to end a command: it may have been at its end already.
told: list[int] = []


def on_signal(number: int, _frame: object) -> NoReturn:
    """End at once: nothing of the user's runs."""
    die(128 + number, f"ended by signal {number} before the command began")


def resolve(command: list[str]) -> list[str]:
    """Run Prefect and Python by this interpreter where the image has no such name on PATH."""
    if not command:
        die(78, "there is no command to run")
    name = command[0]
    if name not in ("prefect", "python", "python3") or shutil.which(name):
        return command
    if name != "prefect":
        return [sys.executable, *command[1:]]
    if not importlib.util.find_spec("prefect"):
        die(127, f"this image has neither `prefect` on PATH nor its package for {sys.executable}")
    return [sys.executable, "-m", *command]


def choose(command: list[str]) -> list[str]:
    """Return our launcher in place of `prefect flow-run execute`: the replicas run one flow."""
    if env.get("PREFECT_VERTEX_REPLICAS") != "flow" or command[-2:] != ["flow-run", "execute"]:
        return command
    *program, prefect = command[:-2]
    # It takes the interpreter that runs Prefect as a module, or stands beside its script.
    program = program[:-1] if program[-1:] == ["-m"] else [*program, prefect[:-7] + "python"]
    program = resolve(program)
    if subprocess.call([*program, "-c", "import " + LAUNCHER]):
        die(127, f"{program[-1]} cannot import {LAUNCHER}: it has to be in the image")
    return [*program, "-m", LAUNCHER]


def supervise(command: list[str]) -> int:
    """Run the command in a process group of its own, as its init; return its exit code."""
    # Blocked until the handlers know the child, so that no signal falls in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.posix_spawnp(
        command[0], command, env, setpgroup=0, setsigmask=(), setsigdef=FORWARDED
    )

    def forward(number: int, _frame: object) -> None:
        if number in SIGNALS:
            told.append(number)
        try:
            os.killpg(child, number)
        except ProcessLookupError:
            return

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    ended = state = 0
    while ended != child:
        ended, state = os.wait()
    code = os.waitstatus_to_exitcode(state)
    return code if code >= 0 else 128 - code


def run(command: list[str]) -> NoReturn:
    """Become the command, or its init as PID 1; failing that, end as a shell would."""
    try:
        if os.getpid() == 1:
            code = supervise(command)
            # Prefect does not repeat its first connection; above 128 it was asked to end.
            if 0 < code <= NOT_FOUND and command[-1] in ("execute", LAUNCHER):
                for number in SIGNALS:
                    signal.signal(number, on_signal)
                if not told and is_unstarted():
                    say("running it again: the flow run had not started")
                    code = supervise(command)
            sys.exit(code)
        os.execvp(command[0], command)  # noqa: S606 - a shell would rewrite the command
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        die(127 if missing else 126, f"cannot run {command[0]}: {error.strerror}")
