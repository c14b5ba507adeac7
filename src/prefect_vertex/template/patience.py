"""Asking the Prefect API again while it has a bad moment."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import anyio
import httpx

from prefect_vertex.planning.addresses import told

T = TypeVar("T")

BUDGET_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 10.0

logger = logging.getLogger(__name__)


async def patiently(ask: Callable[[], Awaitable[T]], *, budget_seconds: float | None = None) -> T:
    """Ask, and ask again while the API does not answer, answers 5xx or says that it is too much.

    Also while a page answers in its place, such as one about maintenance.

    Args:
        ask: Asks once; safe to repeat.
        budget_seconds: After this long the last error is raised; None: `BUDGET_SECONDS`.

    Raises:
        httpx.HTTPError: The API's trouble lasted, or it refused.
        json.JSONDecodeError: What answers in its place is not it, and that lasted.
    """
    budget = BUDGET_SECONDS if budget_seconds is None else budget_seconds
    deadline = anyio.current_time() + budget
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await ask()
        except (httpx.TransportError, httpx.HTTPStatusError, json.JSONDecodeError) as error:
            # Runs that were submitted together do not come back together.
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret
            if not _may_pass(error) or anyio.current_time() + wait > deadline:
                raise
            if pause == FIRST_PAUSE_SECONDS:
                logger.warning(
                    "The Prefect API is asked again, for up to %g s: %s %s",
                    budget,
                    type(error).__name__,
                    told(error),
                )
        await anyio.sleep(wait)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _may_pass(
    error: httpx.TransportError | httpx.HTTPStatusError | json.JSONDecodeError,
) -> bool:
    if isinstance(error, json.JSONDecodeError):
        return True
    if isinstance(error, httpx.TransportError):
        return not isinstance(error, httpx.UnsupportedProtocol)
    status = error.response.status_code
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.REQUEST_TIMEOUT,
    }
