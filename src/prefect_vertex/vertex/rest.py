"""Google's REST APIs beside the JobService, for a diagnosis: an answer is a value, never an error.

An emulator's variable replaces the address of its own service, without credentials. Of the other
services nothing can be asked while `VERTEX_AI_EMULATOR_HOST` is set: they would be asked about a
project that exists only in the emulator.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import requests
from google.auth import exceptions as google_errors
from google.auth.transport.requests import AuthorizedSession

from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.credentials import DEFAULT_UNIVERSE, VertexCredentials
from prefect_vertex.vertex.translate import one_line

SECONDS: Final = 10.0
"""Of connecting, and of silence."""

_EMULATORS: Final = {
    "storage": "STORAGE_EMULATOR_HOST",
    "secretmanager": "SECRET_MANAGER_EMULATOR_HOST",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAnswer:
    """What a service said.

    Attributes:
        status: The HTTP status; 0 where nobody answered, or nobody was asked.
        body: The JSON object of the answer; empty for a refusal.
        problem: Why it is no success, one line; empty for a success.
        reason: `google.rpc.ErrorInfo.reason`, such as SERVICE_DISABLED.
        asked: False where this service cannot be asked from here.
    """

    status: int = 0
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str = ""
    reason: str = ""
    asked: bool = True

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP's own range


UNASKED: Final = RestAnswer(
    asked=False, problem=f"{EMULATOR_VARIABLE} is set, and the emulator does not serve this."
)


class GoogleRest:
    """Asks services by their REST API, in the name of registered credentials.

    Args:
        credentials: Loads those of a key; not called where an emulator is asked.
        environ: Where emulators' addresses are looked up; None: this process's environment.
    """

    def __init__(
        self,
        credentials: Callable[[str], Awaitable[VertexCredentials]],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._credentials = credentials
        self._environ = os.environ if environ is None else environ

    def can_ask(self, service: str) -> bool:
        """Whether that service is there to be asked."""
        return bool(self._emulator(service)) or not self._environ.get(EMULATOR_VARIABLE)

    async def ask(
        self,
        service: str,
        path: str,
        *,
        key: str = "",
        body: Mapping[str, Any] | None = None,
        content: tuple[str, bytes] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> RestAnswer:
        """One request, sent once.

        Args:
            service: First part of its host name, such as `iam`.
            path: Without a slash before it.
            key: Of the credentials to ask with.
            body: A JSON object to POST; None and no content: a GET.
            content: A media type, and what to POST as it is.
            params: The query.
        """
        emulator = self._emulator(service)
        if not self.can_ask(service):
            return UNASKED
        try:
            session, base = await self._session(service, emulator, key)
        except PrefectVertexError as error:
            return RestAnswer(problem=str(error))
        send = partial(
            session.request,
            "GET" if body is None and content is None else "POST",
            f"{base}/{path}",
            json=body,
            data=content[1] if content is not None else None,
            headers={"Content-Type": content[0]} if content is not None else None,
            params=params,
            timeout=SECONDS,
        )
        try:
            response = await anyio.to_thread.run_sync(send, abandon_on_cancel=True)
        except (requests.RequestException, google_errors.GoogleAuthError) as error:
            name = type(error).__name__
            return RestAnswer(problem=f"{base} did not answer ({name}).")
        finally:
            session.close()
        return read_answer(response.status_code, _json(response))

    def _emulator(self, service: str) -> str:
        return self._environ.get(_EMULATORS.get(service, ""), "").rstrip("/")

    async def _session(self, service: str, emulator: str, key: str) -> tuple[requests.Session, str]:
        if emulator:
            session = requests.Session()
            # Never through a proxy: the address is the user's own machine or network.
            session.trust_env = False
            return session, emulator
        credentials = await self._credentials(key)
        domain = credentials.universe_domain or DEFAULT_UNIVERSE
        open_session: Callable[..., requests.Session] = AuthorizedSession
        return open_session(credentials.google), f"https://{service}.{domain}"


def read_answer(status: int, content: Any) -> RestAnswer:
    """An answer from its status and JSON; what a refusal holds is reduced to one line."""
    body = content if isinstance(content, Mapping) else {}
    if 200 <= status < 300:  # noqa: PLR2004 - HTTP's own range
        return RestAnswer(status=status, body=body)
    error = body.get("error")
    error = error if isinstance(error, Mapping) else {}
    details = error.get("details")
    reasons = [
        str(each["reason"])
        for each in (details if isinstance(details, list) else ())
        if isinstance(each, Mapping) and each.get("reason")
    ]
    words = one_line(error.get("message") or f"HTTP status {status}")
    return RestAnswer(status=status, problem=words, reason=next(iter(reasons), ""))


def _json(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
