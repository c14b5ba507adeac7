"""Ad-hoc runs: born Pending, created by a process that then leaves, finished by any worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import (
    BUNDLE_AWAITED,
    BUNDLE_LABEL,
    BUNDLE_OF_RETRY,
    BUNDLE_STORED,
    HELD_LABEL,
    INSTANCE_LABEL,
    RELEASED,
    RunState,
)

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Stage = Any
    Run = Any

pytestmark = pytest.mark.anyio

A, B = "us-central1", "europe-west4"
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Please try a different region.")
BAD_IMAGE = (3, "Field: container_spec.image_uri; Message: the image has no command")


async def released(stage: Stage, bundle: str = BUNDLE_STORED, **wishes: Any) -> Run:
    """A run whose submitter has created its job, let it go and ended."""
    submitter = await stage.worker("submitter")
    run = stage.runs.add(deployment_id="")
    stage.runs.put(run.id, RunState.PENDING)
    run.labels[BUNDLE_LABEL] = bundle
    submitter.take(stage.assignment(run, **wishes))
    await stage.rest()
    run.labels[INSTANCE_LABEL] = RELEASED
    await stage.kill(submitter)
    stage.runs.online.discard("submitter")
    return run


def held(stage: Stage, bundle: str, holder: str = "submitter/x") -> Run:
    """A run without a job, whose submitter has said that it holds it."""
    run = stage.runs.add(deployment_id="")
    stage.runs.put(run.id, RunState.PENDING)
    run.labels |= {INSTANCE_LABEL: holder, HELD_LABEL: run.history[-1][2], BUNDLE_LABEL: bundle}
    return run


async def test_a_worker_goes_on_at_once_with_a_run_that_was_let_go(stage: Stage) -> None:
    """It need not wait until Prefect calls the submitter offline."""
    run = await released(stage)
    worker = await stage.worker("w")
    await stage.tick(2)

    assert run.labels[INSTANCE_LABEL] == worker.world.signature
    assert run.id in stage.slots["w"].taken
    taken = "Worker 'w' goes on with this run; its submitter has ended."
    assert any(taken in line for line in stage.runs.logs[run.id])
    stage.start(run)
    stage.complete(run)
    await stage.tick(2)
    assert run.name == "Completed"
    assert stage.slots["w"].taken == set()


async def test_a_job_that_fails_before_its_start_crashes_the_run_in_the_services_words(
    stage: Stage,
) -> None:
    run = await released(stage)
    stage.move(stage.job(run), "FAILED", BAD_IMAGE)
    await stage.worker("w")
    await stage.tick(3)

    assert run.name == "Crashed"
    assert BAD_IMAGE[1] in run.message
    assert len(stage.jobs(run)) == 1


async def test_a_stockout_leads_to_the_next_candidate_through_the_pool(stage: Stage) -> None:
    """The run's own job variables say where its code is, so any worker creates the next job."""
    run = await released(stage, regions=[B])
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    worker = await stage.worker("w", home=(A, B))
    await stage.tick(3)
    assert run.name == "Scheduled"
    stage.submit(worker, run, regions=[B])
    await stage.rest()

    places = [(job.attempt, job.resource_name.location) for job in stage.jobs(run)]
    assert places == [(1, A), (2, B)]


@pytest.mark.parametrize(
    ("bundle", "name"), [(BUNDLE_STORED, "AwaitingRetry"), (BUNDLE_OF_RETRY, "Crashed")]
)
async def test_a_preempted_run_begins_anew_only_where_a_worker_knows_its_code(
    stage: Stage, bundle: str, name: str
) -> None:
    """A run's job variables cannot be changed when it is retried: they name the first bundle."""
    run = await released(stage, bundle, policy=RunPolicy(spot=True))
    await stage.worker("w")
    await stage.tick(2)
    stage.start(run)
    stage.move(stage.job(run), "FAILED", (10, "The job was preempted: Spot VM reclaimed."))
    await stage.tick(3)

    assert run.name == name
    assert ("retry it again" in run.message) == (name == "Crashed")


async def test_a_run_is_left_alone_while_its_submitter_stores_the_code(stage: Stage) -> None:
    """However long that takes, as long as the submitter gives a sign of life."""
    run = held(stage, BUNDLE_AWAITED)
    stage.runs.online.add("submitter")
    await stage.worker("w")
    await stage.tick(400)

    assert run.name == "Pending"


@pytest.mark.parametrize(
    ("bundle", "name"),
    [
        (BUNDLE_AWAITED, "Crashed"),
        (BUNDLE_OF_RETRY, "Crashed"),
        (BUNDLE_STORED, "Scheduled"),
    ],
)
async def test_a_submitter_that_died_leaves_no_run_pending(
    stage: Stage, bundle: str, name: str
) -> None:
    """Where the code is stored, a worker runs it all the same."""
    run = held(stage, bundle)
    stage.runs.offline.add("submitter")
    await stage.worker("w")
    await stage.tick(20)

    assert run.name == name
    assert ("Submit it again" in run.message) == (name == "Crashed")
