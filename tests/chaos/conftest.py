"""One site for the session, a pool for each test, and the figures at the end.

`CHAOS_LONG=1` (make chaos) runs the long form.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if str(Path(__file__).resolve().parents[2]) not in sys.path:
    # For the modules beside this one: test folders are no packages of their own.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos.ledger import Ledger

from prefect_vertex.cli.children import Children

if TYPE_CHECKING:
    from tests.chaos.pool import Pool
    from tests.chaos.site import Site

LONG = os.environ.get("CHAOS_LONG", "") not in {"", "0"}
LEDGER = Ledger()


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks of this folder."""
    config.addinivalue_line("markers", "chaos: real processes, killed and cut off")
    config.addinivalue_line(
        "markers", "beside(seconds): runs beside others in the short form; its length"
    )
    config.addinivalue_line("markers", "disturbing: beside others only with a site of its own")
    config.addinivalue_line("markers", "long: only with CHAOS_LONG=1, as `make chaos` sets it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts real processes; some of it takes long."""
    for item in items:
        if "chaos" not in item.path.parts:
            continue
        item.add_marker(pytest.mark.chaos)
        item.add_marker(pytest.mark.timeout(1800 if LONG else 600))
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
    with opened_site() as site:
        yield site


@contextmanager
def opened_site(*, is_wide: bool = False) -> Iterator[Site]:
    """Start server, emulator and proxies; their figures go into the ledger at the end.

    Args:
        is_wide: For more writers at once than SQLite bears: the server is on PostgreSQL.
    """
    from benchmarks.database import Database
    from tests.chaos.site import Site

    home = Path(tempfile.mkdtemp(prefix="prefect-vertex-chaos-"))
    (home / "logs").mkdir()
    with ExitStack() as stack:
        database = stack.enter_context(closing(Database())) if is_wide else None
        children = stack.enter_context(Children(home / "logs"))
        url = database.start(children) if database is not None else ""
        site = Site(children, home, LEDGER, url)
        try:
            yield site
        finally:
            fired = site.proxies.call("fired")
            with LEDGER.lock:
                LEDGER.faults.update(fired)
            site.close()
    if not os.environ.get("CHAOS_KEEP"):
        shutil.rmtree(home, ignore_errors=True)


class Crowd:
    """Runs the tests that are marked `beside` at once, each in a thread with a pool of its own.

    Most of a scenario is waiting, so that in the short form three of them take little longer than
    one; more would find the limit of the server's SQLite.  One that stops the services themselves
    has its own, and a thread beside those.  In the long form there is none of this.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._begun: dict[str, Future[None]] = {}
        self._threads = ThreadPoolExecutor(max_workers=3)
        self._apart = ThreadPoolExecutor(max_workers=1)

    def result(self, item: pytest.Function) -> None:
        """Wait for one test; the first who asks starts all that are selected."""
        if not self._begun:
            beside = [
                each
                for each in item.session.items
                if isinstance(each, pytest.Function) and is_beside(each)
            ]
            # The long ones first, or one of them would be left to the end.
            for each in sorted(beside, key=_seconds, reverse=True):
                threads = self._apart if is_disturbing(each) else self._threads
                self._begun[each.nodeid] = threads.submit(self._play, each)
        self._begun[item.nodeid].result()

    def _play(self, item: pytest.Function) -> None:
        given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        begun = time.monotonic()
        try:
            with self._place(item) as site, closing(site.pool()) as pool:
                item.obj(pool=pool, is_long=False, **given)
        finally:
            LEDGER.seconds[item.name] = time.monotonic() - begun

    @contextmanager
    def _place(self, item: pytest.Function) -> Iterator[Site]:
        if not is_disturbing(item):
            yield self._site
            return
        with opened_site() as site:
            yield site

    def wait(self) -> None:
        """Wait until all that were started have ended, well or not."""
        wait(self._begun.values())

    def close(self) -> None:
        """Wait, and let go of the threads."""
        self._threads.shutdown()
        self._apart.shutdown()


def _seconds(item: pytest.Function) -> float:
    """About how long a test that runs beside others takes; for their order."""
    mark = item.get_closest_marker("beside")
    return float(mark.kwargs.get("seconds", 0)) if mark is not None else 0.0


def is_disturbing(item: pytest.Function) -> bool:
    """Whether a test stops what the others use."""
    return item.get_closest_marker("disturbing") is not None


def is_beside(item: pytest.Item) -> bool:
    """Whether a test runs beside others."""
    is_short = not LONG and item.get_closest_marker("long") is None
    return is_short and item.get_closest_marker("beside") is not None


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Take the result of a test that runs beside others; any other is run as usual."""
    if "chaos" not in pyfuncitem.path.parts or not is_beside(pyfuncitem):
        return None
    crowd = pyfuncitem.funcargs["crowd"]
    assert isinstance(crowd, Crowd)
    crowd.result(pyfuncitem)
    return True


@pytest.fixture(scope="session")
def crowd(site: Site) -> Iterator[Crowd]:
    """The tests that run beside each other."""
    with closing(Crowd(site)) as crowd:
        yield crowd


@pytest.fixture
def pool(site: Site, crowd: Crowd, request: pytest.FixtureRequest) -> Iterator[Pool | None]:
    """A pool of its own; one that runs beside others makes it in its own thread."""
    if is_beside(request.node):
        yield None
        return
    crowd.wait()
    with closing(site.pool()) as pool:
        yield pool


@pytest.fixture
def wide_pool() -> Iterator[Pool]:
    """A pool on a site of its own, whose Prefect server takes many writers at once."""
    from benchmarks.database import missing_program

    if missing := missing_program():
        pytest.skip(missing)
    with opened_site(is_wide=True) as site, closing(site.pool()) as pool:
        yield pool
