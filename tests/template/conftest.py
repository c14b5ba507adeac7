"""A small Prefect API, and builders of what it serves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.client.schemas.objects import (
    BlockDocument,
    BlockSchema,
    BlockType,
    Flow,
    FlowRun,
    WorkPool,
)
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from prefect_vertex.template import VertexJobConfiguration, base_job_template

FLOW_ID = UUID("11111111-1111-4111-8111-111111111111")
RUN_ID = UUID("0f1e2d3c-1111-4222-8333-444455556666")
POOL_ID = UUID("7a7b7c7d-1111-4222-8333-444455556666")
DEPLOYMENT_ID = UUID("22222222-1111-4222-8333-444455556666")
BLOCK_ID = UUID("33333333-1111-4222-8333-444455556666")

MINIMUM = {"region": "europe-west4", "image": "europe-docker.pkg.dev/p/flows/forecast:1"}


def not_found(path: str) -> ObjectNotFound:
    request = httpx.Request("GET", f"http://127.0.0.1/api{path}")
    response = httpx.Response(404, request=request)
    return ObjectNotFound(httpx.HTTPStatusError("404", request=request, response=response))


@dataclass
class FakePrefect:
    """What resolving a configuration asks of Prefect's API."""

    deployments: dict[UUID, DeploymentResponse] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)

    async def read_flow(self, flow_id: UUID) -> Flow:
        return Flow(id=flow_id, name="Monthly Forecast", labels={})

    async def read_deployment(self, deployment_id: UUID) -> DeploymentResponse:
        if deployment_id not in self.deployments:
            raise not_found(f"/deployments/{deployment_id}")
        return self.deployments[deployment_id]

    async def read_block_document(self, block_document_id: object) -> BlockDocument:
        return self._block(str(block_document_id))

    async def read_block_document_by_name(self, name: str, block_type_slug: str) -> BlockDocument:
        return self._block(f"{block_type_slug}/{name}")

    async def read_variable_by_name(self, name: str) -> Any:
        return self.variables.get(name)

    def _block(self, key: str) -> BlockDocument:
        if key not in self.blocks:
            raise not_found(f"/block_documents/{key}")
        kind = BlockType(name="GCP Credentials", slug="gcp-credentials")
        secret_fields = ["value"] if key.startswith("secret/") else []
        schema = BlockSchema(
            checksum="", fields={"secret_fields": secret_fields}, block_type_id=BLOCK_ID
        )
        return BlockDocument(
            name="mine",
            data=deepcopy(self.blocks[key]),
            block_schema_id=BLOCK_ID,
            block_schema=schema,
            block_type_id=BLOCK_ID,
            block_type=kind,
        )


@dataclass
class World:
    """A pool, perhaps a deployment, and a flow run, with the API that serves them."""

    flow_run: FlowRun
    work_pool: WorkPool
    deployment: DeploymentResponse | None
    client: FakePrefect

    def resolve(self) -> VertexJobConfiguration:
        """Resolve the run's configuration as Prefect's worker does."""
        client: Any = self.client
        return asyncio.run(
            VertexJobConfiguration.resolve_for_flow_run(
                self.flow_run,
                client=client,
                work_pool=self.work_pool,
                worker_name="worker-1",
                deployment=self.deployment,
            ),
        )


@pytest.fixture
def a_world() -> Callable[..., World]:
    """Build a world from job variables: the deployment's, the run's, and the pool's template."""

    def build(
        *,
        run: dict[str, Any] | None = None,
        deployment: dict[str, Any] | None = None,
        template: dict[str, Any] | None = None,
        blocks: dict[str, dict[str, Any]] | None = None,
        variables: dict[str, Any] | None = None,
    ) -> World:
        deployed = None
        if deployment is not None:
            deployed = DeploymentResponse(
                id=DEPLOYMENT_ID,
                name="monthly",
                flow_id=FLOW_ID,
                job_variables=deployment,
                labels={},
            )
        flow_run = FlowRun(
            id=RUN_ID,
            name="crafty-mongoose",
            flow_id=FLOW_ID,
            deployment_id=DEPLOYMENT_ID if deployed else None,
            job_variables=run,
        )
        pool = WorkPool(
            id=POOL_ID,
            name="vertex-forecast",
            type="vertex-custom-job",
            default_queue_id=POOL_ID,
            base_job_template=base_job_template() if template is None else template,
        )
        return World(
            flow_run, pool, deployed, FakePrefect(blocks=blocks or {}, variables=variables or {})
        )

    return build


@pytest.fixture
def resolved(a_world: Callable[..., World]) -> Callable[..., VertexJobConfiguration]:
    """The configuration of a run with a region, an image, and the variables given."""

    def build(**variables: Any) -> VertexJobConfiguration:
        return a_world(run={**MINIMUM, **variables}).resolve()

    return build


@pytest.fixture
def update_golden() -> bool:
    """Whether golden files are written instead of compared (UPDATE_GOLDEN=1)."""
    return bool(os.environ.get("UPDATE_GOLDEN"))
