"""The private names of Prefect's worker that this product leans on, and the guards around them."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Abort, ObjectNotFound
from prefect.runner._flow_run_executor import FlowRunExecutor
from prefect.workers.base import BaseJobConfiguration, BaseWorker, BaseWorkerResult

from prefect_vertex.lifecycle.exits import EXIT_WORDS
from prefect_vertex.lifecycle.history import RETRIED
from prefect_vertex.runs.seams import SEAMS, GuardedWorker, base_attributes

pytestmark = pytest.mark.anyio
Fault = BaseException | None


class PlainWorker(BaseWorker[Any, Any, Any]):
    """The base class, as small as it can be."""

    type = "seams-test"
    job_configuration = BaseJobConfiguration

    async def run(self, *args: Any, **kwargs: Any) -> BaseWorkerResult:
        """Never called."""
        raise NotImplementedError


class FaultyWorker(PlainWorker):
    """A base class whose Prefect API fails on demand."""

    type = "seams-test-faulty"
    fault: Fault = None
    polls = 0

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Poll, or fail."""
        self.polls += 1
        self._fail()
        return []

    async def sync_with_backend(self) -> None:
        """Send a heartbeat, or fail."""
        self._fail()
        self._has_successfully_synced = True

    async def _submit_run(self, flow_run: FlowRun) -> None:
        self._fail()

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault


class Guarded(GuardedWorker[Any, Any, Any], FaultyWorker):
    """The guards around it."""

    type = "seams-test-guarded"
    saturated = False
    syncs = 0
    fault_after_sync: Fault = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cancelling: list[str] = []

    def is_saturated(self) -> bool:
        """As the test says."""
        return self.saturated

    async def on_synced(self) -> None:
        """Count, or fail."""
        if self.fault_after_sync is not None:
            raise self.fault_after_sync
        self.syncs += 1

    def on_cancelling(self, flow_run_id: str) -> None:
        """Remember."""
        self.cancelling.append(flow_run_id)


class Unsubmitted(GuardedWorker[Any, Any, Any], PlainWorker):
    """The guards around the base class itself."""

    type = "seams-test-unsubmitted"


@pytest.fixture
def worker() -> Guarded:
    return Guarded(work_pool_name="a-pool", create_pool_if_not_found=False)


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What the worker has logged."""
    with caplog.at_level(logging.INFO):
        yield lambda: [record.getMessage() for record in caplog.records]


def answered(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://127.0.0.1/api/flow_runs")
    response = httpx.Response(status, request=request)
    return httpx.HTTPStatusError(f"Server error '{status}'", request=request, response=response)


def a_run() -> FlowRun:
    return FlowRun(id=uuid4(), flow_id=uuid4())


def test_a_retry_is_still_told_by_its_message() -> None:
    """Else it would be taken for a late word, and undone."""
    assert f'"{RETRIED}"' in inspect.getsource(BaseWorker._submit_adhoc_run)


def test_the_death_of_a_flows_process_is_still_told_by_its_message() -> None:
    """Else nobody would say what to do about it, and the job would be called completed."""
    source = inspect.getsource(FlowRunExecutor)
    assert f'msg = f"{EXIT_WORDS}{{exit_code}}. {{info.explanation}}"' in source
    assert "propose_crashed(\n            self._flow_run, message=msg\n" in source


@pytest.mark.parametrize("name", SEAMS)
def test_prefect_still_has_the_name(name: str) -> None:
    worker = PlainWorker(work_pool_name="a-pool")

    assert name in base_attributes(worker)


@pytest.mark.parametrize(
    "name",
    ["get_and_submit_flow_runs", "sync_with_backend", "is_worker_still_polling", "start", "run"],
)
def test_prefect_still_calls_what_is_overridden(name: str) -> None:
    assert callable(getattr(BaseWorker, name))


A_PAGE = json.JSONDecodeError("Expecting value", "<html>login</html>", 0)
"""What comes of a login or maintenance page that answers with 200."""

FAULTS: list[Exception] = [
    answered(403),
    answered(429),
    answered(500),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    A_PAGE,
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_poll_that_fails_is_followed_by_another(fault: Exception, worker: Guarded) -> None:
    worker.fault = fault
    assert await worker.get_and_submit_flow_runs() == []
    worker.fault = None
    assert await worker.get_and_submit_flow_runs() == []

    assert worker.polls == 2


async def test_a_poll_that_keeps_failing_is_told_once_and_so_is_its_end(
    worker: Guarded, records: Callable[[], list[str]]
) -> None:
    worker.fault = answered(500)
    for _ in range(3):
        await worker.get_and_submit_flow_runs()
    worker.fault = None
    for _ in range(3):
        await worker.get_and_submit_flow_runs()

    told = records()
    assert sum("Could not poll for flow runs" in text for text in told) == 1
    assert sum("answers again" in text for text in told) == 1


async def test_a_page_in_place_of_the_api_is_told_as_what_it_is(
    worker: Guarded, records: Callable[[], list[str]]
) -> None:
    worker.fault = A_PAGE

    await worker.get_and_submit_flow_runs()

    (told,) = records()
    assert "What answers at PREFECT_API_URL is not the Prefect API: Expecting value" in told


async def test_an_error_that_is_not_the_apis_is_not_swallowed(worker: Guarded) -> None:
    worker.fault = RuntimeError("a mistake of ours")

    with pytest.raises(RuntimeError):
        await worker.get_and_submit_flow_runs()


async def test_a_saturated_worker_takes_no_runs_and_counts_as_polling(worker: Guarded) -> None:
    worker.saturated = True
    before = worker._last_polled_time

    assert await worker.get_and_submit_flow_runs() == []
    assert worker.polls == 0
    assert worker._last_polled_time > before


async def test_the_first_heartbeat_must_succeed(worker: Guarded) -> None:
    """A wrong key or address is told at once."""
    worker._has_successfully_synced = False
    worker.fault = answered(401)

    with pytest.raises(httpx.HTTPStatusError):
        await worker.sync_with_backend()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_later_heartbeat_may_fail(fault: Exception, worker: Guarded) -> None:
    worker._has_successfully_synced = False
    await worker.sync_with_backend()
    worker.fault = fault
    await worker.sync_with_backend()
    worker.fault = None
    await worker.sync_with_backend()

    assert worker.syncs == 2


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_what_follows_a_later_heartbeat_may_fail_too(
    fault: Exception, worker: Guarded
) -> None:
    await worker.sync_with_backend()
    worker.fault_after_sync = fault
    await worker.sync_with_backend()
    worker.fault_after_sync = None
    await worker.sync_with_backend()

    assert worker.syncs == 2


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_labels_that_cannot_be_written_keep_no_run_from_starting(
    fault: Exception, worker: Guarded, records: Callable[[], list[str]]
) -> None:
    """The base class would crash the run."""
    run = a_run()
    worker.fault = fault

    await worker._give_worker_labels_to_flow_run(run.id)

    (told,) = records()
    assert told.startswith(f"Flow run {run.id} goes on without the labels")


@pytest.mark.parametrize("fault", [*FAULTS, RuntimeError("no"), Abort("no")], ids=str)
async def test_one_run_that_cannot_be_submitted_ends_nothing_and_frees_its_place(
    fault: BaseException, worker: Guarded
) -> None:
    run, other = a_run(), a_run()
    worker._limiter = anyio.CapacityLimiter(2)
    worker._submitting_flow_run_ids = {run.id, other.id}
    for each in (run, other):
        worker._limiter.acquire_on_behalf_of_nowait(each.id)
    worker.fault = fault

    await worker._submit_run(run)

    assert worker._submitting_flow_run_ids == {other.id}
    assert worker._limiter.borrowed_tokens == 1


class NoDeployment:
    """A Prefect API that has lost the deployment, and may fail besides."""

    def __init__(self, fault: Exception | None) -> None:
        self._fault = fault

    async def read_deployment(self, _: UUID) -> None:
        """It is gone."""
        raise ObjectNotFound(http_exc=answered(404))

    async def set_flow_run_state(self, *_: object, **__: object) -> None:
        """Take the state, or fail."""
        if self._fault is not None:
            raise self._fault


@pytest.mark.parametrize("fault", [None, answered(500)], ids=str)
async def test_a_run_whose_deployment_is_gone_frees_its_place(fault: Exception | None) -> None:
    """The base class marks it Cancelled and returns, without a word to the limit."""
    worker = Unsubmitted(work_pool_name="a-pool", create_pool_if_not_found=False)
    client: Any = NoDeployment(fault)
    worker._client = client
    run = FlowRun(id=uuid4(), flow_id=uuid4(), deployment_id=uuid4())
    worker._limiter = anyio.CapacityLimiter(1)
    worker._limiter.acquire_on_behalf_of_nowait(run.id)
    worker._submitting_flow_run_ids = {run.id}

    await worker._submit_run(run)

    assert worker._submitting_flow_run_ids == set()
    assert worker._limiter.borrowed_tokens == 0


async def test_a_cancellation_of_the_worker_passes_through(worker: Guarded) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        worker.fault = anyio.get_cancelled_exc_class()()
        await anyio.lowlevel.checkpoint()

    with pytest.raises(anyio.get_cancelled_exc_class()):
        await worker._submit_run(a_run())


async def test_cancelling_a_run_forces_nothing_and_tells_the_reconciler(worker: Guarded) -> None:
    """The base class would mark it Cancelled while its job lives."""
    run = a_run()

    await worker._cancel_run(run.id)

    assert worker.cancelling == [str(run.id)]


async def test_an_adopted_run_takes_a_place_in_the_limit_once(worker: Guarded) -> None:
    worker._limiter = anyio.CapacityLimiter(1)
    first, second = str(uuid4()), str(uuid4())

    assert worker.take_slot(first)
    assert worker.take_slot(first)
    assert not worker.take_slot(second)
    worker.free_slot(first)
    worker.free_slot(first)
    assert worker.take_slot(second)
    assert worker._limiter.borrowed_tokens == 1


def test_without_a_limit_there_is_always_a_place(worker: Guarded) -> None:
    worker._limiter = None

    assert worker.take_slot(str(uuid4()))
    worker.free_slot(str(uuid4()))


def test_a_pool_that_is_not_known_yet_has_no_id(worker: Guarded) -> None:
    assert worker.work_pool_id == ""
    assert not worker.is_synced
