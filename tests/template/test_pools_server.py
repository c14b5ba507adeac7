"""A real Prefect server takes every template, judges job variables by it, and offers its runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.client.schemas.actions import BlockDocumentCreate, WorkPoolCreate
from prefect.client.schemas.objects import WorkPool
from prefect.exceptions import PrefectHTTPStatusError
from tests.forks import ForkedChild
from tests.laptop import opened_laptop

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import LocalStack, program
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexJobConfiguration, base_job_template
from prefect_vertex.template.pool import POOL_TEMPLATES

FOLDER = Path(__file__).parents[2] / "work_pool_templates"
FIXTURES = Path(__file__).parent / "fixtures"
NEEDED = {"region": "us-central1", "image": "i:1", "project": "p"}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    """A server on a free port, with a home of its own."""
    with opened_laptop("pools") as (stack, _):
        yield stack


@pytest.fixture
def client(stack: LocalStack) -> Iterator[SyncPrefectClient]:
    with SyncPrefectClient(api=stack.api_url) as client:
        yield client


@pytest.fixture
def a_pool(client: SyncPrefectClient) -> Callable[..., WorkPool]:
    """Create a pool with a template."""

    def create(template: dict[str, Any], kind: str = "vertex-custom-job") -> WorkPool:
        name = f"pool-{uuid4().hex[:8]}"
        return client.create_work_pool(
            WorkPoolCreate(name=name, type=kind, base_job_template=template)
        )

    return create


@pytest.fixture
def deploy(client: SyncPrefectClient) -> Callable[..., UUID]:
    """Create a deployment to a pool."""

    def create(pool: WorkPool, **job_variables: Any) -> UUID:
        flow_id = client.create_flow_from_name(f"flow-{uuid4().hex[:8]}")
        return client.create_deployment(
            flow_id, "nightly", work_pool_name=pool.name, job_variables=job_variables
        )

    return create


@pytest.fixture
def planned(client: SyncPrefectClient, stack: LocalStack) -> Callable[..., list[JobPlan]]:
    """Make a run of a deployment, and plan it as the worker does."""

    def plan(deployment: UUID, pool: WorkPool, **job_variables: Any) -> list[JobPlan]:
        run = client.create_flow_run_from_deployment(deployment, job_variables=job_variables)

        async def resolve() -> VertexJobConfiguration:
            async with PrefectClient(stack.api_url) as api:
                return await VertexJobConfiguration.resolve_for_flow_run(
                    run, client=api, work_pool=pool, worker_name="worker-1"
                )

        spec = anyio.run(resolve).run_spec(default_project="p")
        return [build_plan(spec, each, attempt=1, bootstrap="pass") for each in spec.candidates]

    return plan


@pytest.mark.parametrize("name", POOL_TEMPLATES)
def test_a_pool_from_each_file_plans_a_run(
    a_pool: Callable[..., WorkPool],
    deploy: Callable[..., UUID],
    planned: Callable[..., list[JobPlan]],
    name: str,
) -> None:
    pool = a_pool(read(FOLDER / f"{name}.json"))
    plans = planned(deploy(pool, **NEEDED), pool, **{"env.SEASON": "12", "labels.team": "demand"})

    assert pool.base_job_template == read(FOLDER / f"{name}.json")
    for plan in plans:
        (first, *_) = plan.request.custom_job.job_spec.worker_pool_specs
        assert {"name": "SEASON", "value": "12"} in [
            {"name": entry.name, "value": entry.value} for entry in first.container_spec.env
        ]
        assert plan.labels["team"] == "demand"


@pytest.mark.parametrize(
    ("variables", "culprit"),
    [({"machine_typ": "n1-standard-4"}, "machine_typ"), ({"envs.A": "1"}, "envs.A")],
)
def test_our_template_makes_the_server_refuse_an_unknown_variable(
    client: SyncPrefectClient,
    a_pool: Callable[..., WorkPool],
    deploy: Callable[..., UUID],
    variables: dict[str, Any],
    culprit: str,
) -> None:
    """Of a deployment and of a run, naming it."""
    pool = a_pool(base_job_template())
    deployment = deploy(pool, **NEEDED)
    with pytest.raises(PrefectHTTPStatusError, match=culprit):
        deploy(pool, **variables)
    with pytest.raises(PrefectHTTPStatusError, match=culprit):
        client.create_flow_run_from_deployment(deployment, job_variables=variables)


@pytest.mark.parametrize("name", ["prefect_gcp_0_6_22", "prefect_bundled"])
def test_a_pool_of_prefect_gcp_s_type_plans_its_runs(
    a_pool: Callable[..., WorkPool],
    deploy: Callable[..., UUID],
    planned: Callable[..., list[JobPlan]],
    name: str,
) -> None:
    """The server takes variables that its template does not know; they have no effect."""
    pool = a_pool(read(FIXTURES / f"{name}.json"), "vertex-ai")
    deployment = deploy(pool, region="us-central1", image="i:1")

    (plan,) = planned(deployment, pool, machine_typ="n1-standard-8", worker_count=4)

    (first,) = plan.request.custom_job.job_spec.worker_pool_specs
    assert first.machine_spec.machine_type == "n1-standard-4"
    assert plan.labels["prefect-io_work-pool-name"] == pool.name


@pytest.mark.e2e
def test_a_worker_says_once_at_its_start_what_the_pool_s_template_lacks(
    stack: LocalStack, a_pool: Callable[..., WorkPool], tmp_path: Path
) -> None:
    """With a pool of prefect-gcp's type, which it works for as it is."""
    pool = a_pool(read(FIXTURES / "prefect_gcp_0_6_22.json"), "vertex-ai")
    with Children(tmp_path, ForkedChild) as children:
        worker = _start(children, stack, pool)
        # It has synced more than once by then.
        worker.wait_until(lambda: _heartbeats(stack, pool) > 1, seconds=60, what="a heartbeat")
        said = [line for line in worker.output().splitlines() if "worker_count" in line]

    assert len(said) == 1
    assert "works with this one as it is" in said[0]


def _start(children: Children, stack: LocalStack, pool: WorkPool) -> Child:
    words = ["worker", "start", "--pool", pool.name, "--type", "vertex-custom-job"]
    env = {
        **stack.env,
        "VERTEX_AI_EMULATOR_HOST": "127.0.0.1:1",
        "PREFECT_WORKER_HEARTBEAT_SECONDS": "1",
        "COLUMNS": "5000",
    }
    worker = children.start("worker", [*program("prefect"), *words], env=env)
    worker.wait_until(lambda: "started!" in worker.output(), seconds=60, what="it had started")
    return worker


_SEEN: dict[str, set[Any]] = {}


def _heartbeats(stack: LocalStack, pool: WorkPool) -> int:
    """How many different heartbeats of the pool's worker have been seen."""
    seen = _SEEN.setdefault(pool.name, set())
    with SyncPrefectClient(api=stack.api_url) as client:
        for worker in client._client.post(f"/work_pools/{pool.name}/workers/filter").json():
            seen.add(worker["last_heartbeat_time"])
    return len(seen)


# --- references to blocks -------------------------------------------------------------------------

REFERENCE = "{{ prefect.blocks.gcp-credentials.mine }}"
SIGNING_KEY = {"type": "service_account", "project_id": "of-the-key", "private_key": "BEGIN KEY"}


@pytest.fixture(scope="module")
def block(stack: LocalStack) -> str:
    """A credentials block named mine, and a variable that refers to it; returns the block's id."""
    with SyncPrefectClient(api=stack.api_url) as client:
        client._client.post("/variables/", json={"name": "which_credentials", "value": REFERENCE})
        block_type = client.read_block_type_by_slug("gcp-credentials")
        schema = client.get_most_recent_block_schema_for_block_type(block_type.id)
        assert schema is not None
        made = client.create_block_document(
            BlockDocumentCreate(
                name="mine",
                data={"service_account_info": SIGNING_KEY},
                block_schema_id=schema.id,
                block_type_id=block_type.id,
            )
        )
    return str(made.id)


@pytest.mark.parametrize("kind", ["text", "$ref"])
def test_a_reference_to_a_block_is_stored_as_one_and_resolved_by_the_worker(
    client: SyncPrefectClient,
    a_pool: Callable[..., WorkPool],
    deploy: Callable[..., UUID],
    planned: Callable[..., list[JobPlan]],
    block: str,
    kind: str,
) -> None:
    """Of a deployment and of a run, both made by API."""
    pool = a_pool(base_job_template())
    reference: Any = {"$ref": {"block_document_id": block}} if kind == "$ref" else REFERENCE
    by_deployment = deploy(pool, region="us-central1", image="i:1", credentials=reference)
    plain = deploy(pool, region="us-central1", image="i:1")

    stored = client.read_deployment(by_deployment).job_variables
    (one,) = planned(by_deployment, pool)
    (other,) = planned(plain, pool, credentials=reference)

    assert stored["credentials"] == reference
    assert one.target.project == other.target.project == "of-the-key"


@pytest.mark.parametrize("text", ["mine", "{{ prefect.variables.mine }}", "{}", "{{ mine }}"])
def test_a_text_that_names_no_block_is_refused_by_the_server(
    a_pool: Callable[..., WorkPool], deploy: Callable[..., UUID], text: str
) -> None:
    pool = a_pool(base_job_template())
    with pytest.raises(PrefectHTTPStatusError, match="credentials"):
        deploy(pool, region="us-central1", image="i:1", credentials=text)


@pytest.mark.e2e
@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(
    ("written", "is_clear"),
    [(REFERENCE, True), ("{{ prefect.variables.which_credentials }}", False)],
    ids=["block", "variable"],
)
def test_prefect_deploy_stores_the_key_unless_a_variable_names_the_block(
    stack: LocalStack,
    client: SyncPrefectClient,
    a_pool: Callable[..., WorkPool],
    tmp_path: Path,
    written: str,
    is_clear: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """What the variable's description says of Prefect's own command; a change of it fails here."""
    name = f"deployed-{uuid4().hex[:8]}"
    variables = {"region": "us-central1", "image": "i:1", "credentials": written}
    work_pool = {"name": a_pool(base_job_template()).name, "job_variables": variables}
    entry = {"name": name, "entrypoint": "flows.py:nothing", "work_pool": work_pool}
    (tmp_path / "flows.py").write_text(
        "from prefect import flow\n\n\n@flow\ndef nothing(): ...\n", encoding="utf-8"
    )
    (tmp_path / "prefect.yaml").write_text(
        json.dumps({"pull": [], "deployments": [entry]}), encoding="utf-8"
    )
    command = [*program("prefect"), "--no-prompt", "deploy", "--name", name]
    env = {**os.environ, **stack.env}
    subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)

    stored = client.read_deployment_by_name(f"nothing/{name}").job_variables["credentials"]
    assert stored == ({"service_account_info": SIGNING_KEY} if is_clear else REFERENCE)
