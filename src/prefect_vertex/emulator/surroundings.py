"""What all jobs of one emulator share, and the `python` that replicas find on their PATH."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prefect_vertex.emulator.bell import Bell
from prefect_vertex.emulator.chance import Chance
from prefect_vertex.emulator.log_book import LogBook
from prefect_vertex.emulator.profiles import Behaviour, Timings
from prefect_vertex.emulator.quotas import Quotas
from prefect_vertex.emulator.record import JobRecord, Lag
from prefect_vertex.emulator.script import Faults

# (source, line): a replica's output and the states of jobs, as they come.
Echo = Callable[[str, str], None]

_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The emulator as a job sees it.

    Attributes:
        timings: The clock.
        behaviour: The choices.
        chance: The dice.
        bell: Rung when faults or quotas have changed.
        faults: The script.
        quotas: What jobs hold.
        lag: How far lists are behind.
        logs: What Cloud Logging knows of the jobs.
        variables: Environment variables that every replica gets from the platform.
        scratch: Where jobs keep their directories.
        marker: What every process of this emulator's replicas carries in its environment.
        search_path: PATH of the replicas.
        echo: Where output and state changes are shown; None for nowhere.
    """

    timings: Timings
    behaviour: Behaviour
    chance: Chance
    bell: Bell
    faults: Faults
    quotas: Quotas
    lag: Lag
    logs: LogBook
    variables: Mapping[str, str]
    scratch: Path
    marker: str
    search_path: str
    echo: Echo | None = None

    def show_state(self, record: JobRecord) -> None:
        """Tell the log and the console in which state a job is."""
        self.logs.add_state(record.name, record.state)
        if self.echo:
            row = record.row
            self.echo(record.name.job_id[-6:], f"{row.state} {row.display_name}")


def search_path(scratch: Path, interpreter: Path) -> str:
    """A PATH on which `python` and `python3` are the interpreter that runs the emulator.

    There is no image, so this environment stands in for it.  Where the interpreter's own directory
    lacks one of the names, or has another program by it, a two-line script takes its place.
    """
    directories = [str(interpreter.parent), _SYSTEM_PATH]
    wrong = [
        name
        for name in ("python", "python3")
        if not _is_same_program(interpreter.parent / name, interpreter)
    ]
    if wrong:
        wrappers = scratch / "bin"
        wrappers.mkdir(parents=True, exist_ok=True)
        for name in wrong:
            _write_wrapper(wrappers / name, interpreter)
        directories.insert(0, str(wrappers))
    return os.pathsep.join(directories)


def _is_same_program(candidate: Path, interpreter: Path) -> bool:
    found = shutil.which(candidate)
    return found is not None and Path(found).samefile(interpreter)


def _write_wrapper(path: Path, interpreter: Path) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(str(interpreter))} "$@"\n')
    path.chmod(0o755)
