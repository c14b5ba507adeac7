"""What the tests of the walk share: places, their refusals, and what was tried where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect_vertex.errors import (
    QuotaExceededError,
    RequestRejectedError,
    ServiceError,
    ServiceVerdict,
)

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler

A, B, C = "us-central1", "europe-west4", "us-east1"
STOCKOUT = (8, "Resources are insufficient in region: us-central1. Try a different region.")
QUOTA_WORDS = (
    "The following quota metrics exceed quota limits: "
    "aiplatform.googleapis.com/custom_model_training_nvidia_t4_gpus"
)
NO_ROOM_WORDS = "Resources are insufficient in region: us-central1."


def refused(words: str, code: str = "RESOURCE_EXHAUSTED") -> ServiceError:
    kind = QuotaExceededError if code == "RESOURCE_EXHAUSTED" else RequestRejectedError
    verdict = ServiceVerdict(code=code, words=words)
    return kind(f"Could not create: {code}: {' '.join(words.split())}.", verdict=verdict)


def places(stage: Stage, run: Run) -> list[str]:
    """Where the run's attempts were, the first first."""
    jobs = sorted(stage.jobs(run), key=lambda job: job.attempt)
    return [job.resource_name.location for job in jobs]


def creates(stage: Stage) -> int:
    """Creates that were sent, wherever."""
    return sum(gateway.calls["create"] for gateway in stage.gateways.values())


def no_room(stage: Stage, *locations: str) -> None:
    """Every create in these locations is refused from now on."""
    for location in locations:
        stage.gateway(location).down["create"] = refused(NO_ROOM_WORDS)


def ledger(stage: Stage, run: Run) -> list[tuple[str, str, str]]:
    """The latest: attempts, places and reasons."""
    rows = stage.runs.tables[f"vertex-capacity-{run.id}"][-1]
    return [(row["attempt"], row["candidate"], row["reason"]) for row in rows]


async def fail(stage: Stage, run: Run, error: tuple[int, str] = STOCKOUT) -> None:
    """The newest job ends before it had machines."""
    newest = max(stage.jobs(run), key=lambda job: job.attempt)
    stage.move(newest, "FAILED", error)
    await stage.tick()
    assert len(stage.live()) <= 1


async def taken_again(stage: Stage, worker: Reconciler, run: Run, **wishes: Any) -> Reconciler:
    """Kill the worker; its successor puts the run back, and takes it as any worker would."""
    await stage.kill(worker)
    successor = await stage.worker(worker.world.worker_name)
    await stage.tick(15)
    assert run.name == "Scheduled"
    stage.submit(successor, run, **wishes)
    await stage.rest()
    return successor
