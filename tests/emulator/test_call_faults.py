"""Scripted answers, through Google's own client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import anyio
import grpc
import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator import CallFault, Emulator
from prefect_vertex.emulator.faults import METHODS

pytestmark = pytest.mark.anyio

CODES = sorted(name for name in grpc.StatusCode.__members__ if name != "OK")
ABROAD = "projects/demo/locations/europe-west4"
# What the client makes of a connection that breaks.
BROKEN = exceptions.ServiceUnavailable


@pytest.fixture
def create(client: JobServiceAsyncClient, a_job: Callable[..., CustomJob], parent: str) -> Any:
    """Create a job that sleeps."""

    async def call(parent: str = parent, **options: Any) -> CustomJob:
        return await client.create_custom_job(
            parent=parent, custom_job=a_job("sleep", "60"), **options
        )

    return call


async def first_answer(client: JobServiceAsyncClient) -> Any:
    """The first list that is answered: a client may try the broken connection once more."""
    with anyio.fail_after(15):
        while True:
            with contextlib.suppress(BROKEN):
                pager = await client.list_custom_jobs(parent=ABROAD, timeout=15)
                return await anext(pager.pages)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("when", "jobs"), [("before", 0), ("after", 1)])
async def test_every_code_can_come_before_and_after_the_effect(
    emulator: Emulator, create: Any, code: str, when: Any, jobs: int
) -> None:
    emulator.faults.add(CallFault(method="CreateCustomJob", when=when, code=code, message="why"))

    with pytest.raises(exceptions.GoogleAPICallError) as refusal:
        await create()

    assert refusal.value.grpc_status_code == grpc.StatusCode[code]
    assert refusal.value.message == "why"
    assert len(emulator.jobs()) == jobs
    emulator.faults.assert_all_used()


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_can_lose_its_answer(
    emulator: Emulator, client: JobServiceAsyncClient, create: Any, parent: str, method: str
) -> None:
    created = await create()
    emulator.faults.add(CallFault(method=method, when="after", code="UNAVAILABLE"))
    calls: dict[str, Callable[[], Any]] = {
        "CreateCustomJob": create,
        "GetCustomJob": lambda: client.get_custom_job(name=created.name),
        "ListCustomJobs": lambda: client.list_custom_jobs(parent=parent),
        "CancelCustomJob": lambda: client.cancel_custom_job(name=created.name),
        # It is live, so the effect is a refusal: the scripted answer takes its place all the same.
        "DeleteCustomJob": lambda: client.delete_custom_job(name=created.name),
    }

    with pytest.raises(exceptions.ServiceUnavailable, match="scripted"):
        await calls[method]()

    emulator.faults.assert_all_used()


async def test_faults_are_used_one_by_one_in_their_order(
    emulator: Emulator, client: JobServiceAsyncClient, create: Any, parent: str
) -> None:
    emulator.faults.add(
        CallFault(method="CreateCustomJob", code="UNAVAILABLE", times=2),
        CallFault(method="CreateCustomJob", code="INTERNAL"),
    )

    for expected in (exceptions.ServiceUnavailable,) * 2 + (exceptions.InternalServerError,):
        with pytest.raises(expected):
            await create()
    await create()

    assert emulator.faults.remaining() == []


async def test_fault_for_another_location_or_method_is_left_alone(
    emulator: Emulator, create: Any
) -> None:
    faults = [
        CallFault(method="CreateCustomJob", location="europe-west4", code="UNAVAILABLE"),
        CallFault(method="GetCustomJob", code="UNAVAILABLE", times=2),
    ]
    emulator.faults.add(*faults)

    await create()

    assert emulator.faults.remaining() == faults
    with pytest.raises(AssertionError, match=r"europe-west4.*GetCustomJob.*times=2"):
        emulator.faults.assert_all_used()
    with pytest.raises(exceptions.ServiceUnavailable):
        await create(parent=ABROAD)
    emulator.faults.clear()
    emulator.faults.assert_all_used()


async def test_fault_for_every_time_stays_until_the_script_is_cleared(
    emulator: Emulator, create: Any
) -> None:
    emulator.faults.add(CallFault(code="UNAVAILABLE", times=0))

    for _ in range(3):
        with pytest.raises(exceptions.ServiceUnavailable):
            await create()
    emulator.faults.assert_all_used()
    emulator.faults.clear()

    await create()


async def test_details_arrive_as_google_sends_them(emulator: Emulator, create: Any) -> None:
    emulator.faults.add(
        CallFault(
            code="PERMISSION_DENIED",
            reason="IAM_PERMISSION_DENIED",
            domain="iam.googleapis.com",
            metadata={"permission": "aiplatform.customJobs.create"},
            retry_after_seconds=1.5,
        )
    )

    with pytest.raises(exceptions.PermissionDenied) as refusal:
        await create()

    error = refusal.value
    assert (error.reason, error.domain) == ("IAM_PERMISSION_DENIED", "iam.googleapis.com")
    assert error.metadata == {"permission": "aiplatform.customJobs.create"}
    [retry] = [detail for detail in error.details if hasattr(detail, "retry_delay")]
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 500_000_000)


@pytest.mark.parametrize(("when", "jobs"), [("before", 0), ("after", 1)])
async def test_hanging_call_lasts_until_the_client_gives_up(
    emulator: Emulator, create: Any, eventually: Any, when: Any, jobs: int
) -> None:
    emulator.faults.add(CallFault(hang=True, when=when))

    with pytest.raises(exceptions.DeadlineExceeded):
        await create(timeout=0.3)

    assert len(emulator.jobs()) == jobs
    await eventually(lambda: emulator.calls.counts() == {"CreateCustomJob": {"ABANDONED": 1}})
    await create()


@pytest.mark.parametrize(("when", "jobs"), [("before", 0), ("after", 1)])
async def test_dropped_connection_takes_every_call_on_it(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    create: Any,
    eventually: Any,
    when: Any,
    jobs: int,
) -> None:
    """Soon there is a connection again."""
    emulator.faults.add(
        CallFault(method="ListCustomJobs", hang=True),
        CallFault(method="CreateCustomJob", drop=True, when=when),
    )
    hanging = asyncio.create_task(client.list_custom_jobs(parent=ABROAD, timeout=15))
    await eventually(lambda: emulator.calls.counts().get("ListCustomJobs"))

    with pytest.raises(BROKEN):
        await create(timeout=15)
    with pytest.raises(BROKEN):
        await hanging

    assert len(emulator.jobs()) == jobs
    assert emulator.calls.counts()["CreateCustomJob"] == {"DROPPED": 1}
    assert (await first_answer(client)).custom_jobs == []


async def test_late_effect_comes_though_the_client_has_given_up(
    emulator: Emulator, create: Any, eventually: Any
) -> None:
    """The deadline passes, and the service commits afterwards."""
    emulator.faults.add(CallFault(method="CreateCustomJob", delay_seconds=0.6))

    with pytest.raises(exceptions.DeadlineExceeded):
        await create(timeout=0.2)

    assert emulator.jobs() == []
    await eventually(emulator.jobs)


async def test_late_answer_is_the_usual_one(
    emulator: Emulator, client: JobServiceAsyncClient, create: Any
) -> None:
    emulator.faults.add(
        CallFault(method="CreateCustomJob", when="after", delay_seconds=0.01),
        CallFault(method="GetCustomJob", delay_seconds=0.01),
        CallFault(method="GetCustomJob", delay_seconds=0.01, when="after"),
    )

    created = await create()

    assert [job.name for job in emulator.jobs()] == [created.name]
    for name, found in ((created.name, True), (f"{created.name}0", False)):
        try:
            assert (await client.get_custom_job(name=name)).name == name
        except exceptions.NotFound:
            assert not found
    emulator.faults.assert_all_used()


async def test_emulator_that_stops_gives_up_late_effects(emulator: Emulator, create: Any) -> None:
    emulator.faults.add(CallFault(method="CreateCustomJob", delay_seconds=600))
    with pytest.raises(exceptions.DeadlineExceeded):
        await create(timeout=0.1)

    await emulator.stop()

    assert emulator.jobs() == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "needs one of code, hang and drop"),
        ({"code": "INTERNAL", "hang": True}, "needs one of code, hang and drop"),
        ({"code": "OK"}, "'OK' is no gRPC status"),
        ({"code": "TEAPOT"}, "'TEAPOT' is no gRPC status"),
        ({"method": "MakeCustomJob", "hang": True}, "'MakeCustomJob' is none of CreateCustomJob"),
        ({"hang": True, "reason": "X"}, "need a code"),
        ({"hang": True, "times": -1}, "times is -1"),
    ],
)
def test_fault_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CallFault(**fields)
