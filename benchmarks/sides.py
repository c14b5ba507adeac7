"""The two workers that are compared: how each is installed, set up and started."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prefect_vertex.cli.local import PROJECT, share

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = HERE / "programs"
OURS: Final = "prefect-vertex"
THEIRS: Final = "prefect-gcp"
WORKER_NAME: Final = "bench"


class Side(ABC):
    """One of the two."""

    name: str
    pool_type: str

    @abstractmethod
    def template(self) -> dict[str, Any]:
        """Its base job template as shipped."""

    @abstractmethod
    def worker_command(self, pool: str, report: Path) -> Sequence[str]:
        """How to start its worker; a side that can write its own figures does so to `report`."""

    @abstractmethod
    def worker_env(self) -> Mapping[str, str]:
        """What its worker needs beside the addresses."""


class Ours(Side):
    """This checkout's worker."""

    name = OURS
    pool_type = "vertex-custom-job"

    def template(self) -> dict[str, Any]:
        """The shipped pool template."""
        text = share("work_pool_templates", "vertex-forecast.json").read_text(encoding="utf-8")
        template: dict[str, Any] = json.loads(text)
        return template

    def worker_command(self, pool: str, report: Path) -> Sequence[str]:
        """`prefect worker start`, its budgets looked at."""
        program = [sys.executable, "-P", str(PROGRAMS / "ours.py"), str(report)]
        return [*program, *_start(pool)]

    def worker_env(self) -> Mapping[str, str]:
        """Nothing more."""
        return {}


class Theirs(Side):
    """prefect-gcp's worker, pinned, in an environment of its own.

    Args:
        scratch: Where its key goes.
    """

    name = THEIRS
    pool_type = "vertex-ai"

    def __init__(self, scratch: Path) -> None:
        self._python = _install()
        self._key = scratch / "key.json"
        self._run("key", str(self._key), PROJECT)
        # Once: prefect-gcp takes many seconds to load.
        self._template = self._run("template")

    def template(self) -> dict[str, Any]:
        """The template that its code makes; the bundled one is older than the code."""
        template: dict[str, Any] = json.loads(self._template)
        return template

    def worker_command(self, pool: str, report: Path) -> Sequence[str]:
        """`prefect worker start`, its client pointed at the emulator."""
        del report
        return [*self._program, "prefect", *_start(pool)]

    def worker_env(self) -> Mapping[str, str]:
        """It can't do without credentials."""
        return {"GOOGLE_APPLICATION_CREDENTIALS": str(self._key)}

    @property
    def _program(self) -> list[str]:
        return [str(self._python), "-P", str(PROGRAMS / "theirs.py")]

    def _run(self, *arguments: str) -> str:
        command = [*self._program, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _start(pool: str) -> list[str]:
    return ["worker", "start", "--pool", pool, "--name", WORKER_NAME]


def _install() -> Path:
    """Install prefect-gcp where it is not yet; its environment's Python."""
    requirements = HERE / "requirements-prefect-gcp.txt"
    venv = HERE / ".venv-prefect-gcp"
    stamp = venv / ".installed"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    python = venv / "bin" / "python"
    if stamp.exists() and stamp.read_text() == digest:
        return python
    uv = str(Path(sys.executable).parent / "uv")
    env = {**os.environ, "VIRTUAL_ENV": str(venv)}
    make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)]
    subprocess.run(make, check=True)
    sync = [uv, "pip", "sync", "--quiet", "--require-hashes", str(requirements)]
    subprocess.run(sync, check=True, env=env)
    stamp.write_text(digest)
    return python
