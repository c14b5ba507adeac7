"""PostgreSQL for the Prefect server of benchmarks and of the chaos suite.

Where very many write at once, or thousands of runs are written, SQLite's one writer is too few.

Its programs are the system's; its files are in a folder of their own, and go with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from prefect_vertex.cli.children import Children
from prefect_vertex.cli.local import free_port
from prefect_vertex.errors import SetupError

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
        """Start it; its address, once it serves.

        Raises:
            SetupError: PostgreSQL is not installed, or did not come up.
        """
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


def missing_program() -> str:
    """What this machine lacks for a database, and how to get it; empty if nothing."""
    missing = [name for name in ("initdb", "postgres") if _which(name) is None]
    return f"PostgreSQL's {missing[0]} is missing: apt-get install postgresql" if missing else ""


def _program(name: str) -> str:
    found = _which(name)
    if found is None:
        raise SetupError(missing_program())
    return found


def _which(name: str) -> str | None:
    """Debian keeps the server's programs off the PATH, in a folder for each version."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ["PATH"]]))


def _as_nobody() -> list[str]:
    """What goes before a command: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
