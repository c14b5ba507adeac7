"""One replica: a local process tree with its own directory, ended as a whole."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from prefect_vertex.emulator import supervisor
from prefect_vertex.emulator.environment import ReplicaPlan
from prefect_vertex.emulator.names import JobName
from prefect_vertex.emulator.output import (
    Follower,
    read_output,
    stderr_path,
    stdout_path,
)
from prefect_vertex.emulator.surroundings import Surroundings

START_ERROR_STATUS: Final = 128
_KILLED_STATUS: Final = 137
_NO_IMAGE: Final = (
    "the emulator has no images to take an entry point from: set command or args in the "
    "container_spec"
)
_FOLLOW_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnd:
    """How a replica ended; `start_error` says why it never ran, else it is empty."""

    status: int
    start_error: str = ""


class Replica:
    """Starts, ends and reads one replica.

    `ended` is resolved with a `ReplicaEnd` when no process of the replica is left, never before;
    `on_end` is called in the same moment.  `up_since` is the loop's time at which its first process
    ran, None before.  What it writes is appended to what an earlier start has written.
    """

    def __init__(
        self,
        plan: ReplicaPlan,
        *,
        job: JobName,
        directory: Path,
        surroundings: Surroundings,
        on_end: Callable[[Replica], None],
    ) -> None:
        self.name = plan.name
        self.directory = directory
        self.ended: asyncio.Future[ReplicaEnd] = asyncio.get_running_loop().create_future()
        self._plan = plan
        self.up_since: float | None = None
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None
        self._job = job
        self._source = f"{job.job_id[-6:]} {plan.name}"
        self._surroundings = surroundings
        self._on_end = on_end
        # The closing slash keeps workerpool1-1 apart from workerpool1-10.
        self._marker = f"{surroundings.marker}{job.job_id}/{plan.name}/"
        self._process: subprocess.Popen[bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._kill_wanted = False
        # What earlier starts have left in the files.
        self._written = {path(directory): 0 for path in (stdout_path, stderr_path)}

    async def start(self) -> None:
        """Start the command; returns when it runs, or when `ended` says why it does not."""
        if not self._plan.argv:
            self._end(ReplicaEnd(status=START_ERROR_STATUS, start_error=_NO_IMAGE))
            return
        launch = self._prepare()
        # Starting a process and handing it a large environment takes milliseconds: in a thread,
        # so that no call of the API waits for it.
        self._process = await asyncio.to_thread(self._spawn, launch)
        reports = await _open_reader(self._process)
        first = await _read_report(reports)
        if "start_error" in first:
            await self._collect(self._process, reports)
            self._end(ReplicaEnd(status=START_ERROR_STATUS, start_error=first["start_error"]))
            return
        self.up_since = asyncio.get_running_loop().time()
        self.started_at = datetime.now(UTC)
        self._tasks.append(asyncio.create_task(self._watch(self._process, reports)))
        self._tasks.append(asyncio.create_task(self._follow()))
        if self._kill_wanted:
            self._order(b"K")

    async def end(self, grace_seconds: float) -> None:
        """SIGTERM to the first process, grace, SIGKILL to everything; returns when all is gone.

        Without any grace there is no SIGTERM either.
        """
        if self._process is None:
            return
        if grace_seconds > 0:
            self._order(b"T")
            await asyncio.wait([self.ended], timeout=grace_seconds)
        self.kill()
        await asyncio.wait([self.ended])
        await asyncio.gather(*self._tasks)

    def kill(self) -> None:
        """SIGKILL to everything in the replica; does not wait."""
        self._kill_wanted = True
        self._order(b"K")

    def errors(self) -> str:
        """What this start has written to standard error so far."""
        start = self._written.get(stderr_path(self.directory), 0)
        return read_output(self.directory, errors_from=start).stderr

    def _prepare(self) -> dict[str, Any]:
        """Make the replica's file system and say what the supervisor needs to know."""
        folders = {name: self.directory / name for name in ("work", "home", "tmp")}
        for folder in folders.values():
            _make_empty(folder)
        self._written = {path: path.stat().st_size for path in self._written if path.exists()}
        base = {
            "PATH": self._surroundings.search_path,
            "HOME": str(folders["home"]),
            "TMPDIR": str(folders["tmp"]),
            "HOSTNAME": self._plan.host_name,
            "LANG": "C.UTF-8",
        }
        return {
            "argv": self._plan.argv,
            "env": base | dict(self._plan.variables) | {supervisor.MARKER_VARIABLE: self._marker},
            "cwd": str(folders["work"]),
            "stdout": str(stdout_path(self.directory)),
            "stderr": str(stderr_path(self.directory)),
            "marker": self._marker,
        }

    def _spawn(self, launch: dict[str, Any]) -> subprocess.Popen[bytes]:
        with (self.directory / "supervisor").open("wb") as complaints:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__],
                # Marked too, so that the last sweep finds a supervisor that hangs.
                env={supervisor.MARKER_VARIABLE: self._marker},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
                bufsize=0,
            )
        if process.stdin is None:  # pragma: no cover - PIPE was asked for
            raise RuntimeError("no pipe to the supervisor")
        pending = memoryview(json.dumps(launch).encode() + b"\n")
        try:
            while pending:
                pending = pending[process.stdin.write(pending) :]
        except OSError:
            with process:
                process.kill()
            raise
        return process

    async def _watch(self, process: subprocess.Popen[bytes], reports: asyncio.StreamReader) -> None:
        report = await _read_report(reports)
        await self._collect(process, reports)
        if "status" not in report:
            # Somebody killed the supervisor; what it held may still be there.
            await asyncio.to_thread(supervisor.kill_members, self._marker)
        status = report.get("status")
        self._end(ReplicaEnd(status=_KILLED_STATUS if status is None else status))

    async def _collect(
        self, process: subprocess.Popen[bytes], reports: asyncio.StreamReader
    ) -> None:
        # At the end of its output the reader's transport closes that pipe itself.
        await reports.read()
        await asyncio.to_thread(process.wait)
        if process.stdin is not None:
            process.stdin.close()
        # A container's file system goes with it; what cannot be removed here goes with the scratch.
        for name in ("work", "home", "tmp"):
            await asyncio.to_thread(shutil.rmtree, self.directory / name, ignore_errors=True)

    def _order(self, order: bytes) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        try:
            os.write(self._process.stdin.fileno(), order)
        except BrokenPipeError:
            return  # it has ended by itself, and `_watch` is about to say so

    def _end(self, end: ReplicaEnd) -> None:
        self.ended_at = datetime.now(UTC)
        self.ended.set_result(end)
        self._on_end(self)

    async def _follow(self) -> None:
        """Bring what it writes to the log, and to the console where there is one."""
        echo = self._surroundings.echo
        followers = [
            Follower(path(self.directory), self._written.get(path(self.directory), 0))
            for path in (stdout_path, stderr_path)
        ]
        while True:
            ended = self.ended.done()
            for is_error, follower in enumerate(followers):
                for line in follower.new_lines(ended=ended):
                    self._surroundings.logs.add_line(
                        self._job, self.name, line, is_error=bool(is_error)
                    )
                    if echo:
                        echo(self._source, line)
            if ended:
                return
            await asyncio.wait([self.ended], timeout=_FOLLOW_SECONDS)


def _make_empty(folder: Path) -> None:
    if folder.exists():
        # What an earlier start left, and its owner's rights keep from being removed.
        folder.rename(folder.with_name(f"{folder.name}-{folder.stat().st_mtime_ns}"))
    folder.mkdir(parents=True)


async def _open_reader(process: subprocess.Popen[bytes]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop), process.stdout
    )
    return reader


async def _read_report(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The supervisor's next line; empty when it is gone without one."""
    line = await reader.readline()
    report: dict[str, Any] = json.loads(line) if line else {}
    return report
