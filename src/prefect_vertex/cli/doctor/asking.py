"""Asking: one place to ask Google from, in the name of each place's own credentials."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio

from prefect_vertex.cli.doctor.about_project import Caller, about_credentials
from prefect_vertex.cli.doctor.finding import Finding
from prefect_vertex.cli.doctor.place import Place
from prefect_vertex.errors import PrefectVertexError, SetupError
from prefect_vertex.planning.credentials import CredentialValues
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.rest import GoogleRest, RestAnswer

if TYPE_CHECKING:
    from prefect_vertex.vertex.gateways import Gateways

SECONDS: Final = 20.0
"""Of one check, all its questions together."""


class Asking:
    """Asks services; what several checks need is asked for once.

    Args:
        gateways: Knows the credentials.

    Attributes:
        rest: Google's services beside the JobService.
        emulated: Whether Vertex AI is an emulator here.
        callers: Whom each key's credentials name, of those that could be loaded.
    """

    def __init__(self, gateways: Gateways) -> None:
        self.gateways = gateways
        self.rest = GoogleRest(gateways.credentials)
        self.emulated = bool(os.environ.get(EMULATOR_VARIABLE))
        self.callers: dict[str, Caller] = {}
        self._known: dict[str, RestAnswer] = {}
        self._turns: dict[str, anyio.Lock] = {}

    async def credentials(self, values: CredentialValues) -> Finding:
        """Load credentials, and a token where one has to be fetched; all else asks with them."""
        if self.emulated:
            self.callers[values.key] = Caller()
            return about_credentials(None, values.key)
        found: Caller | PrefectVertexError
        try:
            with anyio.fail_after(SECONDS):
                identity = await self.gateways.identity(values)
                await self.gateways.credentials(self.gateways.register(values))
        except PrefectVertexError as error:
            found = error
        except TimeoutError:
            found = SetupError(f"The token service gave no answer within {SECONDS:.0f} s.")
        else:
            found = Caller(project=identity.project, account=identity.service_account_email)
            self.callers[values.key] = found
        return about_credentials(found, values.key)

    def caller(self, place: Place) -> Caller:
        """Who asks about a place."""
        return self.callers[place.target.credentials_key]

    async def ask(
        self,
        service: str,
        path: str,
        place: Place,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> RestAnswer:
        """One request with the credentials of a place; see `GoogleRest.ask`."""
        key = place.target.credentials_key
        return await self.rest.ask(service, path, key=key, body=body, params=params)

    async def project_policy(self, project: str, place: Place) -> RestAnswer:
        """A project's allow policy."""
        path = f"v3/projects/{project}:getIamPolicy"
        return await self._once(
            path, lambda: self.ask("cloudresourcemanager", path, place, body={})
        )

    async def project_number(self, project: str, place: Place) -> str:
        """A project's number; empty if it cannot be read."""
        path = f"v3/projects/{project}"
        answer = await self._once(path, lambda: self.ask("cloudresourcemanager", path, place))
        return str(answer.body.get("name", "")).rpartition("/")[2]

    async def _once(self, name: str, ask: Callable[[], Awaitable[RestAnswer]]) -> RestAnswer:
        async with self._turns.setdefault(name, anyio.Lock()):
            if name not in self._known:
                self._known[name] = await ask()
            return self._known[name]
