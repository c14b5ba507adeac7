"""The emulator tells the limits that it holds jobs to, to Google's own Cloud Quotas client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.api_core import exceptions

from prefect_vertex.emulator import ControlClient, ControlServer, Emulator, QuotaLimit
from prefect_vertex.emulator import quota_service as module
from prefect_vertex.emulator.quota_service import REGIONS

pytestmark = pytest.mark.anyio

PARENT = "projects/demo/locations/global/services/aiplatform.googleapis.com"
T4 = "custom_model_training_nvidia_t4_gpus"


@pytest.fixture
async def quotas(emulator: Emulator) -> AsyncIterator[Any]:
    """The client; it is in the `quota` extra."""
    client = pytest.importorskip("google.cloud.cloudquotas_v1")
    transports = pytest.importorskip(
        "google.cloud.cloudquotas_v1.services.cloud_quotas.transports.grpc_asyncio"
    )
    async with grpc.aio.insecure_channel(emulator.address) as channel:
        transport = transports.CloudQuotasGrpcAsyncIOTransport(channel=channel)
        yield client.CloudQuotasAsyncClient(transport=transport)


@pytest.fixture
def listed(quotas: Any) -> Callable[..., Any]:
    """The QuotaInfos of machines by metric, or those of calls."""

    async def read(*, rates: bool = False, **request: Any) -> dict[str, Any]:
        pages = await quotas.list_quota_infos(request={"parent": PARENT, **request})
        infos = [info async for info in pages]
        return {info.metric: info for info in infos if bool(info.refresh_interval) is rates}

    return read


async def test_the_more_specific_limit_comes_first_and_the_other_holds_elsewhere(
    emulator: Emulator, listed: Callable[..., Any]
) -> None:
    emulator.quotas.set(
        [QuotaLimit(metric=T4, limit=2), QuotaLimit(metric=T4, limit=0, location="us-east1")]
    )

    (info,) = (await listed()).values()
    own, other = info.dimensions_infos

    assert info.metric == f"aiplatform.googleapis.com/{T4}"
    assert (own.dimensions, own.details.value) == ({"region": "us-east1"}, 0)
    assert (other.dimensions, other.details.value) == ({}, 2)
    assert own.applicable_locations == ["us-east1"]
    assert {*other.applicable_locations, "us-east1"} == set(REGIONS)


async def test_rates_of_calls_are_listed_beside_the_machines(listed: Callable[..., Any]) -> None:
    rates = await listed(rates=True)

    assert [info.dimensions_infos[0].details.value for info in rates.values()] == [60, 600]
    assert await listed() == {}


async def test_pages_are_as_small_as_they_are_asked_for(
    emulator: Emulator, listed: Callable[..., Any]
) -> None:
    emulator.quotas.set([QuotaLimit(metric=f"m{number}", limit=1) for number in range(5)])

    found = await listed(page_size=2)

    assert len(found) == 5
    assert emulator.calls.counts() == {"ListQuotaInfos": {"OK": 4}}


async def test_another_service_has_no_quotas_here(quotas: Any) -> None:
    parent = PARENT.replace("aiplatform", "compute")

    pages = await quotas.list_quota_infos(request={"parent": parent})

    assert [info async for info in pages] == []


async def test_a_parent_of_another_form_is_refused(quotas: Any) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="Invalid parent"):
        await quotas.list_quota_infos(request={"parent": "projects/demo"})


async def test_limits_are_set_through_the_control_port(
    emulator: Emulator, listed: Callable[..., Any]
) -> None:
    async with ControlServer(emulator) as control:
        client = ControlClient(control.address)
        await asyncio.to_thread(client.call, "set_quotas", limits=[{"metric": T4, "limit": 7}])

    (info,) = (await listed()).values()

    assert info.dimensions_infos[0].details.value == 7


async def test_without_the_package_the_call_is_not_implemented(
    start_emulator: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    emulator = await start_emulator()

    async with grpc.aio.insecure_channel(emulator.address) as channel:
        call: Any = channel.unary_unary("/google.api.cloudquotas.v1.CloudQuotas/ListQuotaInfos")
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call(b"")

    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
