"""How patient a worker is with a job follows from the request, as it is sent."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun

from prefect_vertex.reconciler.wiring import Surroundings
from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import VertexJobConfiguration, base_job_template
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE

pytestmark = pytest.mark.anyio

NOBODY: Any = object()
VARIABLES = {"region": "us-central1", "project": "p-12345", "image": "i:1"}
DAY = 86_400.0


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """A worker's adapters, which nothing here makes connect."""
    monkeypatch.setenv(EMULATOR_VARIABLE, "127.0.0.1:1")
    return Surroundings(NOBODY, NOBODY, VertexSettings(), instance="x")


async def limits_of(
    surroundings: Surroundings, **variables: Any
) -> list[tuple[float | None, bool]]:
    """Longest run time, and whether machines may be taken back, for each candidate."""
    configuration = await VertexJobConfiguration.from_template_and_values(
        base_job_template(), {**VARIABLES, **variables}, NOBODY
    )
    run = FlowRun(id=uuid.uuid4(), name="crafty-mongoose", flow_id=uuid.uuid4())
    configuration.prepare_for_flow_run(run)
    assignment = await surroundings.assignment(str(run.id), configuration)
    assert assignment.policy == assignment.policy_at(0)
    policies = [assignment.policy_at(each.index) for each in assignment.spec.candidates]
    return [(each.timeout_seconds, each.spot) for each in policies]


def patch(field: str, value: Any) -> dict[str, Any]:
    path = f"/job_spec/scheduling/{field}"
    return {"job_spec_patch": [{"op": "add", "path": path, "value": value}]}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (DAY, False)),
        ({"maximum_run_time_hours": 2, "strategy": "SPOT"}, (7200.0, True)),
        (patch("strategy", "SPOT"), (DAY, True)),
        ({"strategy": "SPOT", **patch("strategy", "STANDARD")}, (DAY, False)),
        (patch("timeout", "1800s"), (1800.0, False)),
        (
            {"job_spec_patch": [{"op": "remove", "path": "/job_spec/scheduling/timeout"}]},
            (7 * DAY, False),
        ),
        ({"scheduling": {"strategy": "SPOT", "timeout": ""}}, (DAY, True)),
        ({"strategy": "LOW_COST"}, (DAY, True)),
        ({"scheduling": {"strategy": 2}}, (DAY, True)),
    ],
    ids=str,
)
async def test_the_limits_are_those_of_the_job_that_is_sent(
    surroundings: Surroundings, variables: dict[str, Any], expected: tuple[float, bool]
) -> None:
    assert await limits_of(surroundings, **variables) == [expected]


async def test_each_candidate_has_its_own(surroundings: Surroundings) -> None:
    own = {"candidates": [patch("strategy", "SPOT"), {"maximum_run_time_hours": 1}]}

    assert await limits_of(surroundings, **own) == [(DAY, True), (3600.0, False)]
