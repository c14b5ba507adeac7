"""One site for the session, a pool for each test, and the figures at the end.

`CHAOS_LONG=1` (make chaos) runs the long form.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if str(Path(__file__).resolve().parents[2]) not in sys.path:
    # For the modules beside this one: test folders are no packages of their own.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos.ledger import Ledger

from prefect_vertex.cli.children import Children

if TYPE_CHECKING:
    from tests.chaos.site import Pool, Site

LONG = os.environ.get("CHAOS_LONG", "") not in {"", "0"}
LEDGER = Ledger()


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks of this folder."""
    config.addinivalue_line("markers", "chaos: real processes, killed and cut off")
    config.addinivalue_line("markers", "long: only with CHAOS_LONG=1, as `make chaos` sets it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts real processes; some of it takes long."""
    for item in items:
        if "chaos" not in item.path.parts:
            continue
        item.add_marker(pytest.mark.chaos)
        item.add_marker(pytest.mark.timeout(1800 if LONG else 180))
        if item.get_closest_marker("long") and not LONG:
            item.add_marker(pytest.mark.skip(reason="takes minutes: make chaos"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures."""
    if LEDGER.runs:
        terminalreporter.section("chaos")
        for line in LEDGER.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def is_long() -> bool:
    """Whether this is the long form."""
    return LONG


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Server, emulator and proxies."""
    from tests.chaos.site import Site

    home = Path(tempfile.mkdtemp(prefix="prefect-vertex-chaos-"))
    (home / "logs").mkdir()
    with Children(home / "logs") as children:
        site = Site(children, home, LEDGER)
        try:
            yield site
        finally:
            LEDGER.faults.update(site.proxies.call("fired"))
            site.close()
    if not os.environ.get("CHAOS_KEEP"):
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def pool(site: Site) -> Iterator[Pool]:
    """A pool of its own; its workers are killed afterwards."""
    pool = site.pool()
    try:
        yield pool
    finally:
        site.proxies.call("clear")
        pool.close()
