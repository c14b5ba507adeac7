"""What a run is told while it is submitted, and what becomes of it where that fails."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import pytest
from prefect import flow
from prefect.client.schemas.objects import FlowRun
from prefect.states import Pending
from prefect.workers.base import BaseJobConfiguration, BaseWorker, BaseWorkerResult

from prefect_vertex.errors import DeliveryError, PlanError
from prefect_vertex.lifecycle.run import (
    BUNDLE_AWAITED,
    BUNDLE_LABEL,
    BUNDLE_OF_RETRY,
    BUNDLE_STORED,
    HELD_LABEL,
    INSTANCE_LABEL,
)
from prefect_vertex.runs.adhoc import AdHocWorker

pytestmark = pytest.mark.anyio
Step = Callable[[FlowRun], Awaitable[None]]


@flow
def plain() -> None:
    """Never run."""


class Labels:
    """A Prefect API that takes labels."""

    def __init__(self) -> None:
        self.labels: dict[UUID, dict[str, Any]] = {}

    async def update_flow_run_labels(self, flow_run_id: UUID, labels: dict[str, Any]) -> None:
        """Merge."""
        self.labels.setdefault(flow_run_id, {}).update(labels)


class Scripted(BaseWorker[Any, Any, Any]):
    """A base class that submits as the test says: first the run exists, then a step follows."""

    type = "adhoc-test"
    job_configuration = BaseJobConfiguration
    step: Step
    made: FlowRun | None

    async def run(self, *args: Any, **kwargs: Any) -> BaseWorkerResult:
        """Never called."""
        raise NotImplementedError

    async def _submit_adhoc_run(
        self,
        flow: Any,
        parameters: Any = None,
        job_variables: Any = None,
        task_status: Any = None,
        flow_run: Any = None,
    ) -> None:
        if self.made is None:
            raise RuntimeError("no flow run could be created")
        task_status.started(self.made)
        await self.step(self.made)


class Submitter(AdHocWorker[Any, Any, Any], Scripted):
    """What is tested, on that base."""

    type = "adhoc-test-submitter"

    def __init__(self, step: Step, made: FlowRun | None) -> None:
        super().__init__(work_pool_name="a-pool", heartbeat_interval_seconds=1)
        self.step, self.made = step, made
        self.api = Labels()
        self.beats = 0
        self.crashes: list[str] = []

    @property
    def client(self) -> Any:
        """The fake."""
        return self.api

    @property
    def signature(self) -> str:
        """A process."""
        return "w/1"

    def send_heartbeats(self, ended: threading.Event) -> None:
        """Count."""
        while not ended.wait(0.001):
            self.beats += 1

    async def _propose_crashed_state(
        self, flow_run: FlowRun, message: str, client: Any = None
    ) -> None:
        self.crashes.append(message)


def a_run() -> FlowRun:
    return FlowRun(id=uuid4(), flow_id=uuid4(), name="wise-otter", state=Pending())


async def test_a_run_says_whose_it_is_and_its_submitter_stays_online_while_it_is_stored() -> None:
    run = a_run()
    stored: list[str] = []

    async def store(made: FlowRun) -> None:
        with anyio.fail_after(10):
            while worker.beats < 3 or made.id not in worker.api.labels:
                await anyio.lowlevel.checkpoint()
        stored.append(await worker.bundle_of(made))

    worker = Submitter(store, run)
    await worker._submit_adhoc_run(plain)

    assert run.state is not None
    assert worker.api.labels[run.id] == {
        INSTANCE_LABEL: "w/1",
        HELD_LABEL: str(run.state.id),
        BUNDLE_LABEL: BUNDLE_AWAITED,
    }
    assert stored == [BUNDLE_STORED]
    assert worker.crashes == []


async def test_the_code_of_a_retry_is_known_here_alone() -> None:
    run = a_run()
    known: list[str] = []

    async def create(made: FlowRun) -> None:
        await anyio.lowlevel.checkpoint()
        known.append(await worker.bundle_of(made))

    worker = Submitter(create, run)
    await worker._submit_adhoc_run(plain, flow_run=run)

    assert known == [BUNDLE_OF_RETRY]
    assert await worker.bundle_of(a_run()) == ""


@pytest.mark.parametrize(
    ("failure", "kind", "told"),
    [
        pytest.param(
            RuntimeError("Traceback:\n  File x\n\nprefect-vertex: there is no bucket b"),
            DeliveryError,
            "Flow run 'wise-otter' could not be submitted, its code was not stored: Traceback: "
            "File x prefect-vertex: there is no bucket b",
            id="upload",
        ),
        pytest.param(
            PlanError("region is 7.", hint="Set it."), PlanError, "region is 7. Set it.", id="plan"
        ),
        pytest.param(
            OSError(),
            DeliveryError,
            "Flow run 'wise-otter' could not be submitted, its code was not stored: OSError",
            id="without words",
        ),
    ],
)
async def test_what_fails_is_raised_and_crashes_the_run_in_the_same_words(
    failure: Exception, kind: type[Exception], told: str
) -> None:
    async def fail(made: FlowRun) -> None:
        raise failure

    worker = Submitter(fail, a_run())
    with pytest.raises(kind) as raised:
        await worker._submit_adhoc_run(plain)

    assert str(raised.value) == told
    assert worker.crashes == [told]


async def test_where_there_is_no_run_yet_the_failure_is_raised_as_it_is() -> None:
    async def never(made: FlowRun) -> None: ...

    worker = Submitter(never, None)
    with pytest.raises(RuntimeError, match="no flow run could be created"):
        await worker._submit_adhoc_run(plain)

    assert worker.crashes == []
