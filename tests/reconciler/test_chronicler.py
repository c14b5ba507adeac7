"""A run's artifacts follow its attempts, hinder nothing, and are the same whoever draws them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from prefect_vertex.capacity.reasons import RefusalReason
from prefect_vertex.chronicle.chronicle import Start, Stay
from prefect_vertex.lifecycle.lines import Line
from prefect_vertex.lifecycle.run import DRAWN_LABEL, RunState, RunView
from prefect_vertex.reconciler.chronicler import PAGE_KEY, TIMELINE_KEY, Chronicler
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.runs.journal import key_of
from prefect_vertex.runs.pages import Page
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

pytestmark = pytest.mark.anyio
STOCKOUT = (8, "Resources are insufficient in region: us-central1.")


@dataclass
class FakePages:
    """`Pages` over the stage's runs."""

    stage: Stage
    shown: dict[tuple[str, str], list[Page]] = field(default_factory=dict)
    down: bool = False

    async def states(self, run_id: str) -> list[Stay]:
        """See `Pages.states`."""
        if self.down:
            raise PrefectUnavailableError("The Prefect API answered 503 to POST /artifacts/.")
        rows = self.stage.runs.rows[run_id].history
        stays = [Stay(state=kind, name=name, entered_at=at) for kind, name, _, at in rows]
        # The fake keeps the last state's message alone.
        message = self.stage.runs.rows[run_id].message
        return [*stays[:-1], replace(stays[-1], message=message)]

    async def starts(self, run_id: str) -> list[Start]:
        """See `Pages.starts`."""
        return []

    async def show(self, run: RunView, page: Page) -> None:
        """See `Pages.show`."""
        self.shown.setdefault((run.id, page.key), []).append(page)

    def page(self, run: Run) -> str:
        """What the run's page says, its headline first."""
        page = self.shown[run.id, PAGE_KEY][-1]
        return f"{page.description}\n{page.data}"

    def picture(self, run: Run) -> str:
        """What its timeline shows."""
        data = self.shown[run.id, TIMELINE_KEY][-1].data
        return base64.b64decode(data.partition(",")[2].removesuffix(")")).decode()


@dataclass
class Diary:
    """As much of a `Journal` as the chronicler needs, of one run."""

    lines: list[Line] = field(default_factory=list)

    async def known(self, run: RunView, since: datetime, until: datetime) -> list[Any]:
        """See `Journal.known`."""
        return [key_of(each) for each in self.lines if since <= each.timestamp <= until]

    async def write(self, run: RunView, lines: Sequence[Line]) -> None:
        """See `Journal.write`."""
        self.lines += lines


@pytest.fixture
def pages(stage: Stage) -> FakePages:
    """Where the stage's workers draw."""
    return FakePages(stage)


@pytest.fixture
def drawing(stage: Stage, pages: FakePages) -> Callable[..., Any]:
    """Start a worker that draws."""

    async def start(name: str = "w", **figures: Any) -> Reconciler:
        worker = await stage.worker(name, **figures)
        worker.world = replace(worker.world, pages=pages)
        gone = worker._upkeep.is_process_gone
        worker.chronicler = Chronicler(worker.world, pages, None, is_gone=gone)
        return worker

    return start


async def draw(worker: Reconciler) -> bool:
    """Draw what has changed."""
    assert worker.chronicler is not None
    return await worker.chronicler.drain()


async def test_a_run_is_drawn_when_its_job_changes_and_not_at_each_tick(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    worker = await drawing()
    run, _ = await stage.submitted(worker)
    await draw(worker)
    assert "provisioning" in pages.page(run)

    stage.start(run)
    await stage.tick()
    await draw(worker)
    versions = len(pages.shown[run.id, PAGE_KEY])
    assert "the last one in us-central1: running." in pages.page(run)
    assert "n1-standard-4" in pages.page(run)

    await stage.tick(20)
    await draw(worker)
    assert len(pages.shown[run.id, PAGE_KEY]) == versions


async def test_the_end_is_drawn_once_and_marked(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    """The outcome does not wait for it."""
    worker = await drawing()
    run, ticket = await stage.running(worker)
    stage.complete(run)
    await stage.tick(2)
    await ticket.wait_ended()
    await draw(worker)
    versions = len(pages.shown[run.id, PAGE_KEY])

    assert "(Completed): 1 attempt, the last one in us-central1: completed." in pages.page(run)
    assert run.labels[DRAWN_LABEL] == run.history[-1][2]
    await stage.tick(20)
    await draw(worker)
    assert len(pages.shown[run.id, PAGE_KEY]) == versions


async def test_every_attempt_of_a_walk_is_drawn(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    worker = await drawing()
    run, _ = await stage.submitted(worker, regions=["europe-west4"])
    stage.move(stage.jobs(run)[0], "FAILED", STOCKOUT)
    await stage.tick(4)
    stage.start(run)
    await stage.tick(2)
    await draw(worker)

    page, picture = pages.page(run), pages.picture(run)
    assert "2 attempts, the last one in europe-west4: running." in page
    for text in (f"Attempt 1 · us-central1 · {RefusalReason.NO_ROOM.value}", "Attempt 2"):
        assert text in picture


@pytest.mark.parametrize("ahead", [-120, 0, 4, 120])
async def test_an_attempt_is_drawn_once_whatever_the_workers_clock_shows(
    ahead: float, stage: Stage, pages: FakePages, drawing: Any
) -> None:
    """What it notes of a job is dated by its own clock, and the job is not."""
    worker = await drawing(ahead=ahead)
    run, _ = await stage.submitted(worker, regions=["europe-west4"])
    stage.move(stage.jobs(run)[0], "FAILED", STOCKOUT)
    await stage.tick(4)
    stage.start(run)
    await stage.tick(2)
    await draw(worker)

    assert "2 attempts, the last one in europe-west4: running." in pages.page(run)
    assert pages.picture(run).count("Attempt 1 ") == 1


async def test_a_new_worker_draws_an_attempt_of_its_predecessor_once(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    """How far its clock is ahead it does not know yet."""
    first = await drawing()
    run, _ = await stage.submitted(first, regions=["europe-west4"])
    await stage.kill(first)
    stage.clock._now += 240
    stage.move(stage.jobs(run)[0], "FAILED", STOCKOUT)
    worker = await drawing()
    await stage.tick(30)
    await draw(worker)

    assert pages.picture(run).count("Attempt 1 ") == 1


async def test_another_worker_draws_the_same(stage: Stage, pages: FakePages, drawing: Any) -> None:
    """It has seen neither the first attempt nor the names of the candidates."""
    worker = await drawing("one")
    run, _ = await stage.submitted(worker, regions=["europe-west4"])
    stage.move(stage.jobs(run)[0], "FAILED", STOCKOUT)
    await stage.tick(4)
    stage.start(run)
    await stage.tick()
    stage.complete(run)
    await stage.tick(2)
    await draw(worker)
    first = pages.page(run), pages.picture(run)
    pages.shown.clear()
    del run.labels[DRAWN_LABEL]

    await stage.kill(worker)
    stage.runs.offline.add("one")
    other = await drawing("other", home=("us-central1", "europe-west4"))
    await stage.tick(2)
    await stage.tick(seconds=60)
    await draw(other)
    assert (pages.page(run), pages.picture(run)) == first


async def test_a_crash_is_drawn_with_its_reason(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    worker = await drawing()
    run, _ = await stage.running(worker)
    words = "The replica workerpool0-0 exited with a non-zero status of 137."
    stage.move(stage.job(run), "FAILED", (3, words))
    await stage.tick(3)
    await draw(worker)

    assert run.state is RunState.CRASHED
    assert "(Crashed): 1 attempt, the last one in us-central1: out of memory." in pages.page(run)
    crashed = [key for key in stage.runs.events if key[1] == "prefect-vertex.run.crashed"]
    (event,) = [stage.runs.events[key] for key in crashed]
    assert (event["reason"], event["replica"]) == ("out-of-memory", "workerpool0-0")


async def test_what_to_do_about_a_flow_whose_process_died_alone_is_said_once(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    """Whichever worker draws the run, and however often: the log itself says that it is said."""
    diary = Diary()
    workers = [await drawing(name) for name in ("one", "other")]
    for worker in workers:
        object.__setattr__(worker.chronicler._world, "journal", diary)
    run, _ = await stage.running(workers[0])
    message = "Process exited with status code: -9. Process exited due to a SIGKILL signal."
    stage.runs.put(run.id, RunState.CRASHED, message=message)
    stage.move(stage.job(run), "SUCCEEDED")
    await stage.tick(3)
    await draw(workers[0])
    assert "us-central1: ended by itself (exit code 0)." in pages.page(run)
    del run.labels[DRAWN_LABEL]
    await stage.kill(workers[0])
    stage.runs.offline.add("one")
    pages.shown.clear()
    await stage.tick(20)
    await draw(workers[1])

    assert "ended by itself" in pages.page(run)
    (line,) = diary.lines
    assert (line.level, line.logger) == (30, "prefect.flow_runs.worker")
    assert line.timestamp == run.history[-1][3]
    assert "exit status -9" in line.text
    assert "machine_type" in line.text


async def test_a_run_that_ended_before_its_holder_was_known_to_be_gone_is_drawn_once_it_is(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    """Prefect calls a worker offline 90 s after its last heartbeat; the end is seen long before."""
    one, other = await drawing("one"), await drawing("other")
    run, _ = await stage.running(one)
    await stage.kill(one)
    pages.shown.clear()
    stage.complete(run)
    await stage.tick(10)
    await draw(other)
    assert not pages.shown

    stage.runs.offline.add("one")
    await stage.tick(15)
    await draw(other)
    assert "completed" in pages.page(run)


async def test_what_could_not_be_drawn_is_drawn_later_and_fails_nothing(
    stage: Stage, pages: FakePages, drawing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await drawing()
    pages.down = True
    run, ticket = await stage.running(worker)
    assert not await draw(worker)
    assert not await draw(worker)
    stage.complete(run)
    await stage.tick(2)
    outcome = await ticket.wait_ended()

    assert outcome.exit_status == 0
    (line,) = [each.message for each in caplog.records if "artifacts" in each.message]
    assert "were not written" in line
    assert "answered 503 to POST /artifacts/" in line
    pages.down = False
    assert await draw(worker)
    assert "completed" in pages.page(run)


async def _taken_over(
    stage: Stage, pages: FakePages, drawing: Any, *, is_drawn: bool
) -> tuple[Run, Reconciler]:
    """A running run whose worker died, and the next one, which has drawn what it had to."""
    first = await drawing("one")
    # A worker that ends draws what is left; only where it cannot is anything left.
    pages.down = not is_drawn
    run, _ = await stage.running(first)
    await stage.tick(3)
    await draw(first)
    await stage.kill(first)
    stage.runs.offline.add("one")
    pages.shown.clear()
    pages.down = False
    second = await drawing("two")
    await stage.tick(20)
    await draw(second)
    return run, second


async def test_a_worker_that_starts_draws_no_running_run_again(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    """With thousands of them, its first minutes would be spent on pages that are there."""
    run, second = await _taken_over(stage, pages, drawing, is_drawn=True)
    assert not pages.shown
    stage.complete(run)
    await stage.tick(5)
    await draw(second)
    assert "completed" in pages.page(run)


async def test_a_worker_that_starts_draws_what_the_last_one_had_not(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    run, _ = await _taken_over(stage, pages, drawing, is_drawn=False)
    assert "running" in pages.page(run)


async def test_a_run_that_was_deleted_is_no_matter(
    stage: Stage, pages: FakePages, drawing: Any
) -> None:
    worker = await drawing()
    run, _ = await stage.running(worker)
    del stage.runs.rows[run.id]

    assert await draw(worker)
    assert not pages.shown


async def test_only_the_runs_holder_draws_it(stage: Stage, pages: FakePages, drawing: Any) -> None:
    holder, other = await drawing("one"), await drawing("other")
    run, _ = await stage.running(holder)
    await stage.tick(3)
    await draw(other)
    assert not pages.shown

    await draw(holder)
    assert "running" in pages.page(run)


async def test_events_of_a_job_have_its_own_times(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    stage.complete(run)
    await stage.tick(2)
    job = stage.job(run)
    told = {name: at for (_, name, _), at in stage.runs.told_at.items()}

    assert told["prefect-vertex.job.running"] == job.start_time
    assert told["prefect-vertex.job.succeeded"] == job.end_time
