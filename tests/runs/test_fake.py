"""The server in memory of tests/reconciler keeps the real one's transition rules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prefect.client.schemas.objects import StateType

from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.runs.port import Proposal
from prefect_vertex.runs.prefect import PrefectFlowRuns
from prefect_vertex.testing import ManualClock

if TYPE_CHECKING:
    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio
PROPOSALS = [
    Proposal(state=RunState.PENDING, name="Provisioning", message=""),
    Proposal(state=RunState.SCHEDULED, name="AwaitingRetry", message=""),
    Proposal(state=RunState.CRASHED, name="Crashed", message=""),
    Proposal(state=RunState.CANCELLED, name="Cancelled", message=""),
]


@pytest.fixture
def fakes() -> Any:
    """The module of fakes, which is no package's."""
    name = "prefect_vertex_reconciler_fakes"
    if name not in sys.modules:
        path = Path(__file__).parents[1] / "reconciler" / "fakes.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize("proposal", PROPOSALS, ids=lambda proposal: proposal.name)
async def test_the_fake_accepts_what_the_server_accepts(
    proposal: Proposal, runs: PrefectFlowRuns, pool: Pool, fakes: Any
) -> None:
    fake = fakes.FakeFlowRuns(fakes.WallClock(ManualClock()))
    names = {"Provisioning", "AwaitingRetry", *(kind.value.capitalize() for kind in StateType)}
    kinds = {"Provisioning": StateType.PENDING, "AwaitingRetry": StateType.SCHEDULED}
    answers: dict[str, tuple[bool, bool]] = {}
    for name in sorted(names):
        kind = kinds.get(name) or StateType(name.upper())
        real = await pool.run(kind, name)
        row = fake.add()
        fake.put(row.id, RunState(kind.value), name)
        answers[name] = (
            await runs.propose(str(real.id), proposal),
            await fake.propose(row.id, proposal),
        )

    assert {name: real for name, (real, _) in answers.items()} == {
        name: fake for name, (_, fake) in answers.items()
    }
