"""Where a location's JobService is, and the connection to it.

`VERTEX_AI_EMULATOR_HOST` is read here and nowhere else: it replaces the address for every location,
over plaintext and without credentials, and changes nothing else.  (`quotas` reads the address of
its own emulator in the same way.)
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.api_core.client_options import ClientOptions
from google.cloud.aiplatform_v1.services.job_service.async_client import JobServiceAsyncClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
    JobServiceGrpcAsyncIOTransport,
)

from prefect_vertex.errors import NamingError, SetupError
from prefect_vertex.vertex.credentials import DEFAULT_UNIVERSE, VertexCredentials
from prefect_vertex.vertex.translate import Peer

EMULATOR_VARIABLE = "VERTEX_AI_EMULATOR_HOST"

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # A page of 100 jobs is 3 MB where the service ignores the read mask; gRPC's limit is 4 MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A create is sent once: no retry below ours, nor one that a name server's record asks for.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # A connection that died silently is noticed within half a minute, while a call is under way;
    # two pings a minute are what a gRPC server tolerates.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Back soon after an outage: the default grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)

_HOST_PORT = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$")
_SCHEME = re.compile(r"^http://", re.IGNORECASE)
_LOCATION = re.compile(r"^[a-z][a-z0-9-]{0,62}$")
_MULTI_REGIONS = frozenset({"global", "us", "eu"})


def emulator_address(
    environ: Mapping[str, str] | None = None,
    *,
    variable: str = EMULATOR_VARIABLE,
    service: str = "Vertex AI",
) -> str:
    """The emulator's host:port; empty where the real service is meant.

    `http://host:port/` is taken too: it is how the storage emulator's address is written.

    Args:
        environ: Where to look; None: this process's environment.
        variable: The variable that names the address.
        service: What answers where it is not set, for the message.

    Raises:
        SetupError: The variable holds something else.
    """
    text = (os.environ if environ is None else environ).get(variable, "").strip()
    address = _SCHEME.sub("", text)
    if address != text:
        address = address.removesuffix("/")
    if text and _HOST_PORT.match(address) is None:
        raise SetupError(
            f"{variable}={text!r} is not an address.",
            hint=f"Set it to host:port, such as 127.0.0.1:9090, or unset it to use {service}.",
        )
    return address


def endpoint(location: str, universe_domain: str = DEFAULT_UNIVERSE) -> str:
    """Host of a location's JobService.

    Raises:
        NamingError: No CustomJob can run there, or it would make a host of somebody's choosing.
    """
    if _LOCATION.match(location) is None or location in _MULTI_REGIONS:
        raise NamingError(
            f"{location!r} is not a location of CustomJobs.",
            variable="region",
            hint="CustomJobs are regional: set region to one such as us-central1.",
        )
    return f"{location}-aiplatform.{universe_domain}"


_Place = tuple[asyncio.AbstractEventLoop, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One open channel, with Google's own client on it.

    Attributes:
        client: Shared by every gateway of the same address and credentials.
        peer: Who answers, for messages.
        credentials: What signs its requests; None for an emulator.
    """

    client: JobServiceAsyncClient
    peer: Peer
    credentials: VertexCredentials | None = None


def _open_plaintext(address: str) -> JobServiceAsyncClient:
    # Never through a proxy: the address is the user's own machine or network.
    options = [*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.insecure_channel(address, options=options)
    return JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))


def _authorized_channel(
    host: str,
    *,
    server_trust: grpc.ChannelCredentials | None = None,
    **arguments: Any,
) -> grpc.aio.Channel:
    """Google's own channel, TLS and credentials composed, with our options in place of theirs."""
    arguments["options"] = list(CHANNEL_OPTIONS)
    if server_trust is not None:
        arguments["ssl_credentials"] = server_trust
    channel: grpc.aio.Channel = JobServiceGrpcAsyncIOTransport.create_channel(host, **arguments)
    return channel


def open_authorized(
    host: str,
    credentials: VertexCredentials,
    *,
    server_trust: grpc.ChannelCredentials | None = None,
) -> JobServiceAsyncClient:
    """Open a TLS channel whose requests are signed by the credentials.

    Args:
        host: Name of the service, with a port if it is not 443.
        credentials: Whose name the requests go out in.
        server_trust: Which servers to trust; None: those that gRPC's own roots vouch for.
    """
    return JobServiceAsyncClient(
        credentials=credentials.google,
        transport=partial(
            JobServiceGrpcAsyncIOTransport,
            channel=partial(_authorized_channel, server_trust=server_trust),
        ),
        client_options=ClientOptions(
            api_endpoint=host, universe_domain=credentials.universe_domain
        ),
    )


class Channels:
    """Open connections, one for each event loop, address and credentials, closed together.

    A gRPC channel belongs to the event loop that it was opened in.

    Args:
        emulator: host:port that answers for every location; empty: the real service.

    Attributes:
        retire_seconds: How long calls over a connection that was replaced may still take.
    """

    def __init__(self, emulator: str = "") -> None:
        self.emulator = emulator
        self.retire_seconds = 60.0
        self._connections: dict[_Place, Connection] = {}
        self._closing: dict[asyncio.Task[None], grpc.aio.Channel] = {}

    def open(self, location: str, credentials: VertexCredentials | None) -> Connection:
        """The connection for a location, opened if it is the first to ask.

        Credentials that were read anew, from a key file that was replaced, get a new one; the old
        one is closed.

        Args:
            location: Vertex AI location.
            credentials: Whose name to ask in; None only for an emulator.
        """
        if self.emulator or credentials is None:
            address, key = self.emulator, ""
        else:
            address, key = endpoint(location, credentials.universe_domain), credentials.key
        place = (asyncio.get_running_loop(), address, key)
        connection = self._connections.get(place)
        if connection is not None and key and connection.credentials is not credentials:
            self.retire(key)
            connection = None
        if connection is None:
            self._forget_ended_loops()
            connection = self._connect(address, location, credentials)
            self._connections[place] = connection
        return connection

    def retire(self, key: str) -> None:
        """Close this loop's connections of credentials that nobody uses any more.

        Calls that are under way may end first.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # outside a loop nothing of it can be open
        for place in [each for each in self._connections if each[0] is loop and each[2] == key]:
            channel = _channel_of(self._connections.pop(place))
            task = loop.create_task(self._close_later(channel))
            self._closing[task] = channel
            task.add_done_callback(lambda done: self._closing.pop(done, None))

    async def _close_later(self, channel: grpc.aio.Channel) -> None:
        # Not by gRPC's own grace (1.85): a close that waits cannot be hurried any more.
        await asyncio.sleep(self.retire_seconds)
        await channel.close()

    def _forget_ended_loops(self) -> None:
        """Their channels ended with them, and can be closed by nobody."""
        for place in [each for each in self._connections if each[0].is_closed()]:
            del self._connections[place]

    def _connect(
        self, address: str, location: str, credentials: VertexCredentials | None
    ) -> Connection:
        if self.emulator or credentials is None:
            check = (
                f"{EMULATOR_VARIABLE} names this address: start the emulator there, or unset it"
                " to use Vertex AI."
            )
            client = _open_plaintext(address)
            connection = Connection(client=client, peer=Peer(address=address, check=check))
        else:
            check = (
                f"If it stays so, check the worker's network and that {location!r} is a Vertex AI"
                f" location; {EMULATOR_VARIABLE} is not set."
            )
            client = open_authorized(address, credentials)
            peer = Peer(address=address, check=check)
            connection = Connection(client=client, peer=peer, credentials=credentials)
        # At DEBUG, Google's interceptor logs whole requests, and with them a job's environment.
        logging.getLogger(JobServiceGrpcAsyncIOTransport.__module__).setLevel(logging.INFO)
        return connection

    async def aclose(self) -> None:
        """Close every connection of this event loop; calls that are under way fail."""
        loop = asyncio.get_running_loop()
        for task, channel in list(self._closing.items()):
            if task.get_loop() is loop:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await channel.close()
        for place in [each for each in self._connections if each[0] is loop]:
            await _channel_of(self._connections.pop(place)).close()


def _channel_of(connection: Connection) -> grpc.aio.Channel:
    transport: Any = connection.client.transport
    channel: grpc.aio.Channel = transport.grpc_channel
    return channel
