"""One of the two services, or both, do not answer for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.chaos.rules import Rule

if TYPE_CHECKING:
    from tests.chaos.pool import Pool


@pytest.mark.beside(seconds=50)
@pytest.mark.disturbing
def test_both_services_fail_and_come_back(pool: Pool, *, is_long: bool) -> None:
    """Runs from before, in and after an outage end well, and the worker is the same process."""
    worker = pool.worker()
    worker.wait_ready()
    early = pool.start("--work", "3")
    pool.wait_job(early)
    with pool.frozen_cloud():
        pool.start()
        time.sleep(20 if is_long else 5)
        pool.site.proxies.call("down", is_down=True)
        time.sleep(40 if is_long else 3)
        pool.site.proxies.call("down", is_down=False)
        pool.start()
        pool.site.ledger.faults["Prefect server killed"] += 1
        pool.site.server.restart()
        time.sleep(5)
    pool.start()
    pool.settle(240)

    assert worker.is_alive()


@pytest.mark.long
@pytest.mark.parametrize("seconds", [15, 30])
def test_vertex_ai_stands_still(pool: Pool, seconds: int) -> None:
    """Nothing that was not answered is taken for an answer."""
    worker = pool.worker()
    worker.wait_ready()
    early = [pool.start("--work", str(work)) for work in range(4)]
    pool.wait_job(early[0])
    with pool.frozen_cloud():
        for _ in range(4):
            pool.start()
        time.sleep(seconds)
    pool.start()
    pool.settle(240)

    assert worker.is_alive()


@pytest.mark.long
def test_the_prefect_api_refuses_everything(pool: Pool) -> None:
    """Nothing is done on stale knowledge, nothing is lost, and the worker is the same process."""
    worker = pool.worker()
    worker.wait_ready()
    for code in ("500", "429", "403"):
        pool.wait_job(pool.start("--work", "2"))
        pool.arm(Rule(api="prefect", action="answer", code=code, times=0))
        pool.start()
        time.sleep(30)
        pool.disarm()
    pool.settle(240)

    assert worker.is_alive()


@pytest.mark.long
def test_the_prefect_api_fails_right_after_the_first_heartbeat(pool: Pool) -> None:
    """The reconciler's first read fails; the worker tries again instead of leaving."""
    pool.arm(
        Rule(api="prefect", kind="POST /deployments/filter", about=pool.name, action="answer",
             code="500", times=6)
    )  # fmt: skip
    worker = pool.worker()
    pool.start()
    pool.settle(90)

    assert worker.is_alive()
