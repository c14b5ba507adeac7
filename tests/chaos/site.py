"""A site: everything that one chaos run needs."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, State
from tests.chaos.ledger import Ledger
from tests.chaos.pool import Pool
from tests.chaos.processes import Proxies, Workers, worker_env
from tests.chaos.services import Cloud, Server
from tests.chaos.waiting import patiently

from prefect_vertex.cli.children import Children
from prefect_vertex.cli.local import LocalStack

PAGE = 200


class Site:
    """Server, emulator, proxies and the means to start workers.

    Args:
        children: Ends what is started.
        home: A directory of its own.
        ledger: Where the figures go.
        database: The Prefect server's, unless SQLite does.
    """

    def __init__(self, children: Children, home: Path, ledger: Ledger, database: str = "") -> None:
        env = LocalStack(children, home).env
        self.home = home
        self.notes = home / "notes"
        self.ledger = ledger
        self.children = children
        # Side by side: both take some seconds.
        self.server = Server(children, home, env, database)
        self.cloud = Cloud(children, env)
        self.cloud.wait()
        self.proxies = Proxies(children, env, self.server.port, self.cloud.address)
        self.workers = Workers(children, worker_env(env, home, self.proxies))
        self.server.wait()
        self._clients = threading.local()
        self._stack = ExitStack()

    @property
    def client(self) -> SyncPrefectClient:
        """A Prefect client for this thread, around the proxy."""
        if not hasattr(self._clients, "client"):
            client = SyncPrefectClient(api=self.server.api_url)
            self._clients.client = self._stack.enter_context(client)
        found: SyncPrefectClient = self._clients.client
        return found

    def close(self) -> None:
        """End what `children` does not know of."""
        self._stack.close()
        self.proxies.stop()

    def pool(self, **variables: Any) -> Pool:
        """A new pool with a deployment on it."""
        return Pool(self, f"chaos-{uuid4().hex[:8]}", variables)

    def ran(self) -> list[dict[str, Any]]:
        """What the containers have noted: one entry for each time that user code ran."""
        if not self.notes.exists():
            return []
        return [json.loads(line) for line in self.notes.read_text().splitlines()]

    def read(self, runs: Sequence[UUID]) -> dict[UUID, FlowRun]:
        """Flow runs by id; those that were deleted are missing."""
        found: dict[UUID, FlowRun] = {}
        for start in range(0, len(runs), PAGE):
            wanted = FlowRunFilterId(any_=list(runs[start : start + PAGE]))
            page = self._page(FlowRunFilter(id=wanted))
            found |= {run.id: run for run in page}
        return found

    def _page(self, wanted: FlowRunFilter) -> list[FlowRun]:
        return patiently(lambda: self.client.read_flow_runs(flow_run_filter=wanted, limit=PAGE))

    def history(self, run: UUID) -> list[State[Any]]:
        """Every state that a run has been in."""
        return patiently(lambda: self.client.read_flow_run_states(run))
