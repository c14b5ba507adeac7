"""A Prefect server for the tests that start the worker as a person does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from tests.laptop import opened_laptop

from prefect_vertex.cli.children import Child
from prefect_vertex.cli.local import program

Launch = Callable[..., Child]


@pytest.fixture(scope="session")
def launch() -> Iterator[Launch]:
    """Start `prefect worker start` on a pool of its own, after shell words and with variables."""
    with opened_laptop("worker") as (stack, children):

        def start(before: str = "", **env: str) -> Child:
            pool = f"pool-{uuid4().hex[:8]}"
            words = ["worker", "start", "--pool", pool, "--type", "vertex-custom-job"]
            command = ["/bin/sh", "-c", f'{before} exec "$@"', "sh", *program("prefect"), *words]
            return children.start(pool, command, env={**stack.env, **env}, cwd=stack.home)

        yield start
