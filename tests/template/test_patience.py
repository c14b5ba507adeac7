"""A bad moment of the Prefect API while a run's configuration is resolved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from prefect_vertex.template import patience
from prefect_vertex.template.patience import patiently

MINIMUM = {"region": "europe-west4", "image": "i:1", "project": "forecasts"}


def answered(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://127.0.0.1/api/flows")
    response = httpx.Response(status, request=request)
    return httpx.HTTPStatusError(f"Server error '{status}'", request=request, response=response)


class BadMoments:
    """Another API whose every read fails so many times before it answers."""

    def __init__(self, client: object, fault: Exception, times: int) -> None:
        self._client, self._fault, self._times = client, fault, times
        self._failed: dict[str, int] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def read(*args: Any, **kwargs: Any) -> Any:
            failed = self._failed[name] = self._failed.get(name, 0) + 1
            if failed <= self._times:
                raise self._fault
            return await getattr(self._client, name)(*args, **kwargs)

        return read


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.001)


A_PAGE = json.JSONDecodeError("Expecting value", "<html>maintenance</html>", 0)
PASSING = [answered(500), answered(503), answered(429), httpx.ConnectError("refused"), A_PAGE]


@pytest.mark.parametrize("fault", PASSING, ids=str)
def test_every_read_outlives_the_apis_bad_moments(
    fault: Exception, a_world: Callable[..., Any]
) -> None:
    """What fails there would crash the run: of the deployment, the flow and a variable."""
    world = a_world(run={**MINIMUM, "service_account_name": "{{ prefect.variables.account }}"})
    world.client.variables["account"] = SimpleNamespace(value="a@b.iam")
    world.flow_run.deployment_id = world.work_pool.id
    world.client.deployments[world.work_pool.id] = a_world(deployment={}).deployment
    expected = world.resolve()
    world.client = BadMoments(world.client, fault, times=3)

    assert world.resolve().run_spec() == expected.run_spec()


@pytest.mark.parametrize("fault", [answered(401), answered(403), answered(422)], ids=str)
def test_a_refusal_is_not_asked_again(fault: Exception) -> None:
    asked: list[None] = []

    async def ask() -> None:
        asked.append(None)
        raise fault

    with pytest.raises(httpx.HTTPStatusError):
        asyncio.run(patiently(ask))
    assert len(asked) == 1


def test_trouble_that_lasts_is_raised_at_the_end_of_the_budget() -> None:
    async def ask() -> None:
        raise answered(503)

    with pytest.raises(httpx.HTTPStatusError, match="503"):
        asyncio.run(patiently(ask, budget_seconds=0.05))
