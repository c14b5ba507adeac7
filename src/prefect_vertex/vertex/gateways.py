"""Gateways: one gateway for each target, on shared connections, credentials and budgets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from google.auth.transport import requests as auth_requests
from google.oauth2 import service_account

from prefect_vertex.errors import AccessDeniedError, ServiceUnavailableError
from prefect_vertex.planning.credentials import CredentialValues, read_credentials
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.budget import Budgets, Clock, MonotonicClock, RateBudget
from prefect_vertex.vertex.channel import Channels, Connection, emulator_address, endpoint
from prefect_vertex.vertex.credentials import (
    VertexCredentials,
    key_file_stamp,
    load_credentials,
)
from prefect_vertex.vertex.logs import CloudLogs
from prefect_vertex.vertex.quotas import CloudQuotas, QuotaReader
from prefect_vertex.vertex.service import Deadlines, VertexJobGateway
from prefect_vertex.vertex.translate import translated


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """In whose name a target is reached, as far as it is known; empty where it is not."""

    project: str = ""
    service_account_email: str = ""


@dataclass(slots=True)
class _Credentials:
    """One key, loaded once unless its file is replaced, and refreshed by one caller at a time."""

    values: CredentialValues
    loaded: VertexCredentials | None = None
    stamp: tuple[int, ...] = ()
    turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def load(self) -> VertexCredentials:
        async with self.turn:
            stamp = self.stamp
            if self.values.service_account_file:
                stamp = await anyio.to_thread.run_sync(
                    key_file_stamp, self.values, abandon_on_cancel=True
                )
            # A file that is gone for a moment is one that is being replaced.
            if self.loaded is None or (stamp and stamp != self.stamp):
                self.loaded = await anyio.to_thread.run_sync(
                    load_credentials, self.values, abandon_on_cancel=True
                )
                self.stamp = stamp
            return self.loaded

    async def refresh(self) -> None:
        """Fetch a token if one is due, so that a refusal arrives as an error that has a type.

        gRPC would fetch it too, but reports any failure as UNAVAILABLE, which means "ask again".
        """
        credentials = await self.load()
        google = credentials.google
        # A service account's key signs its own tokens: nobody is asked.
        if isinstance(google, service_account.Credentials) or google.valid:
            return
        async with self.turn:
            if not google.valid:
                await anyio.to_thread.run_sync(
                    google.refresh, auth_requests.Request(), abandon_on_cancel=True
                )


class Gateways:
    """Where gateways come from; closed when the worker stops.

    Args:
        submissions_per_minute: Creates and deletes, by project and location.
        reads_per_minute: Every other request, by project and location.
        clock: What budgets and retries wait on.
        deadlines: How long calls may take.
        environ: Read once, for the emulator's address and the machine's project.

    Attributes:
        quotas: Reads the quotas of projects, with the same credentials.
        logs: Reads jobs' log entries, with the same credentials.

    Raises:
        SetupError: The emulator's address is not one.
    """

    def __init__(
        self,
        *,
        submissions_per_minute: float,
        reads_per_minute: float,
        clock: Clock | None = None,
        deadlines: Deadlines | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._submissions_per_minute = submissions_per_minute
        self._reads_per_minute = reads_per_minute
        self._clock = clock or MonotonicClock()
        self._deadlines = deadlines
        environ = os.environ if environ is None else environ
        self._channels = Channels(emulator_address(environ))
        self._environment_project = environ.get("GOOGLE_CLOUD_PROJECT", "")
        self._credentials = {"": _Credentials(CredentialValues())}
        self._shared_accounts: set[str] = set()
        self._budgets: dict[tuple[str, str], Budgets] = {}
        self._gateways: dict[Target, VertexJobGateway] = {}
        self.quotas = QuotaReader(CloudQuotas(self.credentials, environ), self._clock)
        self.logs = CloudLogs(self.credentials, environ)

    def register(self, block: CredentialValues | Mapping[str, Any] | None) -> str:
        """Make a block's credentials known, and give their `credentials_key`.

        Another key of an account that is known already takes the place of the older one, also for
        the jobs that were created with that, and its connections are closed: keys are rotated. Two
        keys of one account that both keep coming belong to two blocks, and are kept apart.

        Raises:
            PlanError: The values contradict each other or are not a key.
        """
        values = read_credentials(block)
        key, account = values.key, values.service_account
        known = self._credentials.get(key)
        if known is None:
            known = self._credentials[key] = _Credentials(values)
            if account and account not in self._shared_accounts:
                self._replace(known)
        elif known.values.key != key:
            self._shared_accounts.add(account)
            self._credentials[key] = _Credentials(values)
        return key

    def _replace(self, newer: _Credentials) -> None:
        account = newer.values.service_account
        for key, older in self._credentials.items():
            if older is not newer and older.values.service_account == account:
                self._credentials[key] = newer
                self._channels.retire(older.values.key)

    async def identity(self, block: CredentialValues | Mapping[str, Any] | None) -> Identity:
        """Project and account that a block's values, or the worker's own credentials, name.

        Under an emulator only what the values and GOOGLE_CLOUD_PROJECT state: nothing is asked.

        Raises:
            PlanError: As in `register`.
            ServiceError: The credentials are missing, refused or unanswered.
        """
        values = read_credentials(block)
        stated = values.project or ("" if values.key else self._environment_project)
        if self._channels.emulator or (stated and values.service_account):
            return Identity(project=stated, service_account_email=values.service_account)
        loaded = await self._known(self.register(values), "load Google credentials").load()
        return Identity(
            project=values.project or loaded.project,
            service_account_email=loaded.service_account_email,
        )

    async def credentials(self, key: str) -> VertexCredentials:
        """The loaded credentials of that key, with a token where one had to be fetched.

        Raises:
            ServiceError: They are missing, refused or unanswered, or nobody registered them.
        """
        attempted = "load Google credentials"
        known = self._known(key, attempted)
        with translated(attempted):
            loaded = await known.load()
            await known.refresh()
        return loaded

    def for_target(self, target: Target) -> VertexJobGateway:
        """The gateway of a target, always the same one. Nothing is opened or read yet.

        Raises:
            NamingError: The location cannot hold CustomJobs.
        """
        gateway = self._gateways.get(target)
        if gateway is None:
            endpoint(target.location)

            async def connect(seconds: float) -> Connection:
                return await self._connect(target, seconds)

            gateway = VertexJobGateway(
                target,
                connect=connect,
                budgets=self.budgets(target),
                clock=self._clock,
                deadlines=self._deadlines,
            )
            self._gateways[target] = gateway
        return gateway

    def budgets(self, target: Target) -> Budgets:
        """The budgets of the target's project and location, whatever its credentials."""
        place = (target.project, target.location)
        if place not in self._budgets:
            self._budgets[place] = Budgets(
                submissions=RateBudget(self._submissions_per_minute, self._clock),
                reads=RateBudget(self._reads_per_minute, self._clock),
            )
        return self._budgets[place]

    async def aclose(self) -> None:
        """Close every connection. Gateways open a new one if they are used again."""
        await self._channels.aclose()
        await self.logs.aclose()

    @property
    def is_emulated(self) -> bool:
        """Whether an emulator answers in Vertex AI's place."""
        return bool(self._channels.emulator)

    def _known(self, key: str, attempted: str) -> _Credentials:
        try:
            return self._credentials[key]
        except KeyError:
            raise AccessDeniedError(
                f"Could not {attempted}: the credentials {key} are not known here.",
                hint="They belong to a block that the pool or a deployment named; name it again.",
            ) from None

    async def _connect(self, target: Target, seconds: float) -> Connection:
        if self._channels.emulator:
            return self._channels.open(target.location, None)
        attempted = f"reach Vertex AI in {target.parent}"
        known = self._known(target.credentials_key, attempted)
        try:
            with translated(attempted), anyio.fail_after(seconds):
                credentials = await known.load()
                await known.refresh()
        except TimeoutError as error:
            raise ServiceUnavailableError(
                f"Could not {attempted}: no access token within {seconds:.0f} s.",
                resource_name=target.parent,
                hint="Check the network between the worker and its token service.",
            ) from error
        return self._channels.open(target.location, credentials)
