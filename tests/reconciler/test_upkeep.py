"""What keeps a waiting run's place, repairs its identifier, and stays small in a large project."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.planning import naming

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler
    from prefect_vertex.reconciler.tickets import Ticket

pytestmark = pytest.mark.anyio
LEASE = "lease-1"


def leased(stage: Stage, worker: Reconciler, seconds: float = 300) -> tuple[Run, Ticket]:
    """A run that holds its deployment's slot for so long."""
    run = stage.runs.add()
    run.lease_id = LEASE
    stage.runs.leases[LEASE] = stage.wall.now() + timedelta(seconds=seconds)
    return stage.submit(worker, run)


@pytest.mark.parametrize("lease_seconds", [60.0, 300.0])
async def test_a_lease_is_renewed_from_the_first_moment_and_before_half_of_it_has_passed(
    lease_seconds: float, stage: Stage
) -> None:
    worker = await stage.worker(lease_seconds=lease_seconds)
    begun = stage.wall.now()
    leased(stage, worker, seconds=30)
    await stage.tick(240)

    times = [begun, *stage.runs.renewals[LEASE]]
    gaps = [(after - before).total_seconds() for before, after in itertools.pairwise(times)]
    assert gaps[0] <= 15
    assert max(gaps) < lease_seconds / 2


async def test_a_run_that_waits_for_its_turn_keeps_its_place(stage: Stage) -> None:
    worker = await stage.worker()
    turn = anyio.Event()
    stage.gateway().script("submission_turn", until=turn)
    leased(stage, worker, seconds=30)
    await stage.tick(120)
    turn.set()
    await stage.rest()

    assert stage.runs.leases[LEASE] > stage.wall.now()


async def test_a_running_flow_renews_its_own_lease(stage: Stage) -> None:
    run, _ = leased(stage, await stage.worker())
    await stage.rest()
    stage.start(run)
    await stage.tick(2)
    count = len(stage.runs.renewals[LEASE])
    await stage.tick(60)

    assert len(stage.runs.renewals[LEASE]) == count


async def test_a_lost_lease_is_told_once_with_the_remedy(stage: Stage) -> None:
    """A server that keeps leases in memory has forgotten them when it comes back."""
    run, _ = leased(stage, await stage.worker())
    await stage.tick(2)
    del stage.runs.leases[LEASE]
    stage.runs.leases[LEASE] = stage.wall.now()
    await stage.tick(120)

    told = [line for line in stage.runs.logs[run.id] if "concurrency slot" in line]
    assert len(told) == 1
    assert "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE" in told[0]


async def test_the_next_attempts_lease_is_renewed_though_the_last_was_lost(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = leased(stage, worker)
    stage.runs.leases[LEASE] = stage.wall.now()
    await stage.tick(2)
    stage.start(run)
    stage.reschedule(run)
    run.lease_id = "lease-2"
    stage.runs.leases["lease-2"] = stage.wall.now() + timedelta(seconds=30)
    stage.submit(worker, run)
    await stage.tick(2)

    assert len(stage.runs.renewals["lease-2"]) == 1


async def test_a_lease_that_cannot_be_renewed_keeps_no_other_from_it(stage: Stage) -> None:
    worker = await stage.worker()
    original = stage.runs.renew_lease

    async def renew(lease_id: str) -> bool:
        if lease_id == "poison":
            stage.runs.down = True
        try:
            return await original(lease_id)
        finally:
            stage.runs.down = False

    stage.runs.renew_lease = renew  # type: ignore[method-assign]
    first = stage.runs.add()
    first.lease_id = "poison"
    stage.submit(worker, first)
    leased(stage, worker)
    await stage.tick(3)

    assert stage.runs.renewals[LEASE]


async def test_another_workers_waiting_run_is_renewed_there(stage: Stage) -> None:
    one = await stage.worker("one")
    await stage.worker("two")
    leased(stage, one)
    await stage.tick(30)

    assert len(stage.runs.renewals[LEASE]) == 2


async def test_an_adopted_run_keeps_its_place(stage: Stage) -> None:
    worker = await stage.worker()
    leased(stage, worker)
    await stage.tick(2)
    await stage.kill(worker)
    await stage.worker()
    count = len(stage.runs.renewals[LEASE])
    await stage.tick(60)

    assert len(stage.runs.renewals[LEASE]) >= count + 2


# --- identifier -----------------------------------------------------------------------------------


async def test_an_identifier_that_was_overwritten_late_is_repaired(stage: Stage) -> None:
    """The base class writes it again once `run()` has said that the job is there."""
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    run.identifier = "projects/p/locations/us-central1/customJobs/1"
    await stage.tick(14)

    assert run.identifier == str(stage.job(run).resource_name)


async def test_an_identifier_that_was_never_written_is_repaired_by_whoever_sees_the_job(
    stage: Stage,
) -> None:
    worker = await stage.worker("one")
    run, _ = await stage.running(worker)
    await stage.kill(worker)
    run.identifier = ""
    await stage.worker("two")
    await stage.tick(2)

    assert run.identifier == str(stage.job(run).resource_name)


# --- a large project ------------------------------------------------------------------------------


async def add_jobs(stage: Stage, count: int, **labels: str) -> None:
    """Jobs of somebody else."""
    gateway = stage.gateway()
    run = stage.runs.add()
    request = stage.assignment(run)
    plan = request.plan(request.spec.candidates[0], 1)
    for _ in range(count):
        copy = type(plan.request)(plan.request)
        copy.custom_job.labels.clear()
        copy.custom_job.labels.update(labels)
        gateway._create(copy)
    del stage.runs.rows[run.id]


async def test_ten_thousand_foreign_jobs_are_none_of_ours(stage: Stage) -> None:
    worker = await stage.worker()
    await add_jobs(stage, 10_000, team="somebody-elses")
    run, _ = await stage.running(worker)
    await stage.tick(2)

    assert worker.book.keys() == {run.id}
    assert len(worker.book[run.id].jobs) == 1
    assert worker.interval == 5


@pytest.mark.parametrize(
    "labels",
    [
        {naming.FLOW_RUN_LABEL: "not-a-flow-run", naming.ATTEMPT_LABEL: "1"},
        {naming.FLOW_RUN_LABEL: "0f1e2d3c-1111-4222-8333-444455556666"},
        {naming.ATTEMPT_LABEL: "1"},
        {},
    ],
)
async def test_a_job_with_our_pools_label_and_nobodys_run_is_left_alone(
    labels: dict[str, str], stage: Stage
) -> None:
    worker = await stage.worker()
    pool = worker.world.pool_id
    await add_jobs(stage, 1, **{naming.WORK_POOL_LABEL: pool, **labels})
    run, _ = await stage.running(worker)
    await stage.tick(30)

    assert stage.gateway().calls["cancel"] == 0
    assert worker.book.keys() == {run.id}


async def test_a_flows_own_jobs_are_not_taken_for_its_duplicates(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.running(worker)
    inherited = {naming.WORK_POOL_LABEL: worker.world.pool_id, naming.FLOW_RUN_LABEL: run.id}
    await add_jobs(stage, 2, **inherited)
    await stage.tick(30)

    assert stage.gateway().calls["cancel"] == 0
    assert run.name == "Running"


async def test_the_interval_grows_with_pages(stage: Stage) -> None:
    """Lists take at most half of the reads: 25 pages at 150 a minute are 10 seconds."""
    worker = await stage.worker()
    pool = {naming.WORK_POOL_LABEL: worker.world.pool_id}
    await add_jobs(stage, 2_450, **pool)
    await stage.tick()

    assert worker.interval == 10


async def test_reads_do_not_grow_with_runs(stage: Stage) -> None:
    worker = await stage.worker()
    for _ in range(100):
        stage.submit(worker)
    await stage.tick(4)
    for run in stage.runs.rows.values():
        stage.start(run)
    await stage.tick(2)
    stage.gateway().calls.clear()
    await stage.tick(12)

    assert stage.gateway().calls == {"list_live": 12}


async def test_many_jobs_that_end_at_once_are_read_with_one_list(stage: Stage) -> None:
    worker = await stage.worker()
    runs = [(await stage.running(worker))[0] for _ in range(20)]
    stage.gateway().calls.clear()
    for run in runs:
        stage.complete(run)
    await stage.tick()

    assert stage.gateway().calls == {"list_live": 1, "list_ended": 1}
    assert {run.name for run in runs} == {"Completed"}


async def test_a_job_that_has_left_the_list_is_described(stage: Stage) -> None:
    run, _ = await stage.running(await stage.worker())
    stage.gateway().calls.clear()
    stage.complete(run)
    await stage.tick()

    assert stage.gateway().calls == {"list_live": 1, "describe": 1}


async def test_a_nudge_looks_at_one_run_without_a_list(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker)
    stage.gateway().calls.clear()
    stage.runs.put(run.id, RunState.CANCELLING)
    worker.nudge(run.id)
    await stage.rest()

    assert stage.job(run).state == "JOB_STATE_CANCELLING"
    assert stage.gateway().calls["list_live"] == 0
