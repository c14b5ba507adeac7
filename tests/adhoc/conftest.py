"""Flows in files of their own, as users have them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
