"""Fixtures and guards for every test."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:
    # For modules that tests share: folders of tests are no packages of their own.
    sys.path.insert(0, _ROOT)

_FOREIGN = (
    "PREFECT_",
    "GOOGLE_",
    "VERTEX_",
    "STORAGE_EMULATOR",
    "CLOUD_LOGGING_",
    "CLOUD_QUOTAS_",
    "GCE_METADATA",
    "CLOUDSDK_",
)
_LOOPBACK = {"127.0.0.1", "::1", "localhost", ""}

REQUIRED = "PREFECT_VERTEX_REQUIRE"
"""Markers, with commas between, whose tests must run: one that is skipped has failed.

Some tests need programs that a developer may lack; where they are installed for the tests' sake, a
skip would hide that they no longer run.
"""


# Read at once: `_clean_environment` takes it away while a test runs.
_REQUIRED = [name.strip() for name in os.environ.get(REQUIRED, "").split(",") if name.strip()]


def pytest_collection_finish(session: pytest.Session) -> None:
    """A required marker without a test is a mistake in its spelling, or in a whole module."""
    for name in _REQUIRED:
        if not any(item.get_closest_marker(name) for item in session.items):
            raise pytest.UsageError(f"{REQUIRED} names {name}, but no such test was collected.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a failure of a skip where the test's marker is required."""
    report = yield
    names = [name for name in _REQUIRED if item.get_closest_marker(name)]
    if names and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{REQUIRED} names {names[0]}, and this test did not run: {why}"
    return report


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as Prefect does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the developer's own Prefect profile or Google project."""
    for name in list(os.environ):
        if name.startswith(_FOREIGN) and name != "PREFECT_TEST_MODE":
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches for another machine fails instead of waiting for it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and address[0] not in _LOOPBACK:
            raise OSError(f"Tests stay on this machine; refused to connect to {address!r}.")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
