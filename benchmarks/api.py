"""As much of the Prefect API as a benchmark needs: a deployment, its runs, and how they fare."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import httpx

FINAL: Final = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
_PAGE: Final = 200
# Where the server has SQLite, these queue, and its "too busy" is asked again.
_AT_ONCE: Final = 6
_SECONDS: Final = 120.0
_BUSY_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """One flow run; `changed_at` is when it entered its state, in seconds since 1970."""

    id: str
    state: str
    changed_at: float
    message: str

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL


class Api:
    """Speaks to the server itself, past the counting proxy.

    Args:
        url: The server's, with `/api`.
    """

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_pool(self, name: str, kind: str, template: Mapping[str, Any]) -> str:
        """Create a work pool; its id."""
        body = {"name": name, "type": kind, "base_job_template": template}
        return str(self._post("/work_pools/", body)["id"])

    def create_deployment(self, pool: str) -> str:
        """Create a deployment in a pool, of a flow that is never loaded; its id."""
        flow = self._post("/flows/", {"name": f"{pool}-flow"})["id"]
        body = {"name": pool, "flow_id": flow, "work_pool_name": pool, "entrypoint": "none.py:none"}
        return str(self._post("/deployments/", body)["id"])

    def create_runs(
        self,
        deployment: str,
        count: int,
        state: str,
        *,
        first: int = 0,
        labels: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Create runs in a state, numbered from `first`; their ids."""

        def create(number: int) -> str:
            body: dict[str, Any] = {
                "name": f"run-{number}",
                "state": {"type": state, "name": state.capitalize()},
                "labels": dict(labels or {}),
                "idempotency_key": f"{deployment}-{number}",
            }
            return str(self._post(f"/deployments/{deployment}/create_flow_run", body)["id"])

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(create, range(first, first + count)))

    def name_infrastructure(self, identifiers: Mapping[str, str]) -> None:
        """Write the infrastructure identifiers of runs."""
        bodies = {run: {"infrastructure_pid": name} for run, name in identifiers.items()}
        self._change("", bodies)

    def label(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Add labels to runs."""
        self._change("/labels", labels)

    def _change(self, part: str, bodies: Mapping[str, Mapping[str, str]]) -> None:
        def change(run: str) -> None:
            self._send("PATCH", f"/flow_runs/{run}{part}", bodies[run])

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(change, bodies))

    def runs(self, deployment: str) -> list[Run]:
        """All runs of a deployment."""
        found: list[Run] = []
        while True:
            page: Sequence[Mapping[str, Any]] = self._post(
                "/flow_runs/filter",
                {
                    "deployments": {"id": {"any_": [deployment]}},
                    "sort": "ID_DESC",
                    "limit": _PAGE,
                    "offset": len(found),
                },
            )
            found += [_run(row) for row in page]
            if len(page) < _PAGE:
                return found

    def states(self, deployment: str) -> Counter[str]:
        """How many runs of a deployment are in which state."""
        return Counter(run.state for run in self.runs(deployment))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._send("POST", path, body).json()

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send a request again while the server is too busy, as Prefect's own client does."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            late = time.monotonic() > deadline
            try:
                answer = self._client.request(method, path, json=dict(body))
            except httpx.TransportError:
                # Nothing is done twice: runs are created under a key.
                if late:
                    raise
            else:
                if late or answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
                    break
            time.sleep(_PAUSE_SECONDS)
        if answer.is_error:
            text = f"{method} {path} answered {answer.status_code}: {answer.text[:500]}"
            raise RuntimeError(text)
        return answer


def _run(row: Mapping[str, Any]) -> Run:
    state = row["state"]
    moment = datetime.fromisoformat(state["timestamp"]).timestamp()
    return Run(row["id"], state["type"], moment, state["message"] or "")
