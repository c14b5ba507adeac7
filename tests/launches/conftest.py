"""A plan and the facts of its run, with defaults: a test says only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from prefect_vertex.planning.launches import LaunchFacts, build_record
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec

RUN_ID = "0f1e2d3c-1111-4222-8333-444455556666"
CREATED = datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC)
BOOTSTRAP = "print('a bootstrap')\n" * 100
JOB = ResourceName(project="42", location="europe-west4", job_id="7")


@pytest.fixture
def a_plan() -> Callable[..., JobPlan]:
    """A plan of one replica; what is named goes to its candidate, `pool` over its pool."""

    def build(
        *, attempt: int = 1, pool: Mapping[str, Any] | None = None, **changes: Any
    ) -> JobPlan:
        container = {"container_spec": {"image_uri": "europe-docker.pkg.dev/p/flows/forecast:1"}}
        values: dict[str, Any] = {
            "project": "forecasts",
            "location": "europe-west4",
            "job_spec": {"worker_pool_specs": [{**container, **(pool or {})}]},
            "command": ("prefect", "flow-run", "execute"),
            "staging_folder": "gs://staging/team",
            **changes,
        }
        candidate = Candidate(**values)
        identity = RunIdentity(
            flow_run_id=RUN_ID, flow_run_name="crafty-mongoose", work_pool_id="a-pool"
        )
        spec = RunSpec(identity=identity, candidates=(candidate,))
        return build_plan(spec, candidate, attempt=attempt, bootstrap=BOOTSTRAP)

    return build


@pytest.fixture
def facts() -> Callable[..., LaunchFacts]:
    """Of a deployment's run."""

    def build(**changes: Any) -> LaunchFacts:
        values: dict[str, Any] = {
            "flow_run_id": RUN_ID,
            "flow_run_name": "crafty-mongoose",
            "flow_name": "forecast",
            "deployment_id": "11111111-2222-4333-8444-555566667777",
            "deployment_name": "nightly",
            "work_pool_name": "vertex-forecast",
            "template_sha256": "ab" * 32,
            "packages": {"prefect-vertex": "0.1.0", "prefect": "3.9.1"},
            **changes,
        }
        return LaunchFacts(**values)

    return build


@pytest.fixture
def a_record(
    a_plan: Callable[..., JobPlan], facts: Callable[..., LaunchFacts]
) -> Callable[..., dict[str, Any]]:
    """The record of such a launch; `plan` is its plan, what else is named goes to its facts."""

    def build(plan: JobPlan | None = None, **changes: Any) -> dict[str, Any]:
        return build_record(
            plan or a_plan(),
            facts(**changes),
            job=JOB,
            created_at=CREATED,
            candidates=["europe-west4"],
            bootstrap=BOOTSTRAP,
        )

    return build
