"""Calls a minute: the meter by a clock that the test moves, the denial through the client."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator import (
    CLOCKS,
    DOCUMENTED,
    UNLIMITED,
    CallFault,
    Emulator,
    RateLimits,
)
from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.names import Place
from prefect_vertex.emulator.rates import RATES_OF_CLOCK, Rates

HERE = Place("123", "us-central1")


class Meter:
    """Rates on a clock of the test's."""

    def __init__(self, limits: RateLimits) -> None:
        self.seconds = 0.0
        self.rates = Rates(limits, now=lambda: self.seconds)

    def admits(self, method: str = "GetCustomJob", place: Place = HERE) -> bool:
        try:
            self.rates.admit(method, place)
        except ApiError:
            return False
        return True


def test_documented_limits_are_60_submissions_and_600_other_calls() -> None:
    meter = Meter(DOCUMENTED)

    assert sum(meter.admits("CreateCustomJob") for _ in range(100)) == 60
    assert not meter.admits("DeleteCustomJob")
    assert sum(meter.admits("CancelCustomJob") for _ in range(700)) == 600
    for method in ("GetCustomJob", "ListCustomJobs"):
        assert not meter.admits(method)


def test_lifelike_clock_comes_with_the_documented_limits_and_the_fast_one_without() -> None:
    assert RATES_OF_CLOCK == {"fast": UNLIMITED, "lifelike": DOCUMENTED}
    assert set(RATES_OF_CLOCK) == set(CLOCKS)


def test_window_slides() -> None:
    """Any sixty seconds hold no more than the limit, also when they lie across a full minute."""
    meter = Meter(RateLimits(calls_per_minute=4))

    admitted = []
    for second in range(240):
        meter.seconds = float(second)
        if second % 10 == 5:
            admitted += [second for _ in range(3) if meter.admits()]

    assert all(
        sum(start <= moment < start + 60 for moment in admitted) <= 4 for start in range(240)
    )
    assert len(admitted) == 16


def test_denied_call_does_not_count() -> None:
    meter = Meter(RateLimits(calls_per_minute=1))
    assert meter.admits()
    meter.seconds = 59
    assert not meter.admits()

    meter.seconds = 60

    assert meter.admits()


def test_every_project_and_location_has_its_own() -> None:
    meter = Meter(RateLimits(calls_per_minute=1))

    places = [HERE, Place("123", "europe-west4"), Place("456", "us-central1")]

    assert [meter.admits(place=place) for place in places * 2] == [True] * 3 + [False] * 3


@pytest.mark.anyio
async def test_denial_carries_what_google_sends(
    emulator: Emulator, client: JobServiceAsyncClient, parent: str
) -> None:
    """An ErrorInfo and a link, and nothing that says when to come back."""
    emulator.rates.limits = RateLimits(calls_per_minute=1)
    await client.list_custom_jobs(parent=parent)

    with pytest.raises(exceptions.ResourceExhausted) as denial:
        await client.list_custom_jobs(parent=parent)

    error = denial.value
    number = error.metadata["consumer"].removeprefix("projects/")
    assert (error.reason, error.domain) == ("RATE_LIMIT_EXCEEDED", "googleapis.com")
    assert number.isdecimal()
    assert error.metadata["quota_limit_value"] == "1"
    assert error.metadata["quota_location"] == "us-central1"
    assert error.metadata["service"] == "aiplatform.googleapis.com"
    assert {"quota_limit", "quota_metric"} <= set(error.metadata)
    assert error.message.startswith("Quota exceeded for quota metric '")
    assert error.message.endswith(
        f"of service 'aiplatform.googleapis.com' for consumer 'project_number:{number}'."
    )
    assert not any(hasattr(detail, "retry_delay") for detail in error.details)


@pytest.mark.anyio
async def test_retry_info_is_sent_where_that_is_the_choice(
    emulator: Emulator, client: JobServiceAsyncClient, parent: str
) -> None:
    emulator.rates.limits = RateLimits(calls_per_minute=0, retry_info_seconds=7)

    with pytest.raises(exceptions.ResourceExhausted) as denial:
        await client.list_custom_jobs(parent=parent)

    [retry] = [detail for detail in denial.value.details if hasattr(detail, "retry_delay")]
    assert retry.retry_delay.seconds == 7


@pytest.mark.anyio
async def test_denied_call_has_no_effect_and_uses_no_fault(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    fault = CallFault(method="CreateCustomJob", code="INTERNAL")
    emulator.faults.add(fault)
    emulator.rates.limits = dataclasses.replace(DOCUMENTED, submissions_per_minute=0)

    with pytest.raises(exceptions.ResourceExhausted):
        await client.create_custom_job(parent=parent, custom_job=a_job("true"))

    assert emulator.jobs() == []
    assert emulator.faults.remaining() == [fault]
    assert emulator.calls.counts() == {"CreateCustomJob": {"RESOURCE_EXHAUSTED": 1}}


@pytest.mark.anyio
async def test_without_limits_nothing_is_denied(
    emulator: Emulator, client: JobServiceAsyncClient, parent: str
) -> None:
    for _ in range(100):
        await client.list_custom_jobs(parent=parent)

    counts: dict[str, Any] = emulator.calls.counts()
    assert counts == {"ListCustomJobs": {"OK": 100}}
    assert emulator.calls.per_minute()["ListCustomJobs"][0] >= 1
    emulator.calls.clear()
    assert emulator.calls.per_minute() == {}
