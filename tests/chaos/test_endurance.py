"""What takes minutes by nature: leases, and a location that is full of other jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from prefect_vertex.emulator.seeds import Seed

if TYPE_CHECKING:
    from tests.chaos.pool import Pool

pytestmark = pytest.mark.long
SCARCE = "n2-standard-4"
SCARCE_METRIC = "custom_model_training_n2_cpus"
LEASE_SECONDS = 30.0
PARENT = "projects/demo-project/locations/us-central1"


def test_a_waiting_run_keeps_its_place(pool: Pool) -> None:
    """A deployment limited to one: ours waits for three leases and runs; the next waits for it."""
    control = pool.site.cloud.control
    limited = pool.deploy("limited", concurrency_limit=1)
    pool.worker().wait_ready()
    control.call("set_quotas", limits=[{"metric": SCARCE_METRIC, "limit": 0}], mode="queue")
    first = pool.start(deployment=limited, machine_type=SCARCE)
    pool.wait_job(first, "QUEUED")
    second = pool.start(deployment=limited)
    begun = time.monotonic()
    seen = set()
    while time.monotonic() - begun < 3 * LEASE_SECONDS + 5:
        seen.add(pool.state(second).partition("/")[0])
        time.sleep(1)
    control.call("set_quotas", limits=[])
    pool.settle(180)

    assert seen == {"SCHEDULED"}


def test_ten_thousand_old_and_foreign_jobs(pool: Pool) -> None:
    """A worker starts as fast beside them, and is as small, as without them."""
    before = _measured(pool)
    foreign = {"prefect-io_work-pool-id": str(uuid4())}
    ours = {"prefect-io_work-pool-id": str(pool.site.client.read_work_pool(pool.name).id)}
    pool.site.cloud.control.seed_jobs(
        Seed(parent=PARENT, count=4000, state="JOB_STATE_SUCCEEDED", age_seconds=90_000),
        Seed(parent=PARENT, count=2000, labels=foreign),
        Seed(parent=PARENT, count=4000, state="JOB_STATE_FAILED", labels=ours, age_seconds=90_000),
    )
    after = _measured(pool)

    for name, value in {"none": before, "10,000": after}.items():
        pool.site.ledger.seconds[f"CPU of a start beside {name} jobs"] = value[0]
        pool.site.ledger.megabytes[f"memory beside {name} jobs"] = value[1]
    assert after[0] < before[0] * 1.5 + 1
    assert after[1] < before[1] + 20


def _measured(pool: Pool) -> tuple[float, float]:
    """CPU seconds and megabytes of a worker that has started and run one run."""
    worker = pool.spawn()
    worker.wait_ready()
    pool.start()
    pool.settle(120)
    times = worker.process.cpu_times()
    memory = worker.process.memory_info().rss / 1e6
    worker.kill()
    worker.wait_gone()
    return times.user + times.system, memory
