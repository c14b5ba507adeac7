"""The worker is killed, and whoever comes next goes on from what is recorded."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.chaos.rules import Api, Rule, When

if TYPE_CHECKING:
    from tests.chaos.pool import Pool

Point = tuple[Api, str, When]
CREATE = "CreateCustomJob"
CREATE_CLAIM = "POST /flow_runs/ID/input prefect-vertex-create-a1"
ANNOUNCEMENT = "PATCH /flow_runs/ID/labels attempt*"
SHORT: list[Point] = [
    ("prefect", CREATE_CLAIM, "after"),
    ("jobs", CREATE, "before"),
    ("prefect", ANNOUNCEMENT, "after"),
    ("jobs", CREATE, "after"),
]


@pytest.mark.beside(seconds=30)
@pytest.mark.parametrize("part", [0, 1])
def test_killed_before_and_after_its_calls(pool: Pool, part: int, *, is_long: bool) -> None:
    """Wherever in its life a worker dies, its runs end well, with one job and one start each."""
    points = (_recorded(pool) if is_long else SHORT)[part::2]
    worker = pool.worker("steady")
    missed: list[Point] = []
    for number, (api, kind, when) in enumerate(points):
        worker.wait_ready()
        rule = Rule(api=api, kind=kind, when=when, action="kill", pid=worker.pid)
        if "flow_runs/ID" in kind or kind == CREATE:
            pool.start(rules=[rule])
        else:
            pool.wait_job(pool.start("--work", "2"))
            pool.arm(replace(rule, about=pool.mark(kind)))
        if not pool.wait_fired():
            missed.append((api, kind, when))
            pool.disarm()
            worker.kill()
        worker.wait_gone()
        # Under its old name, as a service is restarted, and under a new one by turns.
        worker = pool.worker("steady" if number % 2 else "")
    pool.settle(900 if is_long else 120)

    # In the long form a recorded call need not come again for every run.
    assert not missed or is_long, missed


@pytest.mark.long
def test_killed_right_after_pending(pool: Pool) -> None:
    """A run that nobody has announced goes back to Scheduled, and is run by whoever takes it."""
    kind = "POST /flow_runs/ID/set_state Pending"
    worker = pool.worker("steady")
    for name in ("steady", ""):
        worker.wait_ready()
        rule = Rule(api="prefect", kind=kind, when="after", action="kill", pid=worker.pid)
        pool.start(rules=[rule])
        assert pool.wait_fired()
        worker.wait_gone()
        worker = pool.worker(name)
    pool.settle(60)


def _recorded(pool: Pool) -> list[Point]:
    """Every kind of call that a worker makes from its start to the end of a run and a cancel."""
    since = time.time()
    worker = pool.worker("recorded")
    worker.wait_ready()
    pool.start()
    cancelled = pool.start("--before", "60", expected=pool.cancelled())
    pool.wait_job(cancelled, "RUNNING")
    pool.cancel(cancelled)
    pool.settle(60)
    worker.kill()
    worker.wait_gone()
    kinds = dict.fromkeys(
        (api, kind)
        for _, api, who, kind, _ in pool.site.proxies.call("calls", since=since)
        if who == "worker" and "csrf" not in kind
    )
    return [(api, kind, when) for api, kind in kinds for when in ("before", "after")]


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 8])
def test_killed_at_random_moments(pool: Pool, seed: int) -> None:
    """A worker that dies again and again loses nothing and repeats nothing."""
    chance = random.Random(seed)  # noqa: S311 - a test that can be repeated
    for _ in range(40):
        for _ in range(chance.randrange(1, 4)):
            pool.start("--work", f"{chance.uniform(0, 3):.1f}")
        worker = pool.worker(chance.choice(["", "steady"]))
        worker.wait_ready()
        time.sleep(chance.uniform(0.0, 4.0))
        pool.site.ledger.faults["kill at random"] += 1
        worker.kill()
        worker.wait_gone()
    pool.worker().wait_ready()
    pool.settle(900)
