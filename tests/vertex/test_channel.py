"""Where a location's service is, and the connection to it: plain for an emulator, signed else."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.auth import credentials as google_credentials
from google.cloud.aiplatform_v1 import types

from prefect_vertex.errors import NamingError, SetupError
from prefect_vertex.vertex.channel import (
    EMULATOR_VARIABLE,
    Channels,
    Connection,
    emulator_address,
    endpoint,
    open_authorized,
)
from prefect_vertex.vertex.credentials import VertexCredentials

pytestmark = pytest.mark.anyio

NAME = "projects/p/locations/us-central1/customJobs/7"


class _Token(google_credentials.Credentials):
    """Credentials that need nobody to make a token."""

    def refresh(self, request: Any) -> None:
        self.token = "secret-token"


def _credentials(key: str = "", **fields: Any) -> VertexCredentials:
    token: Callable[[], google_credentials.Credentials] = _Token
    return VertexCredentials(google=token(), key=key, **fields)


@pytest.mark.parametrize("environ", [{}, {EMULATOR_VARIABLE: ""}, {EMULATOR_VARIABLE: "  "}])
def test_without_the_variable_the_real_service_is_meant(environ: dict[str, str]) -> None:
    assert emulator_address(environ) == ""


@pytest.mark.parametrize("address", ["127.0.0.1:9090", "emulator:1", "[::1]:80"])
def test_the_variable_is_an_address(address: str) -> None:
    assert emulator_address({EMULATOR_VARIABLE: f" {address} "}) == address


@pytest.mark.parametrize("text", ["http://127.0.0.1:9090", "HTTP://127.0.0.1:9090/"])
def test_an_address_written_as_a_url_is_taken(text: str) -> None:
    assert emulator_address({EMULATOR_VARIABLE: text}) == "127.0.0.1:9090"


REFUSED = [
    "https://127.0.0.1:9090",
    "http://h:1/x",
    "http://",
    "localhost",
    "a:b",
    "h:1/",
    "garbage",
]


@pytest.mark.parametrize("address", REFUSED)
def test_anything_else_in_the_variable_is_refused(address: str) -> None:
    with pytest.raises(SetupError, match=EMULATOR_VARIABLE):
        emulator_address({EMULATOR_VARIABLE: address})


def test_the_variable_is_read_from_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EMULATOR_VARIABLE, "127.0.0.1:5")

    assert emulator_address() == "127.0.0.1:5"


def test_endpoints_are_regional_and_belong_to_the_credentials_cloud() -> None:
    assert endpoint("us-central1") == "us-central1-aiplatform.googleapis.com"
    assert endpoint("u-eu-west1", "s3nsapis.fr") == "u-eu-west1-aiplatform.s3nsapis.fr"


@pytest.mark.parametrize("location", ["global", "us", "eu", "", "evil.example/x", "US-CENTRAL1"])
def test_a_location_without_custom_jobs_is_refused(location: str) -> None:
    with pytest.raises(NamingError, match="not a location"):
        endpoint(location)


async def test_one_connection_for_each_address_and_credentials() -> None:
    channels = Channels()
    here, there = _credentials("a"), _credentials("b")

    first = channels.open("us-central1", here)

    assert channels.open("us-central1", here) is first
    assert channels.open("us-central1", there) is not first
    assert channels.open("us-east1", here) is not first
    assert first.peer.address == "us-central1-aiplatform.googleapis.com"
    assert "us-central1" in first.peer.check
    await channels.aclose()


async def test_an_emulator_answers_for_every_location_and_all_credentials() -> None:
    channels = Channels("127.0.0.1:1")

    first = channels.open("us-central1", None)

    assert channels.open("europe-west4", None) is first
    assert channels.open("europe-west4", _credentials("a")) is first
    assert first.peer.address == "127.0.0.1:1"
    assert first.credentials is None
    await channels.aclose()


async def test_a_closed_connection_is_opened_anew() -> None:
    channels = Channels("127.0.0.1:1")
    first = channels.open("us-central1", None)
    await channels.aclose()

    assert channels.open("us-central1", None) is not first
    await channels.aclose()


async def test_an_emulator_is_sent_no_credentials(job_service: Any, a_job: Any) -> None:
    job_service.answer("GetCustomJob", a_job(7))
    channels = Channels(job_service.address)

    client = channels.open("us-central1", _credentials()).client
    await client.get_custom_job(types.GetCustomJobRequest(name=NAME), timeout=10, retry=None)

    assert "authorization" not in job_service.metadata[0]
    await channels.aclose()


@pytest.fixture
def certificate() -> tuple[bytes, bytes]:
    """A key, and a certificate for localhost that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, built.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
async def tls_address(job_service: Any, certificate: tuple[bytes, bytes]) -> AsyncIterator[str]:
    """The scripted JobService once more, behind TLS."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((job_service.handlers(),))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([certificate]))
    await server.start()
    yield f"localhost:{port}"
    await server.stop(0)


async def test_the_real_service_is_sent_a_token_over_tls(
    job_service: Any, tls_address: str, certificate: tuple[bytes, bytes], a_job: Any
) -> None:
    job_service.answer("GetCustomJob", a_job(7))
    client = open_authorized(
        tls_address, _credentials(), server_trust=grpc.ssl_channel_credentials(certificate[1])
    )

    await client.get_custom_job(types.GetCustomJobRequest(name=NAME), timeout=10, retry=None)

    assert job_service.metadata[0]["authorization"] == "Bearer secret-token"
    await client.transport.close()  # type: ignore[no-untyped-call]


async def test_a_server_that_nobody_vouches_for_gets_no_token(
    job_service: Any, tls_address: str, a_job: Any
) -> None:
    job_service.answer("GetCustomJob", a_job(7))
    client = open_authorized(tls_address, _credentials())

    with pytest.raises(Exception, match=r"certificate|handshake|SSL"):
        await client.get_custom_job(types.GetCustomJobRequest(name=NAME), timeout=10, retry=None)

    assert job_service.metadata == []
    await client.transport.close()  # type: ignore[no-untyped-call]


def test_another_event_loop_gets_a_client_of_its_own() -> None:
    """A channel dies with the loop that it was opened in: "Event loop is closed"."""
    channels = Channels("127.0.0.1:1")

    async def use() -> Connection:
        first = channels.open("us-central1", None)
        assert channels.open("us-east1", None) is first
        return first

    one = asyncio.run(use())
    other = asyncio.run(use())

    assert other.client is not one.client
    assert len(channels._connections) == 1
