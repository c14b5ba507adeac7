"""Fixtures and guards for every test."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

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
