"""A right that is missing in one project, and candidates that are in others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from prefect_vertex.errors import AccessDeniedError, ServiceVerdict
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.planning.spec import Target

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage
    from tests.reconciler.fakes import Run

    from prefect_vertex.reconciler.loop import Reconciler
    from prefect_vertex.reconciler.tickets import Ticket

pytestmark = pytest.mark.anyio

A, B = "us-central1", "europe-west4"
OURS, THEIRS = "demo-project", "their-project"
WORDS = "Permission 'aiplatform.customJobs.create' denied on resource '//aiplatform…/locations/R'."
BOTH = [(OURS, A, ""), (OURS, B, ""), (THEIRS, A, "")]


def deny(stage: Stage, *places: tuple[str, str]) -> None:
    """Every create in these projects' locations is refused from now on."""
    verdict = ServiceVerdict(code="PERMISSION_DENIED", words=WORDS)
    for project, location in places:
        gateway = stage.for_target(Target(project, location))
        gateway.down["create"] = AccessDeniedError("Could not create.", verdict=verdict)


async def submitted(
    stage: Stage, worker: Reconciler, places: list[tuple[str, str, str]], run: Run | None = None
) -> tuple[Run, Ticket]:
    """A run with a candidate for each project, location and credentials, as it rests."""
    run = run or stage.runs.add()
    stage.pick_up(run, worker.world.worker_name)
    plain = stage.assignment(run, regions=[B] * (len(places) - 1))
    candidates = tuple(
        replace(each, project=project, location=location, credentials_key=key)
        for each, (project, location, key) in zip(plain.spec.candidates, places, strict=True)
    )
    spec = replace(plain.spec, candidates=candidates)
    ticket = worker.take(replace(plain, spec=spec))
    await stage.rest()
    return run, ticket


def creates(stage: Stage) -> dict[tuple[str, str], int]:
    """How many were sent to each place that got one."""
    counts = {key: gateway.calls["create"] for key, gateway in stage.gateways.items()}
    return {key: count for key, count in counts.items() if count}


def ledger(stage: Stage, run: Run) -> list[tuple[str, str, str]]:
    rows = stage.runs.tables[f"vertex-capacity-{run.id}"][-1]
    return [(row["attempt"], row["candidate"], row["reason"]) for row in rows]


async def test_a_missing_right_leads_to_the_candidates_of_other_projects(stage: Stage) -> None:
    deny(stage, (OURS, A), (OURS, B))
    run, _ = await submitted(stage, await stage.worker(), BOTH)
    await stage.tick(2)

    assert creates(stage) == {(OURS, A): 1, (THEIRS, A): 1}
    assert sorted(ledger(stage, run)) == [
        ("1", f"{A} ({OURS})", "a permission is missing"),
        ("none", f"{B} ({OURS})", "a permission is missing"),
    ]


async def test_other_credentials_may_have_the_right(stage: Stage) -> None:
    deny(stage, (OURS, A))
    places = [(OURS, A, ""), (OURS, B, "theirs")]
    run, _ = await submitted(stage, await stage.worker(), places)
    await stage.tick(2)

    assert creates(stage) == {(OURS, A): 1, (OURS, B): 1}
    assert stage.job(run).resource_name.location == B


async def test_a_right_that_is_missing_everywhere_ends_the_run_at_once(stage: Stage) -> None:
    deny(stage, (OURS, A), (OURS, B))
    run, _ = await submitted(stage, await stage.worker(), BOTH[:2])
    await stage.tick(2)

    assert creates(stage) == {(OURS, A): 1}
    assert run.name == "Crashed"
    assert run.message == "Could not create."


async def test_rights_that_no_project_gives_are_no_want_of_machines(stage: Stage) -> None:
    deny(stage, (OURS, A), (OURS, B), (THEIRS, A))
    run, ticket = await submitted(stage, await stage.worker(), BOTH)
    await stage.tick(2)

    assert creates(stage) == {(OURS, A): 1, (THEIRS, A): 1}
    assert run.name == "Crashed"
    assert (await ticket.wait_ended()).reason is TerminationReason.PERMISSION
    assert run.message.startswith("The job could not begin in ")
    assert run.message.count("a permission is missing") == 3


async def test_the_next_worker_knows_which_project_had_refused(stage: Stage) -> None:
    """Of a job that was accepted and then refused, while nobody held the run."""
    first = await stage.worker("first")
    run, _ = await submitted(stage, first, BOTH)
    await stage.kill(first)
    second = await stage.worker("second")
    stage.move(stage.job(run), "FAILED", (7, WORDS))
    await stage.tick(40)
    assert run.state is RunState.SCHEDULED
    await submitted(stage, second, BOTH, run)
    await stage.tick(2)

    assert creates(stage) == {(OURS, A): 1, (THEIRS, A): 1}


async def test_a_job_s_missing_right_ends_a_run_of_one_candidate(stage: Stage) -> None:
    worker = await stage.worker()
    run, _ = await submitted(stage, worker, BOTH[:1])
    await stage.kill(worker)
    await stage.worker("second")
    stage.move(stage.job(run), "FAILED", (7, WORDS))
    await stage.tick(40)

    assert run.name == "Crashed"
    assert WORDS in run.message
