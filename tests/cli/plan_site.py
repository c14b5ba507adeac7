"""A Prefect server without Google, and what `prefect-vertex plan` says about what is on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import BlockDocumentCreate, WorkPoolCreate

from prefect_vertex.cli.plan import plan
from prefect_vertex.template import base_job_template

NEEDED = ("region=us-central1", "image=i:1", "project=forecasts")
KEY = {
    "type": "service_account",
    "project_id": "of-the-key",
    "client_email": "runner@of-the-key.iam.gserviceaccount.com",
    "private_key": "-----BEGIN PRIVATE KEY-----",
    "token_uri": "https://oauth2.googleapis.com/token",
}


@dataclass
class Site:
    """A Prefect server, and what the command says about what is on it."""

    client: SyncPrefectClient
    capsys: pytest.CaptureFixture[str]
    said: str = ""

    def pool(self, kind: str = "vertex-custom-job", template: Any = None) -> str:
        name = f"pool-{uuid4().hex[:8]}"
        self.client.create_work_pool(
            WorkPoolCreate(
                name=name,
                type=kind,
                base_job_template=base_job_template() if template is None else template,
            )
        )
        return name

    def deployment(self, pool: str | None, **job_variables: Any) -> tuple[UUID, str]:
        """Returns its id, and FLOW/NAME."""
        flow = f"flow-{uuid4().hex[:8]}"
        flow_id = self.client.create_flow_from_name(flow)
        deployment_id = self.client.create_deployment(
            flow_id, "nightly", work_pool_name=pool, job_variables=job_variables
        )
        return deployment_id, f"{flow}/nightly"

    def block(self, slug: str, data: dict[str, Any]) -> str:
        """A block of that type; its name."""
        block_type = self.client.read_block_type_by_slug(slug)
        schema = self.client.get_most_recent_block_schema_for_block_type(block_type.id)
        assert schema is not None
        name = f"block-{uuid4().hex[:8]}"
        self.client.create_block_document(
            BlockDocumentCreate(
                name=name, data=data, block_schema_id=schema.id, block_type_id=block_type.id
            )
        )
        return name

    def text(self, *job_variable: str, **options: Any) -> str:
        """What the command prints."""
        self.capsys.readouterr()
        plan(job_variable=job_variable, **options)
        out, self.said = self.capsys.readouterr()
        return out

    def plans(self, *job_variable: str, **options: Any) -> list[dict[str, Any]]:
        """The requests that the command prints."""
        found: list[dict[str, Any]] = json.loads(self.text(*job_variable, **options))
        return found

    def job(self, *job_variable: str, **options: Any) -> dict[str, Any]:
        """The only job that the command prints."""
        (request,) = self.plans(*job_variable, **options)
        job: dict[str, Any] = request["custom_job"]
        return job


def env_of(job: dict[str, Any]) -> dict[str, str]:
    (pool,) = job["job_spec"]["worker_pool_specs"]
    return {entry["name"]: entry.get("value", "") for entry in pool["container_spec"]["env"]}
