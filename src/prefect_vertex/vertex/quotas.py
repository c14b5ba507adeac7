"""A project's quotas of machines, through Google's Cloud Quotas client (the `quota` extra).

One listing tells all metrics in all regions; it takes the permission `cloudquotas.quotas.get`.  It
is a diagnostic: whatever goes wrong leaves the limits unknown, and says why in one line.
`CLOUD_QUOTAS_EMULATOR_HOST` is read here and nowhere else: it replaces the address, over plaintext
and without credentials, and changes nothing else.

Fields: google-cloud-quotas 0.6.3, `QuotaInfo`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol

import anyio
import grpc
from google.api_core.client_options import ClientOptions

from prefect_vertex.capacity.meters import SERVICE
from prefect_vertex.capacity.quota import ProjectQuotas
from prefect_vertex.errors import PrefectVertexError, ServiceError, SetupError
from prefect_vertex.planning.addresses import told, trace_of
from prefect_vertex.vertex.awaiting import answered
from prefect_vertex.vertex.budget import Clock, MonotonicClock
from prefect_vertex.vertex.channel import CHANNEL_OPTIONS, emulator_address
from prefect_vertex.vertex.credentials import VertexCredentials
from prefect_vertex.vertex.translate import Peer, translated

logger = logging.getLogger(__name__)

EMULATOR_VARIABLE: Final = "CLOUD_QUOTAS_EMULATOR_HOST"

KEPT_SECONDS: Final = 600.0
"""A limit changes when somebody is granted more: hardly within one run."""
PROBLEM_KEPT_SECONDS: Final = 60.0
"""A reading that failed is soon tried again, but not by each of a hundred runs."""
TIMEOUT_SECONDS: Final = 30.0
"""All pages of one listing, and the credentials before it."""
CALL_SECONDS: Final = 20.0
"""One page: well below the above, so that what ends a call says why."""

_PAGE_SIZE: Final = 500
_NEVER: Final = float("-inf")
_CLIENT: Final = "google.cloud.cloudquotas_v1"
_TRANSPORT: Final = f"{_CLIENT}.services.cloud_quotas.transports.grpc_asyncio"

LoadCredentials = Callable[[str], Awaitable[VertexCredentials]]


class QuotaSource(Protocol):
    """Where limits come from."""

    async def limits(self, project: str, credentials_key: str) -> Mapping[tuple[str, str], int]:
        """The limits in effect, by metric and location; below 0: unlimited.

        Raises:
            PrefectVertexError: They cannot be read.
        """
        ...


class CloudQuotas:
    """The Cloud Quotas API.

    Args:
        credentials: Loads those of a key; not called where an emulator is named.
        environ: Where the emulator's address is looked up; None: this process's environment.
    """

    def __init__(
        self, credentials: LoadCredentials, environ: Mapping[str, str] | None = None
    ) -> None:
        self._credentials = credentials
        self._environ = os.environ if environ is None else environ

    async def limits(self, project: str, credentials_key: str) -> Mapping[tuple[str, str], int]:
        """See `QuotaSource`; one listing over a connection of its own."""
        parent = f"projects/{project}/locations/global/services/{SERVICE}"
        address = emulator_address(
            self._environ, variable=EMULATOR_VARIABLE, service="the Cloud Quotas API"
        )
        await _check_installed()
        client = await self._open(address, credentials_key)
        check = f"Check the worker's network; {EMULATOR_VARIABLE} is {'' if address else 'not '}set"
        peer = Peer(address=address or client.api_endpoint, check=f"{check}.")
        request = {"parent": parent, "page_size": _PAGE_SIZE}
        try:
            with translated("list quotas", parent, peer=peer):
                return limits_of(await answered(_all_infos(client, request)))
        finally:
            with anyio.CancelScope(shield=True):
                await client.transport.close()

    async def _open(self, address: str, credentials_key: str) -> Any:
        transport = import_module(_TRANSPORT).CloudQuotasGrpcAsyncIOTransport
        client = import_module(_CLIENT).CloudQuotasAsyncClient
        if address:
            options = [*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0)]
            channel = grpc.aio.insecure_channel(address, options=options)
            return client(transport=transport(channel=channel))
        credentials = await self._credentials(credentials_key)
        domain = credentials.universe_domain
        return client(
            credentials=credentials.google,
            client_options=ClientOptions(
                api_endpoint=f"cloudquotas.{domain}", universe_domain=domain
            ),
        )


@dataclass(slots=True)
class _Kept:
    """The last reading of one project."""

    turn: anyio.Lock = field(default_factory=anyio.Lock)
    quotas: ProjectQuotas = field(default_factory=ProjectQuotas)
    until: float = _NEVER


class QuotaReader:
    """Reads projects' quotas, each at most every ten minutes, and never raises.

    Args:
        source: Where they come from.
        clock: What the ten minutes are counted on.
    """

    def __init__(self, source: QuotaSource, clock: Clock | None = None) -> None:
        self._source = source
        self._clock = clock or MonotonicClock()
        self._kept: dict[tuple[str, str], _Kept] = {}

    async def read(self, places: Iterable[tuple[str, str]]) -> dict[str, ProjectQuotas]:
        """The quotas of projects, each with the key of credentials that may know them.

        Where several credentials reach one project, the first that can read them decides.
        """
        found: dict[str, ProjectQuotas] = {}
        for project, key in dict.fromkeys(places):
            if project not in found or found[project].problem:
                quotas = await self._read(project, key)
                if project not in found or not quotas.problem:
                    found[project] = quotas
        return found

    async def _read(self, project: str, key: str) -> ProjectQuotas:
        kept = self._kept.setdefault((project, key), _Kept())
        async with kept.turn:
            if self._clock.now() >= kept.until:
                kept.quotas = await self._ask(project, key)
                seconds = PROBLEM_KEPT_SECONDS if kept.quotas.problem else KEPT_SECONDS
                kept.until = self._clock.now() + seconds
            return kept.quotas

    async def _ask(self, project: str, key: str) -> ProjectQuotas:
        try:
            with anyio.fail_after(TIMEOUT_SECONDS):
                return ProjectQuotas(limits=await self._source.limits(project, key))
        except TimeoutError:
            return ProjectQuotas(problem=f"no answer within {TIMEOUT_SECONDS:.0f} s.")
        except PrefectVertexError as error:
            return ProjectQuotas(problem=_problem(error))
        except Exception as error:  # noqa: BLE001 - a diagnostic never ends a run
            # The run's log says it in a line, this log in full.
            text = f"The quotas of project {project} were not read."
            logger.warning("%s\n%s", text, trace_of(error))
            return ProjectQuotas(problem=f"{type(error).__name__}: {told(error)}")


async def _all_infos(client: Any, request: Mapping[str, Any]) -> list[Any]:
    """Every page."""
    pages = await client.list_quota_infos(request=request, timeout=CALL_SECONDS, retry=None)
    return [info async for info in pages]


def limits_of(infos: Iterable[Any]) -> dict[tuple[str, str], int]:
    """The limits in effect by metric and location, from `QuotaInfo`s.

    Rates of calls are left out. A location's own entry wins over one for all locations, and where
    several quotas bound one metric, the smallest; what has no value in effect is left out.
    """
    found: dict[tuple[str, str], int] = {}
    for info in infos:
        if info.refresh_interval:
            continue
        for place, value in _by_location(info).items():
            known = found.get((info.metric, place), value)
            found[info.metric, place] = _smaller(known, value)
    return found


def _by_location(info: Any) -> dict[str, int]:
    """One quota's values by location; of two for one place the first, more specific, counts."""
    values: dict[str, int] = {}
    for entry in info.dimensions_infos:
        others = set(entry.dimensions) - {"region"}
        if others or "details" not in entry:
            continue
        region = entry.dimensions.get("region", "")
        places = [region] if region else list(entry.applicable_locations)
        for place in places or [""]:
            values.setdefault("" if place == "global" else place, entry.details.value)
    return values


def _smaller(one: int, other: int) -> int:
    bounded = [value for value in (one, other) if value >= 0]
    return min(bounded, default=-1)


def _problem(error: PrefectVertexError) -> str:
    if not isinstance(error, ServiceError) or error.code != "PERMISSION_DENIED":
        return str(error)
    # The usual hints are about another service.
    if error.verdict.reason == "SERVICE_DISABLED":
        return f"{error.message} Enable cloudquotas.googleapis.com in the project."
    return f"{error.message} Give the worker's account roles/cloudquotas.viewer in the project."


async def _check_installed() -> None:
    try:
        # Half a second at its first import, which the worker's other runs do not wait for.
        await anyio.to_thread.run_sync(import_module, _CLIENT)
    except ModuleNotFoundError as error:
        raise SetupError(
            "the google-cloud-quotas package is not installed.",
            hint='Run `pip install "prefect-vertex[quota]"`.',
        ) from error
