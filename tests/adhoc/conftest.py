"""Flows in files of their own, as users have them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from tests.laptop import opened_laptop

import prefect_vertex
from prefect_vertex.bundles.__main__ import storage_configuration
from prefect_vertex.cli.local import LocalStack
from prefect_vertex.template import base_job_template

DEFAULTS = {"region": "us-central1", "image": "us-docker.pkg.dev/p/r/i:1"}
PACKAGE = str(Path(prefect_vertex.__file__).parents[1])
BEGIN = """
import asyncio, os, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore", FutureWarning)
from prefect import flow
from prefect_vertex import vertex_job
from prefect_vertex.errors import PrefectVertexError

def bound(of, pool="POOL", **options):
    return vertex_job(pool, **{"launcher": [sys.executable], **options})(of)

def told(submit):
    \"\"\"Print what the user gets: a run's id, or an error of ours.\"\"\"
    try:
        print("future", submit().flow_run_id, flush=True)
    except PrefectVertexError as error:
        print(type(error).__name__, error, flush=True)

@flow
def plain(x=None): ...

"""

SOURCE = """
from prefect import flow
from prefect_vertex import vertex_job


@vertex_job("a-pool", **OPTIONS)
@flow
def main(months: int = 12) -> int:
    return months
"""


@pytest.fixture
def write_flow(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Write a flow with these options of the decorator to a folder of its own, and import it."""
    made: list[str] = []

    def write(**options: Any) -> Any:
        name = f"a_flow_{len(made)}_{tmp_path.name.replace('-', '_')}"
        path = tmp_path / f"{name}.py"
        path.write_text(SOURCE.replace("**OPTIONS", f"**{options!r}"))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        made.append(name)
        spec.loader.exec_module(module)
        return module.main

    yield write
    for name in made:
        del sys.modules[name]


@dataclass
class Site:
    """A Prefect server and a cloud, with scripts that submit to them in processes of their own."""

    client: SyncPrefectClient
    stack: LocalStack
    home: Path

    def pool(self, kind: str = "vertex-custom-job", **fields: Any) -> str:
        """A work pool with storage for bundles."""
        name = f"pool-{uuid4().hex[:8]}"
        template = base_job_template() if kind == "vertex-custom-job" else {}
        for variable, value in DEFAULTS.items() if template else ():
            template["variables"]["properties"][variable]["default"] = value
        self.client.create_work_pool(
            WorkPoolCreate(name=name, type=kind, base_job_template=template)
        )
        storage = storage_configuration(
            "gs://a-bucket", upload_launcher=["python3"], execution_launcher=["python3"]
        )
        self.client.update_work_pool(name, WorkPoolUpdate(storage_configuration=storage, **fields))
        return name

    def start(self, pool: str, script: str, **env: str) -> subprocess.Popen[str]:
        """Start a script after the usual beginning."""
        folder = self.home / f"script-{uuid4().hex[:8]}"
        folder.mkdir()
        text = BEGIN.replace("POOL", pool) + textwrap.dedent(script)
        (folder / "flows.py").write_text(text)
        return subprocess.Popen(
            [sys.executable, "flows.py"],
            cwd=folder,
            env={**self.stack.env, "PYTHONPATH": PACKAGE, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, pool: str, script: str, **env: str) -> list[str]:
        """The lines that such a script prints."""
        with self.start(pool, script, **env) as process:
            try:
                out, errors = process.communicate(timeout=90)
            finally:
                process.kill()
        assert process.returncode == 0, errors
        return out.splitlines()

    def runs(self, pool: str) -> list[Any]:
        """The pool's flow runs."""
        wanted = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool]))
        return list(self.client.read_flow_runs(work_pool_filter=wanted))

    @staticmethod
    def until(ask: Callable[[], Any], *, seconds: float = 60) -> Any:
        """Ask until the answer is true."""
        deadline = time.monotonic() + seconds
        while not (answer := ask()):
            assert time.monotonic() < deadline, "It never came true."
            time.sleep(0.1)
        return answer


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A Prefect server and a cloud for all tests here."""
    with opened_laptop("adhoc") as (stack, _):
        stack.start_cloud()
        stack.create_bucket("a-bucket")
        with SyncPrefectClient(stack.api_url) as client:
            yield Site(client, stack, stack.home)
