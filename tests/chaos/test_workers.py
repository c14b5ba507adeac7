"""Several workers, and the orderly end of one."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.chaos.ledger import Expected

if TYPE_CHECKING:
    from tests.chaos.pool import Pool

FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


def test_two_workers_on_one_pool(pool: Pool, *, is_long: bool) -> None:
    """As many jobs as runs, and each run ends once."""
    workers = [pool.worker(), pool.worker()]
    for worker in workers:
        worker.wait_ready()
    count = 100 if is_long else 20
    for _ in range(count):
        pool.start()
    pool.settle(600 if is_long else 180)
    # A stub ends within a second of its start: a waiting state that was on its way may come after
    # the end, which is then given back and stands in the history twice.
    ends = [{state.type.value for state in pool.site.history(run)} & FINAL for run in pool.runs]

    assert len(pool.jobs()) == count
    assert ends == [{"COMPLETED"}] * count


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_changes_no_state(pool: Pool, number: signal.Signals) -> None:
    """The worker leaves its runs and jobs as they are, and the next one goes on with them."""
    worker = pool.spawn()
    worker.wait_ready()
    gate = pool.site.home / f"{pool.name}-go-on"
    runs = [pool.start("--until", str(gate)) for _ in range(50)]
    for run in runs:
        pool.wait_state(run, "RUNNING")
    pool.site.ledger.faults[number.name] += 1
    before = time.monotonic()
    worker.kill(number)
    worker.wait_gone(60)
    pool.site.ledger.seconds[f"exit after {number.name}"] = time.monotonic() - before
    states = {run: pool.state(run) for run in runs}
    live = {job["state"] for job in pool.jobs()}
    gate.touch()
    pool.worker().wait_ready()
    pool.settle(240)

    assert worker.status in {0, None}
    assert set(states.values()) == {"RUNNING/Running"}
    assert live == {"JOB_STATE_RUNNING"}


@pytest.mark.beside(seconds=20)
def test_the_template_names_another_location_now(pool: Pool, *, is_long: bool) -> None:
    """A worker that starts after the template moved still finds, ends and cancels the old jobs."""
    first = pool.worker("steady")
    first.wait_ready()
    early = pool.start("--work", "6")
    run = pool.start("--work", "90", expected=pool.cancelled(ran=(1,)))
    pool.wait_state(run, "RUNNING")
    pool.wait_job(early)
    first.kill()
    first.wait_gone()
    pool.move("europe-west4")
    pool.worker().wait_ready()
    pool.cancel(run)
    pool.start(expected=Expected())
    pool.settle(120)

    assert {job["location"] for job in pool.jobs()} == {"us-central1", "europe-west4"}
