"""The client's errors, renamed once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import httpx
from prefect.exceptions import ObjectNotFound

from prefect_vertex.planning.addresses import told
from prefect_vertex.runs.port import PrefectUnavailableError


class StatusError(Exception):
    """The API answered with a status that the caller knows how to read."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


@asynccontextmanager
async def asking(*statuses: int) -> AsyncIterator[None]:
    """Rename the client's errors once.

    "Not found" and the given statuses become `StatusError`, everything else means that the API
    failed.
    """
    try:
        yield
    except ObjectNotFound as error:
        raise StatusError(HTTPStatus.NOT_FOUND) from error
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if status in {HTTPStatus.NOT_FOUND, *statuses}:
            raise StatusError(status) from error
        raise PrefectUnavailableError(
            f"The Prefect API answered {status} to {error.request.method} "
            f"{error.request.url.path}.",
        ) from error
    except httpx.HTTPError as error:
        raise PrefectUnavailableError(
            f"The Prefect API did not answer: {type(error).__name__} {told(error)}".rstrip(),
        ) from error
    except ValueError as error:
        raise PrefectUnavailableError(about_stranger(error)) from error


def about_stranger(error: ValueError) -> str:
    """What an answer says that is not Prefect's: a proxy's login page comes with 200."""
    words = told(error) or type(error).__name__
    return f"What answers at PREFECT_API_URL is not the Prefect API: {words}"
