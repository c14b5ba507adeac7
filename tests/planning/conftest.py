"""Builders with defaults: a test says only what it is about."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.planning.packed import is_part
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec

GOLDEN = Path(__file__).parent / "golden"

IDENTITY = RunIdentity(
    flow_run_id="0f1e2d3c-1111-4222-8333-444455556666",
    flow_run_name="crafty-mongoose",
    work_pool_id="7a7b7c7d-1111-4222-8333-444455556666",
    labels={
        "prefect.io/flow-run-id": "0f1e2d3c-1111-4222-8333-444455556666",
        "prefect.io/flow-run-name": "crafty-mongoose",
        "prefect.io/flow-name": "Monthly Forecast",
        "prefect.io/work-pool-name": "vertex-forecast",
    },
)


@pytest.fixture
def identity() -> RunIdentity:
    return IDENTITY


@pytest.fixture
def a_candidate() -> Callable[..., Candidate]:
    """A candidate with one pool; `pool=` replaces parts of it, `spec=` adds to the job spec."""

    def build(
        *,
        pool: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Candidate:
        first = {"container_spec": {"image_uri": "europe-docker.pkg.dev/p/flows/forecast:1"}}
        values: dict[str, Any] = {
            "project": "forecasts",
            "location": "europe-west4",
            "job_spec": {"worker_pool_specs": [{**first, **(pool or {})}], **(spec or {})},
            "command": ("prefect", "flow-run", "execute"),
            **changes,
        }
        return Candidate(**values)

    return build


@pytest.fixture
def a_plan(a_candidate: Callable[..., Candidate]) -> Callable[..., JobPlan]:
    """A plan of such a candidate; what is not named here goes to the candidate."""

    def build(
        *,
        attempt: int = 1,
        bootstrap: str = "pass",
        platform_env: Mapping[str, str] | None = None,
        candidate: Candidate | None = None,
        **changes: Any,
    ) -> JobPlan:
        chosen = candidate or a_candidate(**changes)
        return build_plan(
            RunSpec(identity=IDENTITY, candidates=(chosen,)),
            chosen,
            attempt=attempt,
            bootstrap=bootstrap,
            platform_env=platform_env,
        )

    return build


@pytest.fixture
def matches_golden() -> Callable[[JobPlan, str], None]:
    """Compare a plan with a file of tests/planning/golden; UPDATE_GOLDEN=1 writes it instead.

    What travels packed is written out there: builds of zlib differ.
    """

    def check(plan: JobPlan, name: str) -> None:
        path = GOLDEN / f"{name}.json"
        request = json.loads(plan.as_json())
        for pool in request["custom_job"]["job_spec"]["worker_pool_specs"]:
            for entry in pool.get("container_spec", {}).get("env", ()):
                if is_part(entry["name"]):
                    entry["value"] = json.loads(zlib.decompress(base64.b64decode(entry["value"])))
        if os.environ.get("UPDATE_GOLDEN"):
            text = json.dumps(request, indent=2, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")
        assert request == json.loads(path.read_text(encoding="utf-8"))

    return check
