"""What FakeJobGateway offers a test beyond the gateway's own promises (those: tests/contract)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from prefect_vertex.errors import RequestRejectedError, ServiceUnavailableError
from prefect_vertex.lifecycle.snapshot import JobError
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.spec import Target
from prefect_vertex.testing import FakeJobGateway, ManualClock

pytestmark = pytest.mark.anyio

RUN = "run-1"


@pytest.fixture
def slow_clock() -> ManualClock:
    """A clock that only the test moves."""
    return ManualClock()


@pytest.fixture
def fake(target: Target, slow_clock: ManualClock) -> FakeJobGateway:
    """No jobs yet."""
    return FakeJobGateway(target, clock=slow_clock)


@pytest.fixture
def request_for_run(a_request: Callable[..., Any]) -> Any:
    """A request that the fake takes, for one run of one pool."""
    labels = {"prefect-io_flow-run-id": RUN, "prefect-io_work-pool-id": "pool"}
    return a_request(labels=labels, job_spec={"worker_pool_specs": [{}]})


async def test_a_lost_answer_leaves_the_job(fake: FakeJobGateway, request_for_run: Any) -> None:
    fake.script("create", ServiceUnavailableError("lost"), after_effect=True)

    with pytest.raises(ServiceUnavailableError):
        await fake.create(request_for_run)

    assert len(fake.jobs) == 1
    fake.assert_scripts_used()


async def test_a_lost_request_leaves_nothing(fake: FakeJobGateway, request_for_run: Any) -> None:
    fake.script("create", ServiceUnavailableError("lost"))

    with pytest.raises(ServiceUnavailableError):
        await fake.create(request_for_run)

    assert fake.jobs == ()


async def test_scripts_are_used_one_by_one_in_order(
    fake: FakeJobGateway, request_for_run: Any
) -> None:
    fake.script("create", ServiceUnavailableError("first"))
    fake.script("create", RequestRejectedError("second"))

    for expected in (ServiceUnavailableError, RequestRejectedError):
        with pytest.raises(expected):
            await fake.create(request_for_run)
    await fake.create(request_for_run)

    assert len(fake.jobs) == 1
    assert fake.calls["create"] == 3


async def test_a_script_that_was_not_used_fails_the_test(fake: FakeJobGateway) -> None:
    fake.script("describe", ServiceUnavailableError("never"))

    with pytest.raises(AssertionError, match="describe"):
        fake.assert_scripts_used()


async def test_a_method_that_does_not_exist_cannot_be_scripted(fake: FakeJobGateway) -> None:
    with pytest.raises(ValueError, match="creat"):
        fake.script("creat")


async def test_a_call_can_be_held_and_cancelled_before_its_effect(
    fake: FakeJobGateway, request_for_run: Any, slow_clock: ManualClock
) -> None:
    fake.script("create", until=anyio.Event())

    async with anyio.create_task_group() as group:
        group.start_soon(fake.create, request_for_run)
        await slow_clock.settle()
        assert fake.calls["create"] == 1
        group.cancel_scope.cancel()

    assert fake.jobs == ()


async def test_a_new_job_may_be_missing_from_lists_for_a_while(
    target: Target, slow_clock: ManualClock, request_for_run: Any
) -> None:
    fake = FakeJobGateway(target, clock=slow_clock, list_lag_seconds=30)
    job = await fake.create(request_for_run)

    at_first = (await fake.find(RUN), await fake.list_live("pool"))
    described = await fake.describe(job.resource_name)
    await slow_clock.advance(30)
    later = (await fake.find(RUN), await fake.list_live("pool"))

    assert at_first == ((), ())
    assert described.resource_name == job.resource_name
    assert [len(jobs) for jobs in later] == [1, 1]


async def test_a_hidden_job_is_seen_by_describe_alone(
    fake: FakeJobGateway, request_for_run: Any
) -> None:
    job = await fake.create(request_for_run)
    fake.hide(job.resource_name)

    assert await fake.find(RUN) == ()
    assert (await fake.describe(job.resource_name)).described

    fake.hide(job.resource_name, hidden=False)

    assert len(await fake.find(RUN)) == 1


async def test_times_are_stamped_as_the_service_does(
    fake: FakeJobGateway, request_for_run: Any, slow_clock: ManualClock
) -> None:
    """The first start stays, also when the job falls back to PENDING; the error comes when told."""
    name = (await fake.create(request_for_run)).resource_name
    await slow_clock.advance(60)
    started = fake.advance(name, "JOB_STATE_RUNNING").start_time
    await slow_clock.advance(60)
    fake.advance(name, "JOB_STATE_PENDING")
    fake.advance(name, "JOB_STATE_RUNNING")
    failed = fake.advance(name, "JOB_STATE_FAILED")
    late = fake.advance(name, "JOB_STATE_FAILED", error=JobError(code=3, message="exit 1"))

    assert failed.start_time == started
    assert (failed.end_time, failed.error) == (slow_clock.utc(), None)
    assert late.error == JobError(code=3, message="exit 1")


async def test_a_state_of_the_future_can_be_played(
    fake: FakeJobGateway, request_for_run: Any
) -> None:
    name = (await fake.create(request_for_run)).resource_name

    fake.advance(name, "JOB_STATE_DREAMING")

    assert (await fake.describe(name)).phase is JobPhase.UNKNOWN


async def test_a_live_job_is_not_deleted(fake: FakeJobGateway, request_for_run: Any) -> None:
    name = (await fake.create(request_for_run)).resource_name

    with pytest.raises(RequestRejectedError):
        await fake.delete(name)

    assert len(fake.jobs) == 1


async def test_what_a_job_was_created_from_can_be_read(
    fake: FakeJobGateway, request_for_run: Any
) -> None:
    job = await fake.create(request_for_run)

    assert fake.request(job.resource_name) == request_for_run


def test_the_testing_module_loads_no_google_module() -> None:
    code = (
        "import sys, prefect_vertex.testing;"
        # Bare namespaces are made at start-up by the libraries' own .pth files.
        "print([name for name, module in sys.modules.items()"
        " if name.split('.')[0] in ('google', 'grpc') and getattr(module, '__file__', None)])"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"
