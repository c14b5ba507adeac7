"""A Prefect server, and what else a laptop needs, for the tests of a module or a session."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import prefect
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from tests.forks import ForkedChild

from prefect_vertex.cli.children import Children
from prefect_vertex.cli.local import LocalStack

DATABASE = "prefect.db"
_CACHE = Path(__file__).parents[1] / ".pytest_cache"


@contextmanager
def children_of(home: Path) -> Iterator[Children]:
    """Children whose programs are loaded once for all tests, with their logs below that folder."""
    (home / "logs").mkdir()
    with Children(home / "logs", ForkedChild) as children:
        yield children


@contextmanager
def opened_laptop(name: str) -> Iterator[tuple[LocalStack, Children]]:
    """A real Prefect server on a free port, in a home of its own that goes with it.

    Args:
        name: For the name of the home.
    """
    home = Path(tempfile.mkdtemp(prefix=f"prefect-vertex-{name}-"))
    with children_of(home) as children:
        stack = LocalStack(children, home)
        lend_database(home / "server")
        stack.start_server()
        yield stack, children
        # Threads of this process that would go on to speak to a server that is gone.
        EventsWorker.drain_all(timeout=5)
        APILogWorker.drain_all(timeout=5)
    shutil.rmtree(home, ignore_errors=True)


def lend_database(home: Path) -> None:
    """Put a database into a server's new home that a server has set up: else each takes seconds."""
    lent = _CACHE / f"prefect-{prefect.__version__}.db"
    if not lent.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as place:
            _set_up(Path(place)).rename(lent)
    home.mkdir(parents=True)
    shutil.copy(lent, home / DATABASE)


def _set_up(place: Path) -> Path:
    """A server's SQLite as it is once it serves for the first time."""
    made = place / DATABASE
    with children_of(place) as children:
        LocalStack(children, place).start_server()
        with (
            closing(sqlite3.connect(place / "server" / DATABASE)) as source,
            closing(sqlite3.connect(made)) as target,
        ):
            source.backup(target)
    return made
