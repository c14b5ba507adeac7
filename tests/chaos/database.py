"""PostgreSQL for the Prefect server: where very many write at once, SQLite's one writer is too few.

Its programs are the system's; its files are in a folder of their own, and go with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from prefect_vertex.cli.children import Children
from prefect_vertex.cli.local import free_port

START_SECONDS = 60.0
_NOBODY = 65534
_READY = "database system is ready to accept connections"


class Database:
    """One server with an empty database, in a folder of its own until `close`."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="prefect-vertex-postgres-"))
        if os.geteuid() == 0:
            os.chown(self._home, _NOBODY, _NOBODY)

    def start(self, children: Children) -> str:
        """Start it; its address, once it serves."""
        port, files = free_port(), str(self._home / "files")
        made = [*_as_nobody(), _program("initdb"), "--pgdata", files, "--no-sync"]
        made += ["--username", "prefect", "--auth", "trust", "--encoding", "UTF8"]
        subprocess.run(made, cwd="/", check=True, capture_output=True)
        command = [*_as_nobody(), _program("postgres"), "-D", files, "-p", str(port)]
        for option in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"):
            command += ["-c", option]
        child = children.start("database", command, env=dict(os.environ))
        child.wait_until(lambda: _READY in child.output(), seconds=START_SECONDS, what="it served")
        return f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres"

    def close(self) -> None:
        """Remove its files."""
        shutil.rmtree(self._home)


def _program(name: str) -> str:
    """Debian keeps the server's programs off the PATH, in a folder for each version."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"needs PostgreSQL's {name}: apt-get install postgresql")
    return found


def _as_nobody() -> list[str]:
    """What goes before a command: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
