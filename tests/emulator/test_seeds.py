"""Jobs that are just there, lists that lag, and an index that does not look at what it need not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator import Emulator, Seed
from prefect_vertex.emulator.filters import compile_filter
from prefect_vertex.emulator.names import parse_parent

pytestmark = pytest.mark.anyio

LIVE = (
    'labels.pool="a" AND state!="JOB_STATE_SUCCEEDED" AND state!="JOB_STATE_FAILED" AND '
    'state!="JOB_STATE_CANCELLED" AND state!="JOB_STATE_EXPIRED" AND '
    'state!="JOB_STATE_PARTIALLY_SUCCEEDED"'
)
ENDED = 'labels.pool="a" AND (state="JOB_STATE_SUCCEEDED" OR state="JOB_STATE_FAILED")'


@pytest.fixture
def listed(client: JobServiceAsyncClient, parent: str) -> Callable[..., Any]:
    """Every row of a list."""

    async def read(text: str = "") -> list[CustomJob]:
        request = {"parent": parent, "filter": text, "page_size": 100}
        return [job async for job in await client.list_custom_jobs(request=request)]

    return read


async def test_seeded_job_is_read_like_any_other(
    emulator: Emulator, client: JobServiceAsyncClient, parent: str
) -> None:
    [name, _] = emulator.seed_jobs(
        Seed(
            parent=parent,
            count=2,
            state="JOB_STATE_FAILED",
            display_name="old-{n}",
            labels={"run": "r{n}", "pool": "a"},
            age_seconds=1000,
            error_message="because",
        )
    )

    job = await client.get_custom_job(name=name)

    assert (job.display_name, job.labels) == ("old-0", {"run": "r0", "pool": "a"})
    assert (job.state, job.error.code) == (JobState.JOB_STATE_FAILED, 3)
    assert job.create_time == job.start_time
    lived: Any = job.end_time - job.create_time
    assert lived.total_seconds() == pytest.approx(500, abs=1)
    assert job.update_time == job.end_time
    assert job.job_spec.worker_pool_specs[0].machine_spec.machine_type == "n1-standard-4"


async def test_old_jobs_stand_behind_newer_ones_whenever_they_were_seeded(
    emulator: Emulator, client: JobServiceAsyncClient, listed: Any, a_job: Any, parent: str
) -> None:
    new = await client.create_custom_job(parent=parent, custom_job=a_job("true"))

    older = emulator.seed_jobs(Seed(parent=parent, count=150, age_seconds=60))
    oldest = emulator.seed_jobs(Seed(parent=parent, count=2, age_seconds=3600))

    assert [job.name for job in await listed()] == [new.name, *older, *oldest]


async def test_live_seed_stays_as_it_is_until_it_is_cancelled(
    emulator: Emulator, client: JobServiceAsyncClient, parent: str
) -> None:
    states = ("QUEUED", "PENDING", "RUNNING")
    seeds = [Seed(parent=parent, state=f"JOB_STATE_{state}") for state in states]

    for name, seed in zip(emulator.seed_jobs(*seeds), seeds, strict=True):
        job = emulator.job(name)
        assert job.state.name == seed.state
        await client.cancel_custom_job(name=name)
        ended = await job.wait_for_end()
        assert (ended.state, ended.error.code) == (JobState.JOB_STATE_CANCELLED, 1)
        assert job.starts == []


async def test_ended_seed_can_be_deleted_but_not_cancelled(
    emulator: Emulator, client: JobServiceAsyncClient, parent: str
) -> None:
    [name] = emulator.seed_jobs(Seed(parent=parent, state="JOB_STATE_EXPIRED"))

    with pytest.raises(exceptions.FailedPrecondition):
        await client.cancel_custom_job(name=name)
    await client.delete_custom_job(name=name)

    assert emulator.jobs() == []
    assert [job.name for job in emulator.deleted_jobs] == [name]


async def test_ten_thousand_seeds_are_listed_whole(
    emulator: Emulator, listed: Any, parent: str
) -> None:
    names = emulator.seed_jobs(Seed(parent=parent, count=10_000, labels={"pool": "a", "n": "{n}"}))

    assert [job.name for job in await listed(LIVE)] == names
    assert [job.name for job in await listed('labels.n="77"')] == [names[77]]


@pytest.mark.parametrize(("text", "looked_at"), [(LIVE, 3), (ENDED, 5), ('labels.pool="a"', 8)])
async def test_only_jobs_that_may_pass_the_filter_are_looked_at(
    emulator: Emulator, parent: str, text: str, looked_at: int
) -> None:
    """However many ended and foreign jobs there are."""
    emulator.seed_jobs(
        Seed(parent=parent, count=1000, labels={"pool": "b"}),
        Seed(parent=parent, count=1000, state="JOB_STATE_SUCCEEDED"),
        Seed(parent=parent, count=3, labels={"pool": "a"}),
        Seed(parent=parent, count=5, labels={"pool": "a"}, state="JOB_STATE_SUCCEEDED"),
    )

    candidates = emulator._store.newest_first(parse_parent(parent, {}), compile_filter(text))

    assert len(list(candidates)) == looked_at


async def test_job_that_ends_leaves_the_live_and_joins_the_ended(
    emulator: Emulator, listed: Any, parent: str
) -> None:
    names = emulator.seed_jobs(Seed(parent=parent, count=3, labels={"pool": "a"}))
    job = emulator.job(names[1])

    job.cancel()
    await job.wait_for_end()

    assert [job.name for job in await listed(LIVE)] == [names[0], names[2]]
    ended = 'labels.pool="a" AND state="JOB_STATE_CANCELLED"'
    assert [job.name for job in await listed(ended)] == [names[1]]
    assert [job.name for job in await listed('labels.pool="a"')] == names


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"parent": "projects/p/locations/global"}, "a region is needed"),
        ({"job_spec": {"worker_pools": []}}, "job_spec is no CustomJobSpec"),
    ],
)
async def test_seed_that_makes_no_sense_is_refused(
    emulator: Emulator, parent: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        emulator.seed_jobs(Seed(**{"parent": parent, **fields}))


async def test_seed_in_an_unknown_state_or_before_the_start_is_refused(parent: str) -> None:
    with pytest.raises(ValueError, match="is no JobState"):
        Seed(parent=parent, state="RUNNING")
    with pytest.raises(ValueError, match="has not been started"):
        Emulator().seed_jobs(Seed(parent=parent))


# --- lists that lag -------------------------------------------------------------------------------


async def test_new_job_is_missing_from_lists_for_a_while(
    emulator: Emulator, client: JobServiceAsyncClient, listed: Any, a_job: Any, parent: str
) -> None:
    """Get knows it at once."""
    emulator.lag.created_seconds = 60
    [old] = emulator.seed_jobs(Seed(parent=parent, age_seconds=61))

    created = await client.create_custom_job(parent=parent, custom_job=a_job("sleep", "60"))

    assert [job.name for job in await listed()] == [old]
    assert (await client.get_custom_job(name=created.name)).name == created.name
    emulator.lag.created_seconds = 0
    assert [job.name for job in await listed()] == [created.name, old]


async def test_list_row_shows_a_job_as_it_was(
    emulator: Emulator, client: JobServiceAsyncClient, listed: Any, parent: str
) -> None:
    """Also to the filter: a job that has ended still counts as live."""
    emulator.lag.changed_seconds = 60
    [name] = emulator.seed_jobs(Seed(parent=parent, labels={"pool": "a"}, age_seconds=600))
    await client.cancel_custom_job(name=name)
    ended = await emulator.job(name).wait_for_end()

    [row] = await listed(LIVE)

    assert ended.state == JobState.JOB_STATE_CANCELLED
    assert row.state == JobState.JOB_STATE_RUNNING
    assert row.start_time == ended.start_time
    assert row.update_time < ended.update_time
    assert "end_time" not in row
    assert "error" not in row
    emulator.lag.changed_seconds = 0
    assert await listed(LIVE) == []


async def test_job_that_is_younger_than_the_lag_is_shown_as_it_began(
    emulator: Emulator, client: JobServiceAsyncClient, listed: Any, a_job: Any, parent: str
) -> None:
    created = await client.create_custom_job(parent=parent, custom_job=a_job("sleep", "60"))
    job = emulator.job(created.name)
    await job.wait_until(lambda resource: resource.state == JobState.JOB_STATE_RUNNING)

    emulator.lag.changed_seconds = 60

    [row] = await listed()
    assert row.state == JobState.JOB_STATE_QUEUED
    assert "start_time" not in row


async def test_many_live_seeds_cost_no_task(emulator: Emulator, parent: str) -> None:
    before = len(asyncio.all_tasks())

    emulator.seed_jobs(Seed(parent=parent, count=1000))

    assert len(asyncio.all_tasks()) == before
