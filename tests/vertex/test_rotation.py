"""A key that is replaced is noticed, wherever it is kept, and what used the old one is closed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import grpc
import pytest
from google.api_core import exceptions as google_errors

from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.channel import Channels, Connection
from prefect_vertex.vertex.gateways import Gateways

pytestmark = pytest.mark.anyio

api_errors: Any = google_errors  # has no types

NAME = "projects/p/locations/us-central1/customJobs/7"


class Asked:
    """Calls on a connection, and what came of them."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.arrived = anyio.Event()
        self.released = anyio.Event()
        self.answers: list[str] = []

    async def ask(self, connection: Connection) -> None:
        try:
            job = await connection.client.get_custom_job(name=NAME, retry=None)
            self.answers.append(job.name)
        except (api_errors.GoogleAPICallError, grpc.aio.BaseError, asyncio.CancelledError):
            self.answers.append("failed")


@pytest.fixture
async def gateways(make_gateways: Any) -> Gateways:
    """Gateways to the real service that close at once what was replaced."""
    made: Gateways = make_gateways("", environ={})
    made._channels.retire_seconds = 0.0
    return made


async def opened(gateways: Gateways, key: str) -> Connection:
    """The connection that the next call with these credentials goes over."""
    return await gateways._connect(Target("p", "us-central1", key), 5)


def is_now_closed(connection: Connection) -> bool:
    transport: Any = connection.client.transport
    state = transport.grpc_channel.get_state()
    return bool(state is grpc.ChannelConnectivity.SHUTDOWN)


async def is_closed(connection: Connection) -> bool:
    """Whether the channel is shut down, or will be within seconds."""
    with anyio.move_on_after(5):
        while not is_now_closed(connection):  # noqa: ASYNC110 - gRPC sets it in its own time
            await anyio.sleep(0.01)
        return True
    return False


async def test_a_block_s_new_key_takes_over_from_the_old_one(
    gateways: Gateways, info: dict[str, Any]
) -> None:
    """Also for the jobs of runs that began with the old one, which is deleted soon."""
    old = gateways.register({"service_account_info": info})
    before = await opened(gateways, old)

    new = gateways.register({"service_account_info": {**info, "private_key_id": "new"}})

    after = await opened(gateways, new)
    assert new != old
    assert after.client is not before.client
    assert after.credentials is not None
    assert after.credentials.key == new
    assert await opened(gateways, old) is after
    assert await is_closed(before)
    assert not is_now_closed(after)


async def test_two_keys_of_one_account_in_two_blocks_stay_apart(
    gateways: Gateways, info: dict[str, Any]
) -> None:
    blocks = [{"service_account_info": {**info, "private_key_id": each}} for each in "ab"]
    for _ in range(3):
        keys = [gateways.register(block) for block in blocks]

    one, other = [await opened(gateways, key) for key in keys]

    assert [each.credentials.key for each in (one, other) if each.credentials] == keys
    gateways.register(blocks[0])
    assert await opened(gateways, keys[1]) is other


async def test_another_account_s_key_closes_nothing(
    gateways: Gateways, info: dict[str, Any]
) -> None:
    one = await opened(gateways, gateways.register({"service_account_info": info}))

    other = gateways.register({"service_account_info": {**info, "client_email": "o@p.example"}})

    assert (await opened(gateways, other)).client is not one.client
    assert not is_now_closed(one)


async def test_a_key_file_that_is_replaced_is_read_again(
    gateways: Gateways, info: dict[str, Any], tmp_path: Path
) -> None:
    """One that is gone for a moment is not: the key that was read goes on."""
    path = tmp_path / "key.json"
    path.write_text(json.dumps(info))
    key = gateways.register({"service_account_file": str(path)})
    first = await opened(gateways, key)

    path.unlink()
    meanwhile = await opened(gateways, key)
    draft = tmp_path / "draft"
    draft.write_text(json.dumps({**info, "private_key_id": "another"}))
    draft.rename(path)
    second = await opened(gateways, key)

    assert meanwhile is first
    assert second.client is not first.client
    assert await is_closed(first)
    assert await opened(gateways, key) is second


async def test_the_end_closes_what_was_replaced_too(
    gateways: Gateways, info: dict[str, Any]
) -> None:
    old = await opened(gateways, gateways.register({"service_account_info": info}))
    new_key = gateways.register({"service_account_info": {**info, "private_key_id": "new"}})
    new = await opened(gateways, new_key)

    await gateways.aclose()

    assert [is_now_closed(each) for each in (old, new)] == [True, True]


@pytest.fixture
async def asked(job_service: Any, a_job: Any) -> Asked:
    """A JobService that answers when a test lets it."""
    asked = Asked(Channels(job_service.address))

    async def behave(request: Any, context: Any) -> Any:
        asked.arrived.set()
        await asked.released.wait()
        return a_job(7)

    job_service.behaviours["GetCustomJob"] = behave
    return asked


async def test_a_call_under_way_ends_before_its_connection_does(asked: Asked) -> None:
    old = asked.channels.open("us-central1", None)
    async with anyio.create_task_group() as group:
        group.start_soon(asked.ask, old)
        await asked.arrived.wait()
        asked.channels.retire("")
        assert asked.channels.open("us-central1", None) is not old
        asked.released.set()

    assert asked.answers == ["projects/42/locations/us-central1/customJobs/7"]
    await asked.channels.aclose()
    assert is_now_closed(old)


async def test_at_the_end_nothing_waits_for_a_call_on_a_replaced_connection(asked: Asked) -> None:
    old = asked.channels.open("us-central1", None)
    async with anyio.create_task_group() as group:
        group.start_soon(asked.ask, old)
        await asked.arrived.wait()
        asked.channels.retire("")
        await anyio.lowlevel.checkpoint()
        await asked.channels.aclose()

    assert asked.answers == ["failed"]
    assert is_now_closed(old)
    asked.released.set()
