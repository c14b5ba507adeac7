"""A worker says once that its jobs carry the Prefect API's key, and what to do."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_KEY, temporary_settings
from pydantic import SecretStr

from prefect_vertex.reconciler.wiring import Surroundings
from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import VertexJobConfiguration, base_job_template
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE

pytestmark = pytest.mark.anyio

# Nothing is asked of Prefect here; without a client a server would be started.
NOBODY: Any = object()
VARIABLES = {"region": "us-central1", "project": "p", "image": "i:1"}
SECRET = {
    "prefect_api_key_secret": "projects/p/secrets/s/versions/1",
    "service_account_name": "runner@p.iam.gserviceaccount.com",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """A worker's adapters, which nothing here makes connect."""
    monkeypatch.setenv(EMULATOR_VARIABLE, "127.0.0.1:1")
    return Surroundings(NOBODY, NOBODY, VertexSettings(), instance="x")


async def configured(**variables: Any) -> VertexJobConfiguration:
    configuration = await VertexJobConfiguration.from_template_and_values(
        base_job_template(), {**VARIABLES, **variables}, NOBODY
    )
    run = FlowRun(id=uuid.uuid4(), name="crafty-mongoose", flow_id=uuid.uuid4())
    configuration.prepare_for_flow_run(run)
    return configuration


async def test_it_is_said_once_however_many_runs_there_are(
    surroundings: Surroundings, caplog: pytest.LogCaptureFixture
) -> None:
    with temporary_settings({PREFECT_API_KEY: SecretStr("pnu_hidden")}):
        for run_id in ("one", "two"):
            await surroundings.assignment(run_id, await configured())

    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "carry PREFECT_API_KEY" in record.getMessage()
    assert "set prefect_api_key_secret to" in record.getMessage()
    assert "pnu_hidden" not in caplog.text


async def test_nothing_is_said_where_nothing_is_carried(
    surroundings: Surroundings, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a key, or with a secret in its place."""
    await surroundings.assignment("one", await configured())
    with temporary_settings({PREFECT_API_KEY: SecretStr("pnu_hidden")}):
        assignment = await surroundings.assignment("two", await configured(**SECRET))

    plan = assignment.plan(assignment.spec.candidates[0], 1)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert "pnu_hidden" not in str(plan.request)
