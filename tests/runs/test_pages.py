"""PrefectPages against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import Artifact, StateType
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.runs.pages import Page, PrefectPages
from prefect_vertex.runs.prefect import PrefectFlowRuns

if TYPE_CHECKING:
    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio
ONE = Page(key="vertex-job", data="# One", description="First.")
TWO = Page(key="vertex-job", data="# Two", description="Second.")
PICTURE = Page(key="vertex-timeline", data="![](data:image/svg+xml;base64,PHN2Zy8+)")


@pytest.fixture(autouse=True)
def _events_go_there(api_url: str) -> Iterator[None]:
    """Prefect's client tells of each artifact by an event, to the server of the settings."""
    with temporary_settings({PREFECT_API_URL: api_url}):
        yield


@pytest.fixture
def pages(client: PrefectClient) -> PrefectPages:
    """The adapter."""
    return PrefectPages(client)


async def artifacts(client: PrefectClient, run: RunView) -> list[Artifact]:
    """Every artifact of a run, versions and all."""
    ours = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    found: list[Artifact] = await client.read_artifacts(artifact_filter=ours)
    return sorted(found, key=lambda artifact: str(artifact.key))


@pytest.fixture
async def run(runs: PrefectFlowRuns, pool: Pool) -> RunView:
    """A run that waits."""
    view = await runs.read(str((await pool.run(StateType.PENDING)).id))
    assert view is not None
    return view


async def test_a_page_is_written_in_the_place_of_the_last_one(
    client: PrefectClient, pages: PrefectPages, run: RunView
) -> None:
    await pages.show(run, ONE)
    await pages.show(run, PICTURE)
    await pages.show(run, TWO)
    job, timeline = await artifacts(client, run)

    assert (job.key, job.type, job.data, job.description) == (
        "vertex-job",
        "markdown",
        "# Two",
        "Second.",
    )
    assert (timeline.key, timeline.type, timeline.data) == (
        "vertex-timeline",
        "markdown",
        PICTURE.data,
    )


async def test_another_worker_writes_in_the_same_place(client: PrefectClient, run: RunView) -> None:
    await PrefectPages(client).show(run, ONE)
    await PrefectPages(client).show(run, TWO)

    assert [each.data for each in await artifacts(client, run)] == ["# Two"]


async def test_a_page_that_somebody_deleted_is_written_anew(
    client: PrefectClient, pages: PrefectPages, run: RunView
) -> None:
    await pages.show(run, ONE)
    (deleted,) = await artifacts(client, run)
    await client.delete_artifact(deleted.id)
    await pages.show(run, TWO)

    assert [each.data for each in await artifacts(client, run)] == ["# Two"]


async def test_two_runs_have_a_page_each(
    client: PrefectClient, pages: PrefectPages, runs: PrefectFlowRuns, pool: Pool
) -> None:
    views = [await runs.read(str((await pool.run()).id)) for _ in range(2)]
    for view, page in zip(views, (ONE, TWO), strict=True):
        assert view is not None
        await pages.show(view, page)

    for view, page in zip(views, (ONE, TWO), strict=True):
        assert view is not None
        assert [each.data for each in await artifacts(client, view)] == [page.data]


async def test_a_run_that_is_gone_has_nothing_and_hinders_nothing(
    client: PrefectClient, pages: PrefectPages, run: RunView
) -> None:
    gone = replace(run, id=str(uuid4()))
    await pages.show(gone, ONE)

    assert await pages.states(gone.id) == []
    assert await pages.starts(gone.id) == []


async def test_starts_are_the_claims_of_replicas(
    runs: PrefectFlowRuns, pages: PrefectPages, run: RunView
) -> None:
    """Each with the moment at which the server took it; other claims are none."""
    for key in ("start-a1-r0", "start-a2-r10", "create-a1", "start-a1-r0x"):
        await runs.claim(run.id, f"prefect-vertex-{key}", "somebody")
    found = await pages.starts(run.id)

    assert sorted((each.attempt, each.rank) for each in found) == [(1, 0), (2, 10)]
    assert all(each.at >= run.state_time for each in found)


async def test_the_newest_attempt_s_starts_are_there_however_many_came_before(
    monkeypatch: pytest.MonkeyPatch, runs: PrefectFlowRuns, pages: PrefectPages, run: RunView
) -> None:
    """The server gives the oldest first, a page at a time."""
    monkeypatch.setattr("prefect_vertex.runs.pages.PAGE_SIZE", 2)
    wanted = [(attempt, rank) for attempt in (1, 2) for rank in range(3)]
    for attempt, rank in wanted:
        await runs.claim(run.id, f"prefect-vertex-start-a{attempt}-r{rank}", "somebody")
    found = await pages.starts(run.id)

    assert [(each.attempt, each.rank) for each in found] == wanted


async def test_a_page_holds_nothing_that_postgresql_refuses(
    client: PrefectClient, pages: PrefectPages, run: RunView
) -> None:
    """Written, and written anew: SQLite, which is asked here, would take a NUL."""
    page = Page(key="vertex-job", data="a\0b", description="c\0d")
    for _ in range(2):
        await pages.show(run, page)
        (written,) = await artifacts(client, run)

        assert (written.data, written.description) == ("ab", "cd")


async def test_states_are_the_whole_history(
    pages: PrefectPages, pool: Pool, runs: PrefectFlowRuns
) -> None:
    run = await pool.run(StateType.RUNNING)
    found = sorted(await pages.states(str(run.id)), key=lambda each: each.entered_at)

    assert [each.state for each in found] == [
        RunState.SCHEDULED,
        RunState.PENDING,
        RunState.RUNNING,
    ]
