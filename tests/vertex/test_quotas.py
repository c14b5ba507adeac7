"""Quotas are read through Google's own client, from the emulator's gRPC port, and never raise.

The client is in the `quota` extra; what needs it is skipped where that is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import pytest

from prefect_vertex.capacity.quota import ProjectQuotas
from prefect_vertex.emulator import CallFault, Emulator, QuotaLimit
from prefect_vertex.errors import AccessDeniedError, PrefectVertexError, ServiceVerdict
from prefect_vertex.testing import ManualClock
from prefect_vertex.vertex import quotas as module
from prefect_vertex.vertex.credentials import VertexCredentials
from prefect_vertex.vertex.quotas import (
    EMULATOR_VARIABLE,
    KEPT_SECONDS,
    PROBLEM_KEPT_SECONDS,
    CloudQuotas,
    QuotaReader,
    limits_of,
)

pytestmark = pytest.mark.anyio

PREFIX = "aiplatform.googleapis.com/custom_model_training_"
T4 = f"{PREFIX}nvidia_t4_gpus"

Limits = Mapping[tuple[str, str], int]


class Source:
    """Limits that a test sets, or trouble."""

    def __init__(self) -> None:
        self.found: Limits = {(T4, "us-central1"): 2}
        self.trouble: dict[str, Exception] = {}
        self.asked: list[tuple[str, str]] = []
        self.hangs = False

    async def limits(self, project: str, credentials_key: str) -> Limits:
        self.asked.append((project, credentials_key))
        if self.hangs:
            await anyio.sleep_forever()
        if credentials_key in self.trouble:
            raise self.trouble[credentials_key]
        return self.found


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(auto_advance=True)


@pytest.fixture
def reader(source: Source, clock: ManualClock) -> QuotaReader:
    return QuotaReader(source, clock)


# --- kept, and never an error ---------------------------------------------------------------------


async def test_one_listing_serves_everybody_for_ten_minutes(
    reader: QuotaReader, source: Source, clock: ManualClock
) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(reader.read, [("p", "")])
    await clock.sleep(KEPT_SECONDS - 1)
    source.found = {(T4, "us-central1"): 9}
    kept = await reader.read([("p", ""), ("p", "")])
    await clock.sleep(1)
    anew = await reader.read([("p", "")])

    assert kept["p"].limit(T4, "us-central1") == 2
    assert anew["p"].limit(T4, "us-central1") == 9
    assert source.asked == [("p", "")] * 2


async def test_trouble_is_kept_only_for_a_minute(
    reader: QuotaReader, source: Source, clock: ManualClock
) -> None:
    source.trouble[""] = PrefectVertexError("no answer.")
    first = await reader.read([("p", "")])
    source.trouble.clear()
    kept = await reader.read([("p", "")])
    await clock.sleep(PROBLEM_KEPT_SECONDS)
    anew = await reader.read([("p", "")])

    assert [each["p"].problem for each in (first, kept, anew)] == ["no answer.", "no answer.", ""]


@pytest.mark.parametrize(
    "trouble", [PrefectVertexError("refused."), ValueError("refused."), KeyError("refused.")]
)
async def test_whatever_goes_wrong_is_unknown_and_says_why(
    reader: QuotaReader, source: Source, trouble: Exception
) -> None:
    source.trouble[""] = trouble

    found = await reader.read([("p", "")])

    assert found["p"].limits == {}
    assert "refused." in found["p"].problem


async def test_a_reader_that_gets_no_answer_gives_up(
    reader: QuotaReader, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.01)
    source.hangs = True

    found = await reader.read([("p", "")])

    assert found["p"].problem == "no answer within 0 s."


async def test_a_caller_that_is_cancelled_takes_nothing_down_with_it(
    reader: QuotaReader, source: Source
) -> None:
    source.hangs = True
    with anyio.move_on_after(0.01):
        await reader.read([("p", "")])
    source.hangs = False

    assert (await reader.read([("p", "")]))["p"].problem == ""


async def test_of_several_credentials_the_first_that_can_read_decides(
    reader: QuotaReader, source: Source
) -> None:
    source.trouble["a"] = PrefectVertexError("not yours.")

    found = await reader.read([("p", "a"), ("p", "b"), ("p", "c")])

    assert found["p"] == ProjectQuotas(limits=source.found)
    assert source.asked == [("p", "a"), ("p", "b")]


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("IAM_PERMISSION_DENIED", "Give the worker's account roles/cloudquotas.viewer"),
        ("SERVICE_DISABLED", "Enable cloudquotas.googleapis.com"),
    ],
)
async def test_a_refusal_says_what_to_do_about_this_service(
    reader: QuotaReader, source: Source, reason: str, advice: str
) -> None:
    verdict = ServiceVerdict(code="PERMISSION_DENIED", reason=reason)
    source.trouble[""] = AccessDeniedError("No.", verdict=verdict, hint="about Vertex AI")

    found = await reader.read([("p", "")])

    assert found["p"].problem == f"No. {advice} in the project."


async def test_a_missing_client_names_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where an emulator is named, which needs the same messages."""
    monkeypatch.setitem(sys.modules, "google.cloud.cloudquotas_v1", None)

    async def no_credentials(key: str) -> Any:
        raise AssertionError(key)

    for environ in ({}, {"CLOUD_QUOTAS_EMULATOR_HOST": "127.0.0.1:9"}):
        reader = QuotaReader(CloudQuotas(no_credentials, environ))
        problem = (await reader.read([("p", "")]))["p"].problem
        assert problem.endswith('not installed. Run `pip install "prefect-vertex[quota]"`.')


# --- Google's own messages ------------------------------------------------------------------------


@pytest.fixture
def a_quota() -> Callable[..., Any]:
    """Build a QuotaInfo of Google's own client."""
    client = pytest.importorskip("google.cloud.cloudquotas_v1")

    def build(*entries: dict[str, Any], **fields: Any) -> Any:
        return client.QuotaInfo(**{"metric": T4, "dimensions_infos": entries, **fields})

    return build


def an_entry(
    value: int | None, region: str = "", *locations: str, **dimensions: str
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "dimensions": {"region": region, **dimensions} if region else dimensions,
        "applicable_locations": locations,
    }
    return entry if value is None else {**entry, "details": {"value": value}}


async def test_a_region_s_own_value_counts_before_that_of_the_others(
    a_quota: Callable[..., Any],
) -> None:
    quota = a_quota(
        an_entry(12, "us-central1", "us-central1"), an_entry(2, "", "us-east1", "us-central1")
    )

    assert limits_of([quota]) == {(T4, "us-central1"): 12, (T4, "us-east1"): 2}


@pytest.mark.parametrize("locations", [("global",), ()])
async def test_a_quota_of_the_whole_project_holds_everywhere(
    a_quota: Callable[..., Any], locations: tuple[str, ...]
) -> None:
    limits = limits_of([a_quota(an_entry(3, "", *locations))])

    assert ProjectQuotas(limits=limits).limit(T4, "us-west1") == 3


async def test_rates_and_other_dimensions_are_left_out(a_quota: Callable[..., Any]) -> None:
    rate = a_quota(an_entry(60, "", "us-central1"), refresh_interval="minute")
    zonal = a_quota(an_entry(1, "us-central1", "us-central1", zone="us-central1-a"))

    assert limits_of([rate, zonal]) == {}


async def test_a_value_that_is_not_there_is_unknown_and_a_zero_is_none_at_all(
    a_quota: Callable[..., Any],
) -> None:
    quota = a_quota(an_entry(None, "us-east1", "us-east1"), an_entry(0, "us-west1", "us-west1"))

    assert limits_of([quota]) == {(T4, "us-west1"): 0}


@pytest.mark.parametrize(
    ("values", "limit"), [((4, 2), 2), ((2, 4), 2), ((-1, 4), 4), ((-1, -1), -1)]
)
async def test_of_several_quotas_of_one_metric_the_smallest_counts(
    a_quota: Callable[..., Any], values: tuple[int, int], limit: int
) -> None:
    quotas = [a_quota(an_entry(value, "us-east1", "us-east1")) for value in values]

    assert limits_of(quotas) == {(T4, "us-east1"): limit}


# --- over the wire --------------------------------------------------------------------------------


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    pytest.importorskip("google.cloud.cloudquotas_v1")
    async with Emulator() as started:
        yield started


async def _nobody(key: str) -> VertexCredentials:
    raise AssertionError(f"credentials {key!r} were asked for")


async def test_limits_are_read_from_the_emulator_without_credentials(emulator: Emulator) -> None:
    emulator.quotas.set(
        [
            QuotaLimit(metric="custom_model_training_nvidia_t4_gpus", limit=2),
            QuotaLimit(metric="custom_model_training_nvidia_t4_gpus", limit=0, location="us-east1"),
        ]
    )
    reader = QuotaReader(CloudQuotas(_nobody, {EMULATOR_VARIABLE: emulator.address}))

    found = (await reader.read([("p", "")]))["p"]

    assert found.problem == ""
    assert found.limit(T4, "us-east1") == 0
    assert found.limit(T4, "europe-west4") == 2
    assert found.limit(f"{PREFIX}cpus", "us-east1") is None
    assert emulator.calls.counts() == {"ListQuotaInfos": {"OK": 1}}


async def test_pages_are_read_to_the_last(emulator: Emulator) -> None:
    metrics = [f"custom_model_training_kind{number}_gpus" for number in range(600)]
    emulator.quotas.set([QuotaLimit(metric=metric, limit=1) for metric in metrics])
    reader = QuotaReader(CloudQuotas(_nobody, {EMULATOR_VARIABLE: emulator.address}))

    found = (await reader.read([("p", "")]))["p"]

    assert {metric for metric, _ in found.limits} == {
        f"aiplatform.googleapis.com/{metric}" for metric in metrics
    }


async def test_a_refusal_over_the_wire_is_unknown(emulator: Emulator) -> None:
    emulator.faults.add(
        CallFault(method="ListQuotaInfos", code="PERMISSION_DENIED", message="not you")
    )
    reader = QuotaReader(CloudQuotas(_nobody, {EMULATOR_VARIABLE: emulator.address}))

    found = (await reader.read([("p", "")]))["p"]

    assert found.problem == (
        "Could not list quotas in "
        "projects/p/locations/global/services/aiplatform.googleapis.com: PERMISSION_DENIED: "
        "not you. Give the worker's account roles/cloudquotas.viewer in the project."
    )


@pytest.mark.parametrize("address", ["127.0.0.1:1", "not an address"])
async def test_an_emulator_that_is_not_there_is_unknown(address: str) -> None:
    """Whether or not the extra is installed."""
    reader = QuotaReader(CloudQuotas(_nobody, {EMULATOR_VARIABLE: address}))

    assert (await reader.read([("p", "")]))["p"].problem
