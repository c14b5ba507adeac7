"""A whole installation for the end-to-end tests: one server, one emulator, one worker a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from tests.e2e.installation import Installation, installed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts real processes."""
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module", autouse=True)
def _module_ends(installation: Installation) -> Iterator[None]:
    """End a module's workers, and Prefect's threads, which hold sockets until they are told."""
    yield
    installation.end_workers()
    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """Server, emulator and storage; each test brings its own pool."""
    with installed("e2e") as found:
        yield found
