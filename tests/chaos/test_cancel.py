"""A run is cancelled, in whatever phase: Cancelled once its job is gone, and no job left."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from prefect.client.schemas.objects import State, StateType
from tests.chaos.ledger import Expected
from tests.chaos.rules import Rule

from prefect_vertex.emulator.faults import Stockout

if TYPE_CHECKING:
    from tests.chaos.pool import Pool

SCARCE = "n2-standard-4"
SCARCE_METRIC = "custom_model_training_n2_cpus"
RARE = "c2-standard-8"


@pytest.mark.beside(seconds=50)
def test_cancelled_in_every_phase(pool: Pool, *, is_long: bool) -> None:
    """Submitting, queued, provisioning, starting, running, hung, ended, elsewhere, by force."""
    control = pool.site.cloud.control
    control.call("set_quotas", limits=[{"metric": SCARCE_METRIC, "limit": 0}], mode="queue")
    control.add_faults(Stockout(machine_type=RARE, after_seconds=600))
    worker = pool.worker()
    worker.wait_ready()
    delay = Rule(api="jobs", kind="CreateCustomJob", action="delay", seconds=3)
    never, once = pool.cancelled(), pool.cancelled(ran=(1,))
    submitting = pool.start("--before", "600", rules=[delay], expected=never)
    queued = pool.start(expected=never, machine_type=SCARCE)
    provisioning = pool.start(expected=never, machine_type=RARE)
    starting = pool.start("--before", "600", expected=never)
    listening = pool.start("--work", "600", "--listens", expected=once)
    hung = pool.start("--work", "600", expected=once)
    elsewhere = pool.start("--work", "600", expected=once, region="europe-west4")
    forced = pool.start("--work", "600", expected=once)
    orphan = pool.start("--work", "600", expected=once, deployment=(gone := pool.deploy("gone")))
    ended = pool.start("--work", "600", expected=once)

    assert pool.wait_fired()
    pool.cancel(submitting)
    pool.wait_job(queued, "QUEUED")
    pool.cancel(queued)
    pool.wait_job(provisioning, "PENDING")
    pool.cancel(provisioning)
    pool.wait_job(starting, "RUNNING")
    pool.cancel(starting)
    for run in (listening, hung, elsewhere, forced, orphan, ended):
        pool.wait_state(run, "RUNNING")
    pool.site.client.delete_deployment(gone)
    for run in (listening, hung, elsewhere, orphan, ended):
        pool.cancel(run)
    # At this very moment, while its run is Cancelling.
    control.call("end_job", name=pool.wait_job(ended)["name"], state="JOB_STATE_SUCCEEDED")
    pool.site.client.set_flow_run_state(forced, State(type=StateType.CANCELLED), force=True)
    pool.settle(120)
    control.call("set_quotas", limits=[])
    control.call("clear_faults")

    assert worker.is_alive()


@pytest.mark.long
def test_a_run_is_deleted_and_a_cancelled_ones_job(pool: Pool) -> None:
    """What is missing is believed to be gone after a minute; then its other half is ended."""
    pool.worker().wait_ready()
    deleted = pool.start("--work", "600", expected=Expected(states=(), ran=(1,)))
    vanished = pool.start("--work", "600", expected=pool.cancelled(ran=(1,)))
    for run in (deleted, vanished):
        pool.wait_state(run, "RUNNING")
    pool.site.client.delete_flow_run(deleted)
    pool.cancel(vanished)
    name = pool.wait_job(vanished)["name"]
    pool.site.cloud.control.call("end_job", name=name, state="JOB_STATE_SUCCEEDED")
    pool.wait_job(vanished, "SUCCEEDED", "CANCELLED")
    pool.site.cloud.delete(name)
    pool.settle(240)


@pytest.mark.long
def test_cancelled_while_no_worker_is_there(pool: Pool) -> None:
    """The next worker finds the cancelled run whose job lives, and the one whose job has ended."""
    worker = pool.worker("steady")
    worker.wait_ready()
    alive = pool.start("--work", "600", expected=pool.cancelled(ran=(1,)))
    ended = pool.start("--work", "600", expected=pool.cancelled(ran=(1,)))
    for run in (alive, ended):
        pool.wait_state(run, "RUNNING")
    worker.kill()
    worker.wait_gone()
    job = pool.wait_job(ended, "RUNNING")
    pool.site.cloud.control.call("end_job", name=job["name"], state="JOB_STATE_SUCCEEDED")
    for run in (alive, ended):
        pool.cancel(run)
    pool.worker("steady").wait_ready()
    pool.settle(60)

    assert _identifiers(pool) == {job["name"] for job in pool.jobs()}


def _identifiers(pool: Pool) -> set[str]:
    found = pool.site.read(list[UUID](pool.runs))
    return {run.infrastructure_pid or "" for run in found.values()}
