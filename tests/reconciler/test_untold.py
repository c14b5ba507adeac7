"""An attempt's end that Prefect took without an answer is gone on from all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefect_vertex.errors import ServiceUnavailableError, ServiceVerdict
from prefect_vertex.runs.port import PrefectUnavailableError

if TYPE_CHECKING:
    from tests.reconciler.conftest import Stage

pytestmark = pytest.mark.anyio

STOCKOUT = (8, "Resources are insufficient in region: us-central1.")
DOWN = ServiceUnavailableError("Down.", verdict=ServiceVerdict(code="UNAVAILABLE"))


@pytest.mark.parametrize("regions", [[], ["europe-west4"]], ids=["pause", "at once"])
@pytest.mark.parametrize("is_lost_after", [True, False], ids=["answer lost", "request lost"])
@pytest.mark.parametrize("number", [1, 2])
async def test_the_next_attempt_follows(
    *, number: int, is_lost_after: bool, regions: list[str], stage: Stage
) -> None:
    worker = await stage.worker()
    run, _ = await stage.submitted(worker, regions=regions)
    await stage.tick(3)
    stage.move(stage.job(run), "FAILED", STOCKOUT)
    left = [(PrefectUnavailableError("No answer."), is_lost_after)] * number
    stage.runs.mischief = lambda method: left.pop() if method == "propose" and left else None
    await stage.tick(40)

    assert left == []
    assert [job.attempt for job in stage.jobs(run)] == [1, 2]
    assert "AwaitingCapacity" in run.names
    assert sum(line.startswith("Tried us-central1") for line in stage.runs.logs[run.id]) == 1
