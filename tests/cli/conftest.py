"""A Prefect server with an emulator, for the commands that look at both; one alone for `plan`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import WorkPool
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
from tests.cli.plan_site import Site
from tests.laptop import opened_laptop

from prefect_vertex.cli.app import app
from prefect_vertex.cli.local import LocalStack, free_port
from prefect_vertex.emulator import ControlClient
from prefect_vertex.template import base_job_template

REGION = "us-central1"
IMAGE = "us-central1-docker.pkg.dev/demo-project/flows/flows:1"


@dataclass
class Desk:
    """A person at a terminal, with a server and an emulator."""

    stack: LocalStack
    client: SyncPrefectClient
    emulator: ControlClient

    def pool(self, template: Any = None, kind: str = "vertex-custom-job", **defaults: Any) -> str:
        """A pool of its own, whose jobs run in the emulator."""
        name = f"pool-{uuid4().hex[:8]}"
        template = template or base_job_template({"region": REGION, "image": IMAGE, **defaults})
        self.client.create_work_pool(
            WorkPoolCreate(name=name, type=kind, base_job_template=template)
        )
        return name

    def read_pool(self, name: str) -> WorkPool:
        """The pool as the server has it."""
        return self.client.read_work_pool(name)

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Type a command."""
        return subprocess.run(
            [sys.executable, "-m", "prefect_vertex", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
            env={**self.stack.env, **env},
            cwd=self.stack.home,
        )

    def json(self, *words: str) -> Any:
        """Give a command with --json to this process, which is quicker; what it printed."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            app([*words, "--json"], exit_on_error=False)
        return json.loads(printed.getvalue())


@pytest.fixture(scope="session")
def _desk() -> Iterator[Desk]:
    """Server, emulator with its control port, and storage; each test brings its own pool."""
    with opened_laptop("desk") as (stack, _):
        port = free_port()
        stack.start_cloud(control_port=port)
        stack.create_bucket("desk-bucket")
        with SyncPrefectClient(api=stack.api_url) as client:
            yield Desk(stack, client, ControlClient(f"http://127.0.0.1:{port}"))


@pytest.fixture
def desk(_desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Desk]:
    """The same, with this process speaking to it too."""
    for name, value in _desk.stack.env.items():
        if name.endswith("_HOST") or name == "GOOGLE_CLOUD_PROJECT":
            monkeypatch.setenv(name, value)
    with temporary_settings({PREFECT_API_URL: _desk.stack.api_url, PREFECT_HOME: tmp_path}):
        yield _desk


@pytest.fixture(scope="session")
def api_url() -> Iterator[str]:
    """A real server on a free port, with a home of its own; each test brings its own pool."""
    with opened_laptop("plan") as (stack, _):
        yield stack.api_url


@pytest.fixture
def site(
    api_url: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """The command speaks to the server, on a machine that knows no credentials."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    settings = temporary_settings({PREFECT_API_URL: api_url, PREFECT_HOME: tmp_path})
    with settings, SyncPrefectClient(api=api_url) as client:
        yield Site(client, capsys)
