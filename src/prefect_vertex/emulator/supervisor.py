"""The first process of a replica, in the place of a container runtime: nothing gets out of it.

A replica is a tree of processes that may start sessions of their own, fork twice and ignore
SIGTERM; a process group does not hold them.  So each replica has this small parent: on Linux every
orphan below it becomes its child (PR_SET_CHILD_SUBREAPER), and everywhere each process carries a
marker in its environment.  When the command ends, when it is told to, or when the emulator is gone,
it kills all that descends from it or carries the marker, and only then says how the command ended.

Started by path with `python -I -S`, so it imports the standard library alone.  Standard input: one
line of JSON (argv, env, cwd, stdout, stderr, marker), then one byte per order (T: SIGTERM to the
command, K: kill everything); its end means that the emulator is gone.  Standard output: JSON lines,
`{"started": pid}` or `{"start_error": text}`, then `{"status": n}`, with 128 + n for a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER_VARIABLE = "VERTEX_EMULATOR_REPLICA"
_PR_SET_CHILD_SUBREAPER = 36
_HOPELESS_SECONDS = 30.0
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One living process; `marked` where its environment holds the marker that was asked for."""

    pid: int
    parent: int
    marked: bool


def processes(marker: str) -> Iterator[Process]:
    """Every living process that may be looked at, zombies left out.

    Args:
        marker: The start of the value of `MARKER_VARIABLE`.
    """
    sought = f"{MARKER_VARIABLE}={marker}"
    return _linux_processes(sought.encode()) if _PROC.is_dir() else _ps_processes(sought)


def _linux_processes(sought: bytes) -> Iterator[Process]:
    for directory in _PROC.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            # The command's name, in parentheses, may itself hold spaces and parentheses.
            state, parent = (directory / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if state in b"ZX":
            continue
        try:
            marked = sought in (directory / "environ").read_bytes()
        except OSError:
            marked = False  # it ended meanwhile, or is another user's
        yield Process(int(directory.name), int(parent), marked)


def _ps_processes(sought: str) -> Iterator[Process]:
    command = ["ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,stat=,command="]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as ps:
        listing, _ = ps.communicate()
    for process in parse_ps(listing.decode(errors="replace"), sought):
        # It stands in its own listing, as our child, and has ended.
        if process.pid != ps.pid:
            yield process


def parse_ps(listing: str, sought: str) -> Iterator[Process]:
    """Read what macOS's `ps -E` prints: pid, parent, state, then command and environment."""
    for line in listing.splitlines():
        columns = line.split(maxsplit=3)
        if len(columns) < 3 or columns[2].startswith("Z"):  # noqa: PLR2004 - three columns at least
            continue
        yield Process(int(columns[0]), int(columns[1]), sought in line)


def members(marker: str, root: int | None = None) -> list[int]:
    """Living processes that carry the marker or descend from `root`, without it and ourselves."""
    everything = list(processes(marker))
    children: dict[int, list[int]] = {}
    for process in everything:
        children.setdefault(process.parent, []).append(process.pid)
    found = {process.pid for process in everything if process.marked}
    unvisited = [] if root is None else [root]
    while unvisited:
        below = children.get(unvisited.pop(), ())
        found.update(below)
        unvisited.extend(below)
    return sorted(found - {root, os.getpid()})


def kill_members(marker: str, root: int | None = None) -> list[int]:
    """SIGKILL all members, and those that they start meanwhile, until there is none.

    Returns:
        The pids that outlived this for half a minute (uninterruptible sleep); usually empty.
    """
    deadline = time.monotonic() + _HOPELESS_SECONDS
    pause = 0.001
    while True:
        alive = members(marker, root)
        if not alive or time.monotonic() > deadline:
            return alive
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


class _Supervisor:
    """The life of one replica; `run` returns when nothing of it is left."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self._launch = launch
        self._status: int | None = None
        self._wakeup, wakeup_write = os.pipe()
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        # Any of these wakes the loop; what they mean is decided there.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)

    def run(self) -> None:
        try:
            self._popen = self._start()
        except (OSError, ValueError) as error:
            _report(start_error=_start_error(self._launch["argv"][0], error))
            return
        _report(started=self._command)
        while self._status is None and self._wait():
            pass
        self._end()
        _report(status=self._status)

    @property
    def _command(self) -> int:
        # The object is kept all along: one that is collected waits for its child by itself, and
        # the status would be lost.
        return self._popen.pid

    def _start(self) -> subprocess.Popen[bytes]:
        with (
            open(self._launch["stdout"], "ab") as stdout,  # noqa: PTH123 - pathlib buffers no less
            open(self._launch["stderr"], "ab") as stderr,  # noqa: PTH123 - the same
        ):
            return subprocess.Popen(
                self._launch["argv"],
                env=self._launch["env"],
                cwd=self._launch["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    def _wait(self) -> bool:
        """Wait for the next event; False when everything is to be killed."""
        ready, _, _ = select.select([0, self._wakeup], [], [])
        if self._wakeup in ready:
            numbers = os.read(self._wakeup, 4096)
            self._reap()
            if set(numbers) - {signal.SIGCHLD}:
                return False
        if 0 in ready:
            orders = os.read(0, 64)
            if not orders or b"K" in orders:
                return False
            # Not yet reaped, so the pid is still the command's.
            if self._status is None:
                os.kill(self._command, signal.SIGTERM)
        return True

    def _end(self) -> None:
        deadline = time.monotonic() + _HOPELESS_SECONDS
        kill_members(self._launch["marker"], os.getpid())
        while self._reap() and time.monotonic() < deadline:
            time.sleep(0.001)

    def _reap(self) -> bool:
        """Collect every child that has ended, adopted orphans included; whether any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command:
                code = os.waitstatus_to_exitcode(status)
                self._status = code if code >= 0 else 128 - code


def _start_error(program: str, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and "/" not in program:
        return f'exec: "{program}": executable file not found in $PATH'
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f'exec: "{program}": {reason.lower()}'


def _report(**fields: Any) -> None:
    # The emulator may be gone; then nobody reads, and the work is done all the same.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(fields).encode() + b"\n")


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _read_launch() -> dict[str, Any]:
    """The first line of standard input, byte by byte behind it: orders follow on the same pipe."""
    line = bytearray()
    while not line.endswith(b"\n"):
        # Orders are sent after `started` was answered, so nothing can stand behind the line yet.
        piece = os.read(0, 65536)
        if not piece:
            sys.exit(1)
        line += piece
    launch: dict[str, Any] = json.loads(line)
    return launch


def main() -> None:
    """Run one replica from start to end."""
    launch = _read_launch()
    _adopt_orphans()
    _Supervisor(launch).run()


if __name__ == "__main__":
    main()
