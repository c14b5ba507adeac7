"""The documentation as its readers have it: pages, and the examples in them."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import Flow, FlowRun, WorkPool

from prefect_vertex.cli.plan import planned
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.template import VertexJobConfiguration, base_job_template

ROOT = Path(__file__).resolve().parents[2]
RUN_ID = UUID("0f1e2d3c-1111-4222-8333-444455556666")
MINIMUM = {"region": "us-central1", "image": "us-central1-docker.pkg.dev/my-project/flows/f:1"}


def pages() -> list[Path]:
    """All that users read, the README too."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


def blocks(language: str) -> list[Block]:
    """Every fenced block of a language, in all pages."""
    return [each for path in pages() for each in _blocks(path) if each.language == language]


def _blocks(path: Path) -> Iterator[Block]:
    fence = re.compile(
        r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```",
        re.MULTILINE | re.DOTALL,
    )
    source = path.read_text(encoding="utf-8")
    for match in fence.finditer(source):
        lines = match["text"].splitlines()
        yield Block(
            page=str(path.relative_to(ROOT)),
            line=source.count("\n", 0, match.start()) + 1,
            language=match["language"],
            text="\n".join(line.removeprefix(match["indent"]) for line in lines),
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize by page, or by the fenced blocks of a language."""
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
    for language in ("bash", "yaml", "json", "python"):
        if f"{language}_block" in metafunc.fixturenames:
            found = blocks(language)
            metafunc.parametrize(f"{language}_block", found, ids=[each.name for each in found])


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def rendering() -> Iterator[ModuleType]:
    """The package that writes the reference pages, which stands beside them."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        yield importlib.import_module("rendering")
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="session")
def source() -> str:
    """The code of the package and of the smoke, in which whatever pages name has to stand."""
    folders = (ROOT / "src", ROOT / "tests" / "cloud")
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.fixture(scope="session")
def variables() -> frozenset[str]:
    """The job variables."""
    return frozenset(base_job_template()["variables"]["properties"])


class _Prefect:
    """As much of Prefect's client as resolving job variables asks."""

    async def read_flow(self, flow_id: UUID) -> Flow:
        return Flow(id=flow_id, name="forecast", labels={})


@pytest.fixture
def plan_with() -> Callable[[Mapping[str, Any]], list[JobPlan]]:
    """Plan what a run with these job variables would submit, as the worker does."""

    def plan(job_variables: Mapping[str, Any]) -> list[JobPlan]:
        pool = WorkPool(
            id=RUN_ID,
            name="vertex-forecast",
            type="vertex-custom-job",
            default_queue_id=RUN_ID,
            base_job_template=base_job_template(),
        )
        run = FlowRun(id=RUN_ID, flow_id=RUN_ID, name="otter", job_variables=dict(job_variables))
        client: Any = _Prefect()
        configuration = asyncio.run(
            VertexJobConfiguration.resolve_for_flow_run(
                run, client=client, work_pool=pool, worker_name="worker", deployment=None
            )
        )
        return planned(configuration, {"": ("my-project", "")})

    return plan
