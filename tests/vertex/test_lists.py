"""Lists over a real socket: filters, masks, pages, and what a lax server makes of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.cloud.aiplatform_v1 import types

from prefect_vertex.errors import QuotaExceededError, RequestRejectedError, ServiceError
from prefect_vertex.testing import ManualClock
from prefect_vertex.vertex import filters
from prefect_vertex.vertex.budget import SPACING
from prefect_vertex.vertex.service import PAGE_SIZE, READ_MASK, VertexJobGateway
from prefect_vertex.vertex.translate import snapshot_of

pytestmark = pytest.mark.anyio

POOL_LABEL = {"prefect-io_work-pool-id": "pool"}


def _ids(jobs: Any) -> list[str]:
    return [job.resource_name.job_id for job in jobs]


async def test_each_list_asks_with_its_filter_a_mask_and_a_page_size(
    job_service: Any, gateway: VertexJobGateway, a_page: Any
) -> None:
    job_service.answer("ListCustomJobs", a_page())
    since = datetime(2026, 1, 1, tzinfo=UTC)

    await gateway.list_live("pool")
    await gateway.list_ended("pool")
    await gateway.list_ended("pool", since)
    await gateway.find("run")

    requests = job_service.requests["ListCustomJobs"]
    assert [request.filter for request in requests] == [
        filters.live_jobs_filter("pool"),
        filters.ended_jobs_filter("pool"),
        filters.ended_jobs_filter("pool", since),
        filters.flow_run_filter("run"),
    ]
    assert {request.parent for request in requests} == {"projects/p/locations/us-central1"}
    assert {request.page_size for request in requests} == {PAGE_SIZE}
    assert {tuple(request.read_mask.paths) for request in requests} == {READ_MASK}


async def test_the_mask_names_fields_of_a_custom_job() -> None:
    fields = set(types.CustomJob.meta.fields)

    assert set(READ_MASK) <= fields
    assert "job_spec" not in READ_MASK


async def test_pages_are_followed_whatever_they_hold(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    """A page that is short, or empty, need not be the last."""
    job_service.answer(
        "ListCustomJobs",
        a_page(a_job(3), a_job(2), token="a"),
        a_page(token="b"),
        a_page(a_job(1)),
    )

    jobs = await gateway.list_live("pool")

    assert _ids(jobs) == ["3", "2", "1"]
    assert [r.page_token for r in job_service.requests["ListCustomJobs"]] == ["", "a", "b"]
    assert gateway.pages_last_list == 3


async def test_every_page_spends_a_read(
    job_service: Any, make_gateways: Any, target: Any, clock: ManualClock, a_page: Any
) -> None:
    gateway = make_gateways(job_service.address, reads_per_minute=60).for_target(target)
    job_service.answer("ListCustomJobs", a_page(token="a"), a_page(token="b"), a_page())

    await gateway.list_live("pool")

    assert clock.now() == pytest.approx(2 * SPACING)


async def test_a_list_that_goes_in_a_circle_ends(
    job_service: Any, gateway: VertexJobGateway, a_page: Any
) -> None:
    job_service.answer("ListCustomJobs", a_page(token="a"))

    with pytest.raises(ServiceError, match="circle"):
        await gateway.list_live("pool")


async def test_a_job_on_two_pages_is_one_job(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    job_service.answer(
        "ListCustomJobs", a_page(a_job(2), a_job(1), token="a"), a_page(a_job(1), a_job(0))
    )

    assert _ids(await gateway.list_live("pool")) == ["2", "1", "0"]


async def test_a_row_that_has_not_changed_is_a_look_of_its_own(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    """It is not read again, but it was seen at the later time."""
    job_service.answer("ListCustomJobs", a_page(a_job(1)), a_page(a_job(1)))

    (first,) = await gateway.list_live("pool")
    (second,) = await gateway.list_live("pool")

    assert second.observed_at > first.observed_at
    assert replace(second, observed_at=first.observed_at) == first


@pytest.mark.parametrize(
    "change",
    [
        {"state": "JOB_STATE_CANCELLING"},
        {"labels": {"prefect-vertex_attempt": "1"}},
        {"start_time": {"seconds": 1_700_000_100}},
        {"error": {"code": 8, "message": "no room"}},
        {"display_name": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_whatever_changes_in_a_row_is_seen(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any, change: dict[str, Any]
) -> None:
    changed = a_job(1, **change)
    job_service.answer(
        "ListCustomJobs", a_page(a_job(1)), a_page(changed), a_page(), a_page(changed)
    )

    (before,) = await gateway.list_live("pool")
    (after,) = await gateway.list_live("pool")
    gone = await gateway.list_live("pool")
    (again,) = await gateway.list_live("pool")

    expected = snapshot_of(changed, observed_at=after.observed_at, described=False)
    assert after == expected != replace(before, observed_at=after.observed_at)
    assert gone == ()
    assert again == replace(expected, observed_at=again.observed_at)


async def test_a_page_beyond_grpcs_usual_limit_arrives(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    """A server that ignores the mask sends megabytes; gRPC refuses four of them by default."""
    bulky = {"env": [{"name": "X", "value": "x" * 60_000}], "image_uri": "i"}
    spec = {"worker_pool_specs": [{"container_spec": bulky}]}
    page = a_page(*(a_job(number, job_spec=spec) for number in range(100)))
    assert types.ListCustomJobsResponse.pb(page).ByteSize() > 4 * 1024 * 1024
    job_service.answer("ListCustomJobs", page)

    assert len(await gateway.list_live("pool")) == 100


async def test_rows_are_hints_not_descriptions(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    job_service.answer("ListCustomJobs", a_page(a_job(1)))

    (job,) = await gateway.list_live("pool")

    assert not job.described


async def test_what_a_run_has_is_found_oldest_first_in_any_state(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    same_second = {"create_time": {"seconds": 50}}
    job_service.answer(
        "ListCustomJobs",
        a_page(
            a_job(5, create_time={"seconds": 90}),
            a_job(10, state="JOB_STATE_FAILED", **same_second),
            a_job(9, **same_second),
        ),
    )

    assert _ids(await gateway.find("run")) == ["9", "10", "5"]


async def test_a_server_that_ignores_the_filter_is_corrected(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    job_service.answer(
        "ListCustomJobs",
        a_page(a_job(1), a_job(2, state="JOB_STATE_SUCCEEDED"), a_job(3, state=11)),
    )

    assert _ids(await gateway.list_live("pool")) == ["1"]
    assert _ids(await gateway.list_ended("pool")) == ["2", "3"]


async def test_a_live_job_in_a_state_of_the_future_is_seen(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    job = a_job(1)
    types.CustomJob.pb(job).state = 77
    job_service.answer("ListCustomJobs", a_page(job))

    (seen,) = await gateway.list_live("pool")

    assert seen.state == "JOB_STATE_77"


def _understand_labels_only(job_service: Any, page: Any) -> None:
    """Refuse any filter that speaks of states, as a service with a simpler grammar would."""

    async def behave(request: Any, context: Any) -> Any:
        if "state" in request.filter:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Invalid filter.")
        return page

    job_service.behaviours["ListCustomJobs"] = behave


async def test_a_service_without_the_long_filter_is_asked_by_label_and_sorted_out_here(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any, caplog: Any
) -> None:
    """Found out once, said once, remembered."""
    page = a_page(a_job(1), a_job(2, state="JOB_STATE_FAILED"))
    _understand_labels_only(job_service, page)

    with caplog.at_level(logging.WARNING, logger="prefect_vertex"):
        live = [await gateway.list_live("pool") for _ in range(2)]
        ended = await gateway.list_ended("pool", datetime(2000, 1, 1, tzinfo=UTC))
        later = await gateway.list_ended("pool", datetime(2100, 1, 1, tzinfo=UTC))

    assert [_ids(jobs) for jobs in live] == [["1"], ["1"]]
    assert (_ids(ended), _ids(later)) == (["2"], [])
    asked = [request.filter for request in job_service.requests["ListCustomJobs"]]
    assert asked == [filters.live_jobs_filter("pool"), *[filters.pool_filter("pool")] * 4]
    assert len(caplog.records) == 1


async def test_a_refusal_that_is_not_about_the_filter_stays_one(
    job_service: Any, gateway: VertexJobGateway, a_page: Any
) -> None:
    job_service.answer("ListCustomJobs", a_page())
    job_service.refuse("ListCustomJobs", grpc.StatusCode.INVALID_ARGUMENT, times=2)

    with pytest.raises(RequestRejectedError):
        await gateway.list_live("pool")
    await gateway.list_live("pool")

    last = job_service.requests["ListCustomJobs"][-1]
    assert last.filter == filters.live_jobs_filter("pool")


async def test_a_page_that_fails_for_good_fails_the_list(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    """Half a list would say that jobs are gone."""

    async def behave(request: Any, context: Any) -> Any:
        if request.page_token:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "slower")
        return a_page(a_job(1), token="a")

    job_service.behaviours["ListCustomJobs"] = behave

    with pytest.raises(QuotaExceededError):
        await gateway.list_live("pool")
