"""Each launch leaves a record, and the bucket never costs a run anything."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from prefect_vertex.errors import (
    CodeStoreError,
    QuotaExceededError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.run import RECORDS_LABEL
from prefect_vertex.planning.launches import LaunchFacts, read_record
from prefect_vertex.reconciler import recorder as module
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.recorder import Recorder

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio
STOCKOUT = (8, "Resources are insufficient in region: us-central1.")
REFUSED = QuotaExceededError(
    "Could not create: quota exceeded.", verdict=ServiceVerdict(code="RESOURCE_EXHAUSTED")
)
FOLDER = "gs://staging/team"


@dataclass
class FakeObjects:
    """`Objects` in memory."""

    kept: dict[str, bytes] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    trouble: Exception | None = None
    slow: bool = False

    async def put_once(self, uri: str, content: bytes, *, key: str = "") -> bool:
        """See `Objects.put_once`."""
        if self.slow:
            await anyio.sleep_forever()
        if self.trouble is not None:
            raise self.trouble
        self.keys.append(key)
        is_new = uri not in self.kept
        self.kept.setdefault(uri, content)
        return is_new

    def record(self, run: Run, attempt: int = 1) -> dict[str, Any]:
        """What is kept of an attempt."""
        uri = f"{FOLDER}/launches/{run.id}/a{attempt}.json"
        return read_record(json.loads(self.kept[uri]), uri)


@pytest.fixture
def bucket() -> FakeObjects:
    return FakeObjects()


@pytest.fixture
def keeping(stage: Stage, bucket: FakeObjects) -> Callable[[], Awaitable[Reconciler]]:
    """Start a worker that keeps records."""

    async def start() -> Reconciler:
        worker = await stage.worker("w")
        worker.world = replace(worker.world, objects=bucket)
        worker.recorder = Recorder(worker.world, bucket)
        return worker

    return start


def asks(stage: Stage, run: Run, *, staged: bool = True, **wishes: Any) -> Assignment:
    """What a run asks for, as its submitter says it."""
    plain = stage.assignment(run, **wishes)
    folder = FOLDER if staged else ""
    candidates = tuple(
        replace(each, staging_folder=folder, credentials_key="a-block")
        for each in plain.spec.candidates
    )
    facts = LaunchFacts(flow_run_id=run.id, flow_run_name="a-run", parameters={"horizon": 12})
    return replace(plain, spec=replace(plain.spec, candidates=candidates), facts=facts)


async def submit(stage: Stage, worker: Reconciler, **wishes: Any) -> Run:
    """A run whose job is there."""
    run = stage.runs.add()
    stage.pick_up(run, "w")
    worker.take(asks(stage, run, **wishes))
    await stage.rest()
    return run


async def finish(worker: Reconciler) -> None:
    """Let what is noted be written."""
    assert worker.recorder is not None
    await worker.recorder.finish()


async def test_a_launch_is_kept_with_its_run_s_parameters_by_the_candidate_s_credentials(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    worker = await keeping()
    run = await submit(stage, worker)
    await finish(worker)
    record = bucket.record(run)

    assert record["job"]["resource_name"] == str(stage.job(run).resource_name)
    assert record["flow_run"]["parameters"] == {"horizon": 12}
    assert record["request"]["custom_job"]["display_name"] == stage.job(run).display_name
    assert bucket.keys == ["a-block"]
    uri = f"{FOLDER}/launches/{run.id}/a1.json"
    assert stage.runs.logs[run.id].count(f"Launch record: {uri}") == 1
    assert run.labels[RECORDS_LABEL] == f"{FOLDER}/launches/{run.id}"


async def test_each_attempt_has_its_own_record(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    """What ran elsewhere is another launch."""
    worker = await keeping()
    run = await submit(stage, worker, regions=["us-east1"])
    stage.move(stage.jobs(run)[-1], "FAILED", STOCKOUT)
    await stage.tick()
    await finish(worker)

    places = [bucket.record(run, number)["candidate"]["location"] for number in (1, 2)]
    assert places == ["us-central1", "us-east1"]


async def test_a_refused_create_leaves_no_record_and_the_next_one_does(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    """Attempts number jobs, so the record tells the job that is there."""
    worker = await keeping()
    stage.gateway().script("create", REFUSED)
    run = await submit(stage, worker, regions=["us-east1"])
    await finish(worker)

    assert len(bucket.kept) == 1
    assert bucket.record(run)["candidate"]["location"] == "us-east1"


async def test_a_job_whose_create_was_not_answered_is_recorded_too(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    """It is what this process had sent."""
    worker = await keeping()
    lost = ServiceUnavailableError("No answer.", verdict=ServiceVerdict(code="UNAVAILABLE"))
    stage.gateway().script("create", lost, after_effect=True)
    run = await submit(stage, worker)
    await stage.tick(3)
    await finish(worker)

    assert bucket.record(run)["job"]["resource_name"] == str(stage.job(run).resource_name)


async def test_a_bucket_that_refuses_costs_one_warning_and_nothing_else(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    bucket.trouble = CodeStoreError("Could not write gs://staging: denied.", hint="Grant it.")
    worker = await keeping()
    run = await submit(stage, worker)
    await finish(worker)
    stage.start(run)
    await stage.tick()
    stage.complete(run)
    await stage.tick(2)

    logs = [line for line in stage.runs.logs[run.id] if "launch record" in line.lower()]
    assert logs == [
        "No launch record of attempt 1 was kept. Could not write gs://staging: denied. Grant it."
    ]
    assert run.name == "Completed"
    assert len(stage.jobs(run)) == 1


async def test_a_fault_of_our_own_ends_nothing(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    """The next launch is recorded as if nothing had been."""
    worker = await keeping()
    bucket.trouble = RuntimeError("unforeseen")
    first = await submit(stage, worker)
    await finish(worker)
    bucket.trouble = None
    second = await submit(stage, worker)
    await finish(worker)

    assert "RuntimeError: unforeseen" in stage.runs.logs[first.id][-1]
    assert bucket.record(second)["attempt"] == 1


async def test_a_bucket_that_does_not_answer_holds_nobody_up(
    stage: Stage, bucket: FakeObjects, keeping: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is there and watched, and a process that ends leaves in time, and says so once."""
    monkeypatch.setattr(module, "LAST_SECONDS", 0.01)
    bucket.slow = True
    worker = await keeping()
    run = await submit(stage, worker)
    stage.start(run)
    await stage.tick()
    await finish(worker)
    await finish(worker)

    assert stage.job(run).phase.value == "running"
    assert bucket.kept == {}
    assert [line for line in stage.runs.logs[run.id] if "launch record" in line] == [
        (
            "No launch record of attempt 1 was kept. There was no answer within 0.01 s before "
            "this process ended."
        )
    ]


async def test_records_are_written_while_the_worker_lives(
    stage: Stage, bucket: FakeObjects, keeping: Any
) -> None:
    worker = await keeping()
    async with anyio.create_task_group() as group:
        group.start_soon(worker.recorder.run_forever)
        runs = [await submit(stage, worker) for _ in range(6)]
        with anyio.fail_after(5):
            while len(bucket.kept) < len(runs):
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert [bucket.record(run)["attempt"] for run in runs] == [1] * 6


@pytest.mark.parametrize("wishes", [{"staged": False}], ids=["no staging bucket"])
async def test_without_a_staging_bucket_there_is_none(
    stage: Stage, bucket: FakeObjects, keeping: Any, wishes: dict[str, Any]
) -> None:
    worker = await keeping()
    run = await submit(stage, worker, **wishes)
    await finish(worker)

    assert bucket.kept == {}
    assert "record" not in " ".join(stage.runs.logs[run.id])


async def test_beyond_a_limit_launches_get_a_warning_instead(
    stage: Stage, bucket: FakeObjects, keeping: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    worker = await keeping()
    first, second = await submit(stage, worker), await submit(stage, worker)
    await finish(worker)

    assert list(bucket.kept) == [f"{FOLDER}/launches/{first.id}/a1.json"]
    assert "1 others wait for the bucket" in stage.runs.logs[second.id][-1]
