"""What lists show and when, and how much one call may hold. No job is created for these."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from google.api_core import exceptions as api_errors
from google.cloud.aiplatform_v1 import types
from google.protobuf import field_mask_pb2
from tests.cloud.lab import CALL_SECONDS, Lab
from tests.cloud.table import Finding, listed, seconds, untold

from prefect_vertex.errors import RequestRejectedError
from prefect_vertex.vertex import filters
from prefect_vertex.vertex.service import READ_MASK

FRESH = "list freshness: from the answer to a create until the list has the job"
PAGE_SIZE = "`page_size`: the most rows of one page"
MASK = "`read_mask` on a list"
FILTER = "the filters of live and ended jobs"
REQUEST_SIZE = "request size cap of CreateCustomJob"

ASKED_ROWS = 1000
ARGUMENT = 100_000
SIZES = (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12)
"""Megabytes."""


async def ask_freshness(lab: Lab) -> list[Finding]:
    """What the jobs of all other probes have shown; asked last."""
    known = [job.listed_after for job in lab.jobs if job.listed_after is not None]
    if not known:
        return [untold(FRESH, "no job was created and seen in a list")]
    unseen = [job.what for job in lab.jobs if job.listed_after is None]
    times = f"{seconds(min(known))} to {seconds(max(known))} over {len(known)} jobs"
    return [Finding(FRESH, f"{times}; never seen: {listed(unseen)}")]


async def _page(lab: Lab, **fields: Any) -> types.ListCustomJobsResponse:
    client = await lab.client()
    request = types.ListCustomJobsRequest(parent=lab.site.target.parent, **fields)
    pager = await client.list_custom_jobs(request, timeout=CALL_SECONDS, retry=None)
    async for page in pager.pages:
        return page
    return types.ListCustomJobsResponse()


async def ask_page_size(lab: Lab) -> list[Finding]:
    """One page, with as few fields as can be, of everything in the location."""
    mask = field_mask_pb2.FieldMask(paths=["name"])
    try:
        page = await _page(lab, page_size=ASKED_ROWS, read_mask=mask)
    except api_errors.InvalidArgument as error:
        return [Finding(PAGE_SIZE, f"{ASKED_ROWS} is refused: {error.message}")]
    rows = len(page.custom_jobs)
    if page.next_page_token:
        return [Finding(PAGE_SIZE, f"{rows}, of {ASKED_ROWS} asked for, and there were more")]
    why = f"{ASKED_ROWS} is accepted, but the location has only {rows} jobs"
    return [untold(PAGE_SIZE, why)]


async def ask_mask(lab: Lab) -> list[Finding]:
    """A page of the smoke's own jobs, with our mask and without one."""
    ours = filters.pool_filter(lab.pool_id)
    bare = await _page(lab, filter=ours, read_mask=field_mask_pb2.FieldMask(paths=READ_MASK))
    whole = await _page(lab, filter=ours)
    if not bare.custom_jobs:
        return [untold(MASK, "no job of the smoke was in the list")]
    row = bare.custom_jobs[0]
    has_spec = bool(row.job_spec.worker_pool_specs)
    lost = [
        name for name in ("name", "display_name", "labels", "create_time") if not getattr(row, name)
    ]
    sizes = [len(type(page).serialize(page)) // len(page.custom_jobs) for page in (bare, whole)]
    told = "ignored: rows hold `job_spec`" if has_spec else "honoured: rows hold no `job_spec`"
    return [
        Finding(MASK, f"{told}; {sizes[0]} bytes a row, {sizes[1]} without; lost: {listed(lost)}")
    ]


async def ask_filters(lab: Lab) -> list[Finding]:
    """The texts that every tick of a worker sends."""
    since = datetime(2020, 1, 1, tzinfo=UTC)
    texts = {
        "live": filters.live_jobs_filter(lab.pool_id),
        "ended": filters.ended_jobs_filter(lab.pool_id, since),
    }
    answers = []
    for name, text in texts.items():
        try:
            page = await _page(lab, filter=text, page_size=100)
            answers.append(f"{name}: taken, {len(page.custom_jobs)} rows")
        except api_errors.InvalidArgument as error:
            answers.append(f"{name}: refused: {error.message}")
    return [Finding(FILTER, "; ".join(answers))]


async def ask_request_size(lab: Lab) -> list[Finding]:
    """Larger and larger requests that are invalid anyway, until the refusal is another one."""
    first = ""
    for megabytes in SIZES:
        said = await _refusal(lab, megabytes)
        if not first:
            first = said
        elif said != first:
            answer = f"at {megabytes:g} MB another refusal than below: {said}"
            return [Finding(REQUEST_SIZE, answer)]
    return [Finding(REQUEST_SIZE, f"none up to {SIZES[-1]:g} MB: always {first}")]


async def _refusal(lab: Lab, megabytes: float) -> str:
    args = ["x" * ARGUMENT] * int(megabytes * 1_000_000 / ARGUMENT)
    container = {"image_uri": lab.site.image, "args": args}
    pool = {
        "machine_spec": {"machine_type": "none-such"},
        "replica_count": 1,
        "container_spec": container,
    }
    # Without a name, on a machine that does not exist: no such job can be created.
    job = {"job_spec": {"worker_pool_specs": [pool]}}
    request = types.CreateCustomJobRequest(parent=lab.site.target.parent, custom_job=job)
    await lab.gateway.submission_turn()
    client = await lab.client()
    try:
        created = await client.create_custom_job(request, timeout=CALL_SECONDS, retry=None)
    except api_errors.GoogleAPICallError as error:
        return f"{type(error).__name__}: {(error.message or '')[:160]}"
    await client.cancel_custom_job(name=created.name, timeout=CALL_SECONDS, retry=None)
    raise RequestRejectedError(f"{created.name} was created without a name; it is cancelled again.")
