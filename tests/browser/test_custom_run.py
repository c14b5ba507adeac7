"""A run is started, followed and understood in Prefect's user interface alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from google.cloud.aiplatform_v1 import CustomJob
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import FlowRun
from tests.browser.pages import rewrite, send

from prefect_vertex.emulator.control_client import ControlClient
from prefect_vertex.emulator.faults import Stockout

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page
    from tests.e2e.installation import Installation

    Photograph = Callable[..., None]

DRAWN_BYTES = 9_000
FIRST, SECOND = "us-central1", "europe-west4"
FLOW = '''
    import os
    from prefect import flow, task
    from prefect_vertex import replica

    SERIES = ["arrivals", "departures", "nights", "spending"]

    @task(task_run_name="fit-{series}")
    def fit(series: str, horizon: int) -> None:
        print(f"{series}: {horizon} months ahead")

    @flow(log_prints=True)
    def forecast(horizon: int = 12) -> None:
        """Forecast every series, each replica its share.

        Args:
            horizon: Months to forecast.
        """
        me = replica.current()
        level = os.environ["FORECAST_LEVEL"]
        print(f"replica {me.rank} of {me.world_size}: {horizon} months at {level} %")
        for series in me.shard(SERIES):
            fit(series, horizon)
'''


@pytest.fixture
def deployment(installation: Installation, cloud: ControlClient) -> UUID:
    """A deployment to a pool with a worker, whose first region has no machines at first."""
    pool = installation.pool(
        "vertex-forecast", region=FIRST, regions=[SECOND], staging_bucket="e2e-bucket"
    )
    installation.worker(pool)
    cloud.add_faults(Stockout(location=FIRST, after_seconds=2))
    return installation.deploy(pool, "tourism", FLOW, flow="forecast")


@pytest.mark.usefixtures("deployment")
def test_a_custom_run_with_its_own_job_variables_completes_and_shows_where_it_ran(
    page: Page, installation: Installation, photograph: Photograph
) -> None:
    """Two replicas and an environment variable, set in the deployment's Custom run."""
    run_id = _start(page, photograph)
    _follow(page)
    run, job = _what_ran(installation, run_id)

    assert [(pool.replica_count) for pool in job.job_spec.worker_pool_specs] == [1, 1]
    assert [_env(pool)["FORECAST_LEVEL"] for pool in job.job_spec.worker_pool_specs] == ["95"] * 2
    assert run.parameters == {"horizon": 24}
    assert f"/locations/{SECOND}/" in job.name
    installation.logs_with(run, "replica 0 of 2: 24 months at 95 %")

    _see_artifacts(page, installation, run, photograph)


def _start(page: Page, photograph: Photograph) -> UUID:
    """Fill in the deployment's Custom run and submit it; returns the run's id."""
    page.goto("/")
    page.wait_for_url("**/v2/**")
    page.get_by_role("link", name="Deployments").click()
    page.get_by_role("link", name="tourism").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Custom run").click()
    # The deployment's page, which has a field for a run's name too, stays until this one is there.
    page.get_by_role("heading", name="Parameters").wait_for()
    page.get_by_label("Run Name").fill("tourism-two-years")
    page.get_by_label("horizon").fill("24")
    page.get_by_role("button", name="Additional Options").click()
    variables = json.loads(page.locator(".cm-content").inner_text())
    rewrite(page, variables | {"worker_count": 2, "env": {"FORECAST_LEVEL": "95"}})
    photograph("custom-run", height=1180)
    created = send(page, "Submit", ending="/create_flow_run").json()
    # The notice with a link to the run is gone after seconds; the deployment's page lists it.
    page.get_by_role("link", name="tourism-two-years").click()
    page.wait_for_url(f"**/runs/flow-run/{created['id']}*")
    return UUID(created["id"])


def _follow(page: Page) -> None:
    """See that it is there, and then that it has completed."""
    from playwright.sync_api import expect

    expect(page.get_by_text("tourism-two-years").first).to_be_visible()
    expect(page.get_by_text("Completed", exact=True).first).to_be_visible(timeout=120_000)


def _what_ran(installation: Installation, run_id: UUID) -> tuple[FlowRun, CustomJob]:
    run = installation.client.read_flow_run(run_id)
    job = installation.jobs_client.get_custom_job(name=run.infrastructure_pid, timeout=10)
    return run, job


def _env(pool: Any) -> dict[str, str]:
    return {each.name: each.value for each in pool.container_spec.env}


def _see_artifacts(
    page: Page, installation: Installation, run: FlowRun, photograph: Photograph
) -> None:
    """Both are on the run's page, and each shows what became of both attempts."""
    from playwright.sync_api import expect
    from tests.e2e.walks import until

    ours = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))

    def drawn() -> list[str | None]:
        found = installation.client.read_artifacts(artifact_filter=ours)
        return [each.key for each in found if "(Completed)" in (each.description or "")]

    until(lambda: {"vertex-job", "vertex-timeline"} <= set(drawn()), "the end is drawn")
    page.reload()  # it has read the artifacts of a run that had not ended
    page.get_by_role("tab", name="Artifacts").click()
    for key in ("vertex-job", "vertex-timeline"):
        expect(page.get_by_text(key, exact=True)).to_be_visible()
    graph = page.locator("canvas").first
    # Nothing else says that it is drawn: an empty one makes a picture of some kilobytes.
    until(lambda: len(graph.screenshot()) > DRAWN_BYTES, "the run's graph is drawn")
    photograph("run", height=1120)

    page.get_by_text("vertex-job", exact=True).click()
    table = page.get_by_role("table")
    expect(table).to_contain_text(FIRST)
    expect(table).to_contain_text(SECOND)
    photograph("job")
    page.go_back()

    page.get_by_text("vertex-timeline", exact=True).click()
    picture = page.get_by_role("img", name="What each replica did and when")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 0
    photograph("timeline", height=560)
