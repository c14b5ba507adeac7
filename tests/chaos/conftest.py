"""One site for the session, a pool for each test, and the figures at the end.

`CHAOS_LONG=1` (make chaos) runs the long form.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.chaos.ledger import Ledger

if TYPE_CHECKING:
    from tests.chaos.pool import Pool
    from tests.chaos.site import Site

LONG = os.environ.get("CHAOS_LONG", "") not in {"", "0"}
LEDGER = Ledger()
AT_ONCE = 3
"""Scenarios of the short form on one Prefect server."""


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
    LEDGER.begun = time.monotonic()
    with opened_site() as site:
        yield site


@contextmanager
def opened_site() -> Iterator[Site]:
    """Start server, emulator and proxies; their figures go into the ledger at the end.

    The server is on PostgreSQL where it is installed: SQLite takes one writer at a time.
    """
    from benchmarks.database import Database, missing_program
    from tests.chaos.site import Site
    from tests.laptop import children_of

    home = Path(tempfile.mkdtemp(prefix="prefect-vertex-chaos-"))
    with ExitStack() as stack:
        database = stack.enter_context(closing(Database())) if not missing_program() else None
        children = stack.enter_context(children_of(home))
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

    Most of a scenario is waiting, so that in the short form several take little longer than one;
    how many, the one process of the Prefect server decides.  There is a second site for the one
    that stops the services themselves, and then for whatever is left.  In the long form there is
    none of this.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._results: dict[str, Future[None]] = {}
        self._left: deque[pytest.Function] = deque()
        self._threads: list[threading.Thread] = []
        self._ended = 0.0

    def result(self, item: pytest.Function) -> None:
        """Wait for one test; the first who asks starts all that are selected."""
        if not self._results:
            self._begin(
                [
                    each
                    for each in item.session.items
                    if isinstance(each, pytest.Function) and is_beside(each)
                ]
            )
        self._results[item.nodeid].result()

    def _begin(self, beside: list[pytest.Function]) -> None:
        self._results = {each.nodeid: Future() for each in beside}
        # The long ones first, or one of them would be left to the end.
        beside.sort(key=_seconds, reverse=True)
        self._left.extend(each for each in beside if not is_disturbing(each))
        apart = [each for each in beside if is_disturbing(each)]
        self._threads = [threading.Thread(target=self._work_here) for _ in range(AT_ONCE)]
        if apart:
            self._threads.append(threading.Thread(target=self._work_apart, args=(apart,)))
        for thread in self._threads:
            thread.start()

    def _work_here(self) -> None:
        while (item := self._next()) is not None:
            self._play(item, self._site)

    def _work_apart(self, items: list[pytest.Function]) -> None:
        try:
            with opened_site() as site:
                while items:
                    self._play(items.pop(0), site)
                while (item := self._next()) is not None:
                    self._play(item, site)
        except BaseException as error:
            for item in items:
                self._results[item.nodeid].set_exception(error)
            if not items:
                raise

    def _next(self) -> pytest.Function | None:
        try:
            return self._left.popleft()
        except IndexError:
            return None

    def _play(self, item: pytest.Function, site: Site) -> None:
        given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        begun = time.monotonic()
        result = self._results[item.nodeid]
        try:
            with closing(site.pool()) as pool:
                item.obj(pool=pool, is_long=False, **given)
            result.set_result(None)
        except BaseException as error:  # noqa: BLE001 - who waits for it gets it
            result.set_exception(error)
        finally:
            self._ended = time.monotonic()
            LEDGER.seconds[item.name] = self._ended - begun

    def close(self) -> None:
        """Wait until all that were started have ended, well or not."""
        for thread in self._threads:
            thread.join()
        if self._results:
            name = f"{len(self._results)} scenarios beside each other, with their services' start"
            LEDGER.seconds[name] = self._ended - LEDGER.begun


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
    crowd.close()
    with closing(site.pool()) as pool:
        yield pool


@pytest.fixture
def wide_pool() -> Iterator[Pool]:
    """A pool on a site of its own, whose Prefect server takes many writers at once."""
    from benchmarks.database import missing_program

    if missing := missing_program():
        pytest.skip(missing)
    with opened_site() as site, closing(site.pool()) as pool:
        yield pool
