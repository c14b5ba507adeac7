"""One of the two services does not answer for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.chaos.rules import Rule

if TYPE_CHECKING:
    from tests.chaos.site import Pool


def test_vertex_ai_stands_still(pool: Pool, *, is_long: bool) -> None:
    """Runs before, in and after a freeze end well, and the worker is the same process."""
    worker = pool.worker()
    worker.wait_ready()
    early = [pool.start("--work", "3") for _ in range(2)]
    pool.wait_job(early[0])
    pool.site.ledger.faults["emulator frozen"] += 1
    pool.site.cloud.freeze()
    try:
        for _ in range(2):
            pool.start()
        time.sleep(30 if is_long else 15)
    finally:
        pool.site.cloud.thaw()
    pool.start()
    pool.settle(180)

    assert worker.is_alive()


@pytest.mark.parametrize("code", ["403", "429", "500"])
def test_the_prefect_api_refuses_everything(pool: Pool, code: str, *, is_long: bool) -> None:
    """Nothing is done on stale knowledge, nothing is lost, and the worker is the same process."""
    worker = pool.worker()
    worker.wait_ready()
    run = pool.start("--work", "2")
    pool.wait_job(run)
    pool.arm(Rule(api="prefect", action="answer", code=code, times=0))
    pool.start()
    time.sleep(30 if is_long else 3)
    pool.site.proxies.call("clear")
    pool.settle(120)

    assert worker.is_alive()


def test_the_prefect_api_is_away_and_comes_back(pool: Pool, *, is_long: bool) -> None:
    """Cut off for a while, then its process killed and started again on the same database."""
    worker = pool.worker()
    worker.wait_ready()
    pool.wait_job(pool.start("--work", "3"))
    pool.start()
    pool.site.proxies.call("down", is_down=True)
    time.sleep(60 if is_long else 4)
    pool.site.proxies.call("down", is_down=False)
    pool.start()
    pool.site.ledger.faults["Prefect server killed"] += 1
    pool.site.server.restart()
    pool.start()
    pool.settle(240)

    assert worker.is_alive()
