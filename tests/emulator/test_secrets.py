"""Secret Manager as replicas see it, and how secrets get there."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import anyio
import google_crc32c
import httpx
import pytest

from prefect_vertex.cli.emulator import start
from prefect_vertex.emulator import ControlClient, ControlError, ControlServer, Emulator
from prefect_vertex.emulator.names import project_number
from prefect_vertex.emulator.secrets import MAX_PAYLOAD_BYTES, Secrets
from prefect_vertex.errors import SetupError

pytestmark = pytest.mark.anyio

NAME = "projects/demo/secrets/prefect-api-key"
NUMBERED = f"projects/{project_number('demo', {})}/secrets/prefect-api-key"


async def access(emulator: Emulator, version: str, name: str = NAME) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(f"{emulator.secrets_address}/v1/{name}/versions/{version}:access")


async def test_a_version_is_its_content_with_a_checksum(emulator: Emulator) -> None:
    """By the project's number or id; the answer names the number and the version."""
    emulator.secrets.add(NAME, "first")
    emulator.secrets.add(NUMBERED, b"\xffsecond")

    answers = [
        await access(emulator, "1"),
        await access(emulator, "2", NUMBERED),
        await access(emulator, "latest"),
    ]

    assert [answer.json()["name"][-1] for answer in answers] == ["1", "2", "2"]
    assert answers[0].json() == {
        "name": f"{NUMBERED}/versions/1",
        "payload": {
            "data": base64.b64encode(b"first").decode(),
            "dataCrc32c": str(google_crc32c.value(b"first")),
        },
    }


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (f"{NAME}/versions/9:access", 404, f"Secret Version [{NUMBERED}/versions/9] not found"),
        (f"{NAME}/versions/0:access", 404, "not found"),
        ("projects/demo/secrets/other/versions/1:access", 404, "not found or has no versions"),
        (f"{NAME}/versions/2:access", 400, "is in DISABLED state"),
        (f"{NAME}/versions/latest:access", 400, "is in DISABLED state"),
        (f"{NAME}/versions/1", 404, "No method"),
        ("", 404, "No method"),
    ],
)
async def test_what_cannot_be_read_is_refused_as_rest_does(
    emulator: Emulator, path: str, status: int, words: str
) -> None:
    emulator.secrets.add(NAME, "first")
    emulator.secrets.add(NAME, "second", "DISABLED")

    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{emulator.secrets_address}/v1/{path}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("prefect-api-key", "x"), "is not projects/PROJECT/secrets/SECRET"),
        ((f"{NAME}/versions/1", "x"), "is not projects/PROJECT/secrets/SECRET"),
        ((NAME, "x" * (MAX_PAYLOAD_BYTES + 1)), "65537 bytes; 65536 are taken"),
        ((NAME, "x", "GONE"), "state 'GONE' is none of ENABLED"),
    ],
)
def test_an_impossible_secret_is_no_secret(arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Secrets().add(*arguments)


async def test_replicas_are_told_where_it_is(
    emulator: Emulator, run_job: Callable[..., Any]
) -> None:
    job = await run_job("printenv", "SECRET_MANAGER_EMULATOR_HOST")

    assert job.output("workerpool0-0").stdout == f"{emulator.secrets_address}\n"


async def test_another_process_adds_versions_by_the_control_port(emulator: Emulator) -> None:
    async with ControlServer(emulator) as server:

        def add(**arguments: Any) -> Any:
            return ControlClient(server.address).call("add_secret_version", **arguments)

        first = await anyio.to_thread.run_sync(lambda: add(name=NAME, payload="x"))
        with pytest.raises(ControlError, match="state"):
            await anyio.to_thread.run_sync(lambda: add(name=NAME, payload="x", state="GONE"))

    assert first == f"{NUMBERED}/versions/1"
    assert (await access(emulator, "latest")).json()["name"] == first


async def test_it_ends_with_the_emulator(start_emulator: Callable[..., Any]) -> None:
    emulator = await start_emulator()
    address = emulator.secrets_address

    await emulator.stop()

    assert emulator.secrets_address == ""
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(address)


@pytest.mark.parametrize(
    ("text", "words"),
    [("name-alone", "--secret is 'name-alone'"), ("a=/nowhere/file", "Could not read /nowhere")],
)
def test_a_secret_that_cannot_be_read_stops_the_command(text: str, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        start(port=0, storage_port=0, secret=(text,))
