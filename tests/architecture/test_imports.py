"""What importing the package loads, and what it promises by name."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import prefect_vertex

HEAVY = (
    "google.auth",
    "google.api_core",
    "google.cloud.aiplatform",
    "google.cloud.storage",
    "grpc",
)


def _loaded_after(statement: str) -> list[str]:
    """Modules of Google's that a fresh interpreter has loaded after a statement."""
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(done.stdout.splitlines()[-1])
    return [name for name in modules if name.startswith(HEAVY)]


def test_importing_the_package_loads_no_google_module() -> None:
    """Prefect imports every collection at worker start, block lookup and server start."""
    assert _loaded_after("import prefect_vertex; prefect_vertex.VertexWorker") == []


def test_the_commands_help_loads_neither_prefect_nor_google() -> None:
    """`prefect-vertex --help` answers at once, and Ctrl-C meets no half-loaded library."""
    code = "import sys, prefect_vertex.cli; print('prefect' in sys.modules, 'grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]


def test_a_new_pool_s_template_is_written_without_google() -> None:
    """`prefect work-pool create --type` needs it in a process that does nothing else."""
    statement = "import prefect_vertex; prefect_vertex.VertexWorker.get_default_base_job_template()"

    assert _loaded_after(statement) == []


def test_what_a_started_worker_imports_has_none_of_the_high_level_client() -> None:
    """The high-level google.cloud.aiplatform takes 1.3 s more than its v1 client."""
    loaded = _loaded_after("import prefect_vertex.reconciler.wiring, prefect_vertex.planning.plan")

    assert "google.cloud.aiplatform_v1" in loaded
    assert "google.cloud.aiplatform" not in loaded


def test_the_public_names_are_these() -> None:
    """A name more or less is a change of the contract."""
    assert sorted(prefect_vertex.__all__) == ["VertexWorker", "__version__", "vertex_job"]
    assert all(hasattr(prefect_vertex, name) for name in prefect_vertex.__all__)


def test_the_collection_is_found_by_its_entry_point() -> None:
    """Prefect finds the worker type with nothing but the package installed."""
    (entry,) = [
        each for each in entry_points(group="prefect.collections") if each.name == "prefect_vertex"
    ]

    assert entry.load().VertexWorker is prefect_vertex.VertexWorker
    assert prefect_vertex.VertexWorker.type == "vertex-custom-job"
