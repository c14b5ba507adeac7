"""A Prefect server for the tests that start the worker as a person does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import LocalStack, program

Launch = Callable[..., Child]


@pytest.fixture(scope="session")
def launch() -> Iterator[Launch]:
    """Start `prefect worker start` on a pool of its own, after shell words and with variables."""
    home = Path(tempfile.mkdtemp(prefix="prefect-vertex-worker-"))
    (home / "logs").mkdir()
    with Children(home / "logs") as children:
        stack = LocalStack(children, home)
        stack.start_server()

        def start(before: str = "", **env: str) -> Child:
            pool = f"pool-{uuid4().hex[:8]}"
            words = ["worker", "start", "--pool", pool, "--type", "vertex-custom-job"]
            command = ["/bin/sh", "-c", f'{before} exec "$@"', "sh", *program("prefect"), *words]
            return children.start(pool, command, env={**stack.env, **env}, cwd=home)

        yield start
    shutil.rmtree(home, ignore_errors=True)
