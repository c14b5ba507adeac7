"""A gRPC call that is cancelled ends neither the task that waits for it nor its worker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest
from google.api_core import exceptions as api_errors

from prefect_vertex.emulator import CallFault, Emulator
from prefect_vertex.errors import ServiceUnavailableError
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.vertex import quotas as module
from prefect_vertex.vertex.awaiting import answered
from prefect_vertex.vertex.quotas import EMULATOR_VARIABLE, CloudQuotas, QuotaReader
from prefect_vertex.vertex.service import VertexJobGateway

pytestmark = pytest.mark.anyio

NAME = ResourceName("p", "us-central1", "7")


async def _cancelled_by_grpc() -> None:
    raise asyncio.CancelledError


async def _unknown_to_its_scope() -> None:
    """As grpc.aio ends a call whose waiter was cancelled: by an error of its own."""
    with suppress(asyncio.CancelledError):
        await anyio.sleep_forever()
    raise asyncio.CancelledError


async def test_a_call_that_nobody_here_cancelled_is_an_error() -> None:
    with pytest.raises(api_errors.Cancelled):
        await answered(_cancelled_by_grpc())


async def test_a_scope_that_ends_a_call_ends_it_alone() -> None:
    with anyio.move_on_after(0.01) as scope:
        await answered(_unknown_to_its_scope())

    assert scope.cancelled_caught


async def test_a_task_that_is_cancelled_stays_cancelled() -> None:
    task = asyncio.ensure_future(answered(_unknown_to_its_scope()))
    await anyio.lowlevel.checkpoint()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("method", ["GetCustomJob", "ListCustomJobs"])
async def test_a_connection_that_is_closed_under_a_call_is_no_answer(
    method: str, job_service: Any, make_gateways: Any, target: Any
) -> None:
    """It happens where a credentials' key is rotated; the worker goes on."""
    gateways = make_gateways(job_service.address)
    gateway = gateways.for_target(target)
    arrived = job_service.hang(method)
    found: list[BaseException] = []

    async def ask() -> None:
        try:
            await (gateway.describe(NAME) if method == "GetCustomJob" else gateway.find("run"))
        except ServiceUnavailableError as error:
            found.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        while not found:
            # Whatever is tried again meets a closed channel too.
            await arrived.wait()
            await gateways.aclose()
            await anyio.lowlevel.checkpoint()

    assert "CANCELLED: its connection was closed" in str(found[0])


async def test_a_limit_around_a_call_ends_that_call_alone(
    job_service: Any, gateway: VertexJobGateway
) -> None:
    job_service.hang("GetCustomJob")

    with anyio.move_on_after(0.2) as scope:
        await gateway.describe(NAME)

    assert scope.cancelled_caught


@pytest.mark.parametrize(("call", "whole"), [(20.0, 0.3), (0.3, 0.3), (0.3, 20.0)])
async def test_a_listing_of_quotas_that_hangs_is_unknown(
    call: float, whole: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever limit ends it, nothing but the reading ends."""
    pytest.importorskip("google.cloud.cloudquotas_v1")
    monkeypatch.setattr(module, "CALL_SECONDS", call)
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", whole)
    async with Emulator() as emulator:
        emulator.faults.add(CallFault(method="ListQuotaInfos", hang=True))
        reader = QuotaReader(CloudQuotas(_nobody, {EMULATOR_VARIABLE: emulator.address}))

        found = await reader.read([("p", "")])

    assert found["p"].problem
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_page_s_limit_is_well_below_that_of_the_whole_listing() -> None:
    assert module.CALL_SECONDS <= module.TIMEOUT_SECONDS * 0.8


async def _nobody(key: str) -> Any:
    raise AssertionError(f"credentials {key!r} were asked for")
