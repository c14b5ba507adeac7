"""ListCustomJobs page by page, through the real client."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator import Behaviour, Emulator

pytestmark = pytest.mark.anyio


@pytest.fixture
async def three_jobs(
    emulator: Emulator,
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    parent: str,
) -> list[str]:
    """Names of three jobs, oldest first; display names a, b, a."""
    created = [
        await client.create_custom_job(parent=parent, custom_job=a_job("true", display_name=name))
        for name in ("a", "b", "a")
    ]
    return [job.name for job in created]


async def one_page(client: JobServiceAsyncClient, **request: Any) -> Any:
    """A single response, without the client's own paging."""
    pager = await client.list_custom_jobs(request=request)
    return await anext(pager.pages)


async def test_newest_job_comes_first(
    client: JobServiceAsyncClient, three_jobs: list[str], parent: str
) -> None:
    listed = [job.name async for job in await client.list_custom_jobs(parent=parent)]

    assert listed == list(reversed(three_jobs))


async def test_pages_hold_every_job_once(
    client: JobServiceAsyncClient, three_jobs: list[str], parent: str
) -> None:
    pager = await client.list_custom_jobs(request={"parent": parent, "page_size": 2})

    sizes = [len(page.custom_jobs) async for page in pager.pages]

    assert sizes == [2, 1]


async def test_new_job_does_not_shift_the_next_page(
    client: JobServiceAsyncClient,
    a_job: Callable[..., CustomJob],
    three_jobs: list[str],
    parent: str,
) -> None:
    first = await one_page(client, parent=parent, page_size=2)
    await client.create_custom_job(parent=parent, custom_job=a_job("true"))

    second = await one_page(client, parent=parent, page_token=first.next_page_token)

    assert [job.name for job in second.custom_jobs] == three_jobs[:1]


async def test_filter_applies_before_pages_are_cut(
    client: JobServiceAsyncClient, three_jobs: list[str], parent: str
) -> None:
    page = await one_page(client, parent=parent, filter='display_name="a"', page_size=2)

    assert [job.name for job in page.custom_jobs] == [three_jobs[2], three_jobs[0]]
    assert not page.next_page_token


async def test_page_size_is_capped_and_has_a_default(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    choice = dataclasses.replace(Behaviour(), max_page_size=3, default_page_size=2)
    client = connect((await start_emulator(behaviour=choice)).address)
    for _ in range(4):
        await client.create_custom_job(parent=parent, custom_job=a_job("true"))

    assert len((await one_page(client, parent=parent)).custom_jobs) == 2
    assert len((await one_page(client, parent=parent, page_size=1000)).custom_jobs) == 3


async def test_read_mask_leaves_out_what_it_does_not_name(
    client: JobServiceAsyncClient, three_jobs: list[str], parent: str
) -> None:
    mask = {"paths": ["name", "create_time"]}
    page = await one_page(client, parent=parent, read_mask=mask)

    row = page.custom_jobs[0]
    assert row.name == three_jobs[2]
    assert "create_time" in row
    assert "job_spec" not in row
    assert not row.display_name


async def test_read_mask_is_ignored_where_that_is_the_choice(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    emulator = await start_emulator(behaviour=Behaviour(honour_read_mask=False))
    client = connect(emulator.address)
    await client.create_custom_job(parent=parent, custom_job=a_job("true"))

    page = await one_page(client, parent=parent, read_mask={"paths": ["name"]})

    assert "job_spec" in page.custom_jobs[0]


@pytest.mark.parametrize(
    "request_part",
    [
        {"filter": 'priority="1"'},
        {"page_size": -1},
        {"read_mask": {"paths": ["names"]}},
        {"page_token": "nonsense"},
        {"page_token": "WzFd"},
    ],
)
async def test_malformed_list_request_is_an_invalid_argument(
    client: JobServiceAsyncClient, parent: str, request_part: dict[str, Any]
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        await one_page(client, parent=parent, **request_part)


async def test_page_token_of_another_query_is_refused(
    client: JobServiceAsyncClient, three_jobs: list[str], parent: str
) -> None:
    first = await one_page(client, parent=parent, page_size=1)

    with pytest.raises(exceptions.InvalidArgument):
        await one_page(client, parent=parent, filter="labels.a:*", page_token=first.next_page_token)
