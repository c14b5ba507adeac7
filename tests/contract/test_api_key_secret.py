"""A job whose request holds no key asks the Prefect API with one: the whole way, on a laptop."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_KEY, PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from prefect_vertex.delivery.packing import packed_bootstrap
from prefect_vertex.emulator import FAST, Emulator
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexJobConfiguration, base_job_template
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.gateways import Gateways

pytestmark = pytest.mark.anyio

# Nothing is asked of Prefect's client here; without one a server would be started.
NOBODY: Any = object()
SECRET = "projects/demo-project/secrets/prefect-api-key"


class PrefectApi(ThreadingHTTPServer):
    """As much of the API as a start is claimed with; it remembers how it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.authorizations: set[str | None] = set()


class _Handler(BaseHTTPRequestHandler):
    server: PrefectApi

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.authorizations.add(self.headers.get("Authorization"))
        body = json.dumps({"state_type": "PENDING"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture
def prefect_api() -> Iterator[PrefectApi]:
    server = PrefectApi()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def emulator() -> AsyncIterator[Emulator]:
    quick = dataclasses.replace(FAST, queued_seconds=0.01, provisioning_seconds=0.01)
    async with Emulator(timings=quick) as started:
        yield started


async def a_plan(prefect_api: PrefectApi) -> JobPlan:
    """What a worker that has the key itself would submit."""
    variables = {
        "region": "us-central1",
        "project": "demo-project",
        "image": "i:1",
        "command": "printenv PREFECT_API_KEY",
        "service_account_name": "runner@demo-project.iam.gserviceaccount.com",
        "prefect_api_key_secret": SECRET,
    }
    url = f"http://127.0.0.1:{prefect_api.server_port}/api"
    with temporary_settings({PREFECT_API_KEY: SecretStr("pnu_hidden"), PREFECT_API_URL: url}):
        configuration = await VertexJobConfiguration.from_template_and_values(
            base_job_template(), variables, NOBODY
        )
        run = FlowRun(id=uuid.uuid4(), name="crafty-mongoose", flow_id=uuid.uuid4())
        configuration.prepare_for_flow_run(run)
    spec = configuration.run_spec()
    return build_plan(spec, spec.candidates[0], attempt=1, bootstrap=packed_bootstrap())


async def test_the_container_has_the_key_that_its_job_lacks(
    emulator: Emulator, prefect_api: PrefectApi
) -> None:
    emulator.secrets.add(SECRET, "pnu_hidden\n")
    plan = await a_plan(prefect_api)
    gateways = Gateways(
        submissions_per_minute=600,
        reads_per_minute=600,
        environ={EMULATOR_VARIABLE: emulator.address},
    )

    created = await gateways.for_target(plan.target).create(plan.request)
    async with asyncio.timeout(20):
        await emulator.job(str(created.resource_name)).wait_for_end()
    output = emulator.job(str(created.resource_name)).output("workerpool0-0")
    await gateways.aclose()

    assert b"pnu_hidden" not in types.CreateCustomJobRequest.serialize(plan.request)
    assert output.stderr == ""
    assert output.stdout.splitlines()[-1] == "pnu_hidden"
    assert prefect_api.authorizations == {"Bearer pnu_hidden"}


async def test_a_secret_that_is_not_there_fails_the_job_and_says_which(
    emulator: Emulator, prefect_api: PrefectApi
) -> None:
    plan = await a_plan(prefect_api)
    gateways = Gateways(
        submissions_per_minute=600,
        reads_per_minute=600,
        environ={EMULATOR_VARIABLE: emulator.address},
    )

    created = await gateways.for_target(plan.target).create(plan.request)
    async with asyncio.timeout(20):
        await emulator.job(str(created.resource_name)).wait_for_end()
    job = emulator.job(str(created.resource_name))
    await gateways.aclose()

    assert "status of 77" in job.record.message.error.message
    assert f"cannot read {SECRET}/versions/latest" in job.output("workerpool0-0").stderr
    assert prefect_api.authorizations == set()
