"""A whole installation for the end-to-end tests: one server, one emulator, one worker a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

if str(Path(__file__).resolve().parents[2]) not in sys.path:
    # For the modules beside this one: test folders are no packages of their own.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.e2e.installation import Installation, installed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts real processes."""
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="module", autouse=True)
def _prefect_threads() -> Iterator[None]:
    """End Prefect's background threads of this process, which hold sockets until they are told."""
    yield
    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """Server, emulator and storage; each test brings its own pool."""
    with installed("prefect-vertex-e2e-") as found:
        yield found
