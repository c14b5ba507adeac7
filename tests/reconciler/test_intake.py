"""Runs that were just taken: credentials that cannot be had for a moment, and earlier submissions.

What a run asks for is read in tests/worker and tests/template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from prefect_vertex.errors import (
    AccessDeniedError,
    PlanError,
    PrefectVertexError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import HELD_LABEL, INSTANCE_LABEL, RunState
from prefect_vertex.reconciler import intake
from prefect_vertex.reconciler.intake import taken
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio

SILENT = ServiceUnavailableError(
    "Could not load Google credentials: no access token, its issuer did not answer."
)
LOST = ServiceUnavailableError("Lost.", verdict=ServiceVerdict(code="UNAVAILABLE"))
REFUSED = AccessDeniedError("No.", verdict=ServiceVerdict(code="PERMISSION_DENIED"))
CONFIGURATION: Any = SimpleNamespace(run_policy=RunPolicy)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(intake, "LONGEST_PAUSE_SECONDS", 0.001)


class Assigner:
    """Reads what a run asks for, once the faults are over."""

    def __init__(
        self, stage: Stage, run: Run, faults: Iterable[PrefectVertexError], seconds: float = 900
    ) -> None:
        self.create_budget_seconds = seconds
        self._stage, self._run, self._faults = stage, run, iter(faults)
        self.asked = 0

    async def assignment(self, run_id: str, configuration: object) -> Any:
        """Answer, or fail."""
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        if (fault := next(self._faults, None)) is not None:
            raise fault
        return self._stage.assignment(self._run)


def for_ever(fault: PrefectVertexError) -> Iterable[PrefectVertexError]:
    while True:
        yield fault


def picked_up(stage: Stage) -> Run:
    run = stage.runs.add()
    stage.pick_up(run, "w")
    return run


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - no event tells of it
            await anyio.sleep(0.001)


async def test_credentials_that_cannot_be_had_for_a_moment_crash_no_run(stage: Stage) -> None:
    """The metadata server may not answer yet when a worker starts."""
    worker, run = await stage.worker(), picked_up(stage)
    assigner = Assigner(stage, run, [SILENT] * 3)

    await taken(worker, assigner, run.id, CONFIGURATION)
    await stage.tick(2)

    assert stage.job(run).attempt == 1
    told = [line for line in stage.runs.logs[run.id] if "did not answer" in line]
    assert told == [f"{SILENT} Asking again, for up to 900 s."]


async def test_nobody_takes_a_run_whose_credentials_are_waited_for(stage: Stage) -> None:
    worker, run = await stage.worker(), picked_up(stage)
    await stage.worker("other")
    assigner = Assigner(stage, run, for_ever(SILENT))

    async with anyio.create_task_group() as group:
        group.start_soon(taken, worker, assigner, run.id, CONFIGURATION)
        await until(lambda: assigner.asked > 2)
        assert run.labels[INSTANCE_LABEL] == worker.world.signature
        assert run.labels[HELD_LABEL] == run.history[-1][2]
        assert worker.waiting_submissions == 1
        await stage.tick(80)
        group.cancel_scope.cancel()

    assert run.names[-1] == "Submitting"


async def test_it_is_announced_once_prefect_answers(stage: Stage) -> None:
    worker, run = await stage.worker(), picked_up(stage)
    assigner = Assigner(stage, run, for_ever(SILENT))
    stage.runs.poison[run.id] = PrefectUnavailableError("503")

    async with anyio.create_task_group() as group:
        group.start_soon(taken, worker, assigner, run.id, CONFIGURATION)
        await until(lambda: assigner.asked > 2)
        del stage.runs.poison[run.id]
        await until(lambda: INSTANCE_LABEL in run.labels)
        group.cancel_scope.cancel()

    assert len(stage.runs.logs[run.id]) == 1


async def test_a_cancel_ends_the_wait_for_credentials(stage: Stage) -> None:
    worker, run = await stage.worker(), picked_up(stage)
    assigner = Assigner(stage, run, for_ever(SILENT))
    tickets = []

    async def take() -> None:
        tickets.append(await taken(worker, assigner, run.id, CONFIGURATION))

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await until(lambda: assigner.asked > 2)
        # Nobody ticks: an errand's reconciler does not.
        stage.runs.put(run.id, RunState.CANCELLING)
        await until(lambda: bool(tickets))

    assert run.name == "Cancelled"
    assert await tickets[0].wait_started() is None
    assert worker.waiting_submissions == 0


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [(SILENT, 0.01), (REFUSED, 900), (PlanError("No image."), 900)],
    ids=["silent for too long", "refused", "mistaken"],
)
async def test_what_does_not_pass_crashes_the_run(
    fault: PrefectVertexError, seconds: float, stage: Stage
) -> None:
    worker, run = await stage.worker(), picked_up(stage)

    ticket = await taken(
        worker, Assigner(stage, run, for_ever(fault), seconds), run.id, CONFIGURATION
    )
    await stage.rest()

    assert (run.name, run.message) == ("Crashed", str(fault))
    assert ticket.crashed
    assert worker.waiting_submissions == 0


# --- a run that this process had before -----------------------------------------------------------


async def cut_off(stage: Stage, run: Run) -> None:
    """Its worker is cut off from Prefect, and another puts the run back."""
    (first,) = [worker for worker in stage.workers if worker.world.worker_name == "a"]
    stage.workers.remove(first)
    stage.runs.offline.add("a")
    await stage.tick(80, seconds=15)
    assert run.state is RunState.SCHEDULED
    stage.runs.offline.discard("a")
    stage.workers.append(first)


async def test_an_unanswered_create_of_an_earlier_time_does_not_count(stage: Stage) -> None:
    """Its budget of time was spent while another worker put the run back."""
    first, _ = await stage.worker("a"), await stage.worker("b")
    stage.gateway().script("create", LOST)
    run, _ = stage.submit(first)
    await stage.rest()
    await cut_off(stage, run)

    stage.submit(first, run)
    await stage.tick(3)

    assert run.name != "Crashed", run.message
    assert stage.job(run).attempt == 1


async def test_an_end_that_was_never_told_is_not_told_of_a_later_submission(stage: Stage) -> None:
    first, _ = await stage.worker("a"), await stage.worker("b")
    stage.runs.mischief = lambda method: (
        (PrefectUnavailableError("503"), False) if method == "propose" else None
    )
    run = picked_up(stage)
    first.refuse(run.id, RunPolicy(), "The image was missing.")
    await stage.rest()
    stage.runs.mischief = None
    await cut_off(stage, run)

    stage.submit(first, run)
    await stage.tick(3)

    assert run.name != "Crashed", run.message
    assert stage.job(run).attempt == 1


async def test_what_was_read_of_a_run_before_it_was_taken_ends_no_submission(stage: Stage) -> None:
    """A tick may wait for minutes between its read of a run and its step for it."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    read_before = await stage.runs.read(run.id)
    await stage.clock.advance(1)
    stage.reschedule(run)
    stage.runs.poison[run.id] = PrefectUnavailableError("503")
    stage.submit(worker, run)
    await stage.rest()
    del stage.runs.poison[run.id]

    worker._start(worker.book[run.id], read_before)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(3)

    assert [job.attempt for job in stage.jobs(run)] == [1, 2]


async def test_a_run_that_began_elsewhere_is_not_refused(stage: Stage) -> None:
    """Its credentials were waited for in vain while another worker had it."""
    first, second = await stage.worker("a"), await stage.worker("b")
    run, _ = await stage.running(second)
    await stage.clock.advance(1)
    ticket = first.refuse(run.id, RunPolicy(), "No credentials.")
    await stage.tick(2)

    assert run.name == "Running"
    assert ticket.resource_name == stage.job(run).resource_name
    assert first.waiting_submissions == 0
