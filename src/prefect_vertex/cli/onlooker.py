"""Onlooker: a pool's surroundings for a command, which looks at runs and takes none."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefect_vertex.settings import VertexSettings

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import WorkPool

    from prefect_vertex.reconciler.wiring import Surroundings


@dataclass(slots=True)
class Onlooker:
    """Stands where the worker stands, with no limit and no runs of its own.

    Attributes:
        work_pool: The pool, as read.
        name: Never that of a worker: nobody must take its runs for this process's.
    """

    work_pool: WorkPool
    name: str = "prefect-vertex-cli"

    @property
    def work_pool_id(self) -> str:
        """The pool's id."""
        return str(self.work_pool.id)

    def take_slot(self, flow_run_id: str) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing is counted."""
        return True

    def free_slot(self, flow_run_id: str) -> None:
        """Nothing is counted."""

    def is_submitting(self, flow_run_id: str) -> bool:  # noqa: ARG002 - the protocol's
        """It submits nothing."""
        return False


@asynccontextmanager
async def looking_at(
    work_pool: WorkPool, client: PrefectClient, settings: VertexSettings
) -> AsyncIterator[Surroundings]:
    """The adapters that a worker of this machine would have, with the pool's places learned."""
    # Late: they load Google's client.
    from prefect_vertex.reconciler.wiring import Surroundings

    surroundings = Surroundings(
        Onlooker(work_pool), client, settings, instance=uuid.uuid4().hex[:12]
    )
    try:
        await surroundings.learn_home()
        yield surroundings
    finally:
        await surroundings.aclose()
