"""Waiting for what has to come, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

BUSY_SECONDS = 120.0
LOOK_SECONDS = 0.05
ASK_SECONDS = 0.25
"""Between two questions to a service: each costs the server as much as a worker's call does."""
T = TypeVar("T")


def wait_for(
    holds: Callable[[], Any], seconds: float, what: str, *, pause: float = LOOK_SECONDS
) -> Any:
    """Wait until something holds, looking at it after each pause; returns what it gave.

    Raises:
        AssertionError: It did not in time.
    """
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
    return value


def patiently(ask: Callable[[], T]) -> T:
    """What the server answers, also where it says for a while that its database is locked."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return ask()
        except httpx.HTTPStatusError as error:
            busy = error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE
            if not busy or time.monotonic() > deadline:
                raise
