"""One page of ListCustomJobs: filter, page token, page size and read mask."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from google.cloud.aiplatform_v1.types import (
    CustomJob,
    ListCustomJobsRequest,
    ListCustomJobsResponse,
)
from google.protobuf.field_mask_pb2 import FieldMask

from prefect_vertex.emulator.api_error import invalid_argument
from prefect_vertex.emulator.filters import compile_filter
from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.names import Place
from prefect_vertex.emulator.profiles import Behaviour
from prefect_vertex.emulator.store import JobStore


def list_page(
    store: JobStore, place: Place, request: ListCustomJobsRequest, behaviour: Behaviour
) -> ListCustomJobsResponse:
    """The page that was asked for, newest job first.

    A token names the job after which to go on, so jobs that come or go between two pages neither
    shift nor repeat the others.

    Raises:
        ApiError: INVALID_ARGUMENT for a bad filter, size, mask or token.
    """
    matches = compile_filter(request.filter)
    mask = _checked_mask(request) if behaviour.honour_read_mask else FieldMask()
    size = _page_size(request, behaviour)
    before = _parse_token(request, place)
    page: list[tuple[int, EmulatedJob]] = []
    next_page_token = ""
    for number, job in store.newest_first(place):
        if (before and number >= before) or not matches(job.record.row):
            continue
        if len(page) == size:
            next_page_token = _format_token(page[-1][0], request, place)
            break
        page.append((number, job))
    return _response([job.record.live_resource for _, job in page], mask, next_page_token)


def _response(
    jobs: list[CustomJob], mask: FieldMask, next_page_token: str
) -> ListCustomJobsResponse:
    # Protobuf's own messages: a page of 100 jobs through proto-plus takes tens of milliseconds.
    page = ListCustomJobsResponse.pb(ListCustomJobsResponse(next_page_token=next_page_token))
    for job in jobs:
        row: Any = page.custom_jobs.add()
        if mask.paths:
            mask.MergeMessage(CustomJob.pb(job), row)
        else:
            row.MergeFrom(CustomJob.pb(job))
    response: ListCustomJobsResponse = ListCustomJobsResponse.wrap(page)
    return response


def _checked_mask(request: ListCustomJobsRequest) -> FieldMask:
    mask = FieldMask(paths=request.read_mask.paths)
    if list(mask.paths) == ["*"]:
        return FieldMask()
    if not mask.IsValidForDescriptor(CustomJob.pb(CustomJob()).DESCRIPTOR):
        raise invalid_argument(f"Invalid read_mask: {','.join(mask.paths)}")
    return mask


def _page_size(request: ListCustomJobsRequest, behaviour: Behaviour) -> int:
    if request.page_size < 0:
        raise invalid_argument(f"Invalid page_size: {request.page_size}")
    return min(request.page_size or behaviour.default_page_size, behaviour.max_page_size)


def _format_token(number: int, request: ListCustomJobsRequest, place: Place) -> str:
    token = json.dumps([number, _query_digest(request, place)])
    return base64.urlsafe_b64encode(token.encode()).decode()


def _parse_token(request: ListCustomJobsRequest, place: Place) -> int:
    if not request.page_token:
        return 0
    try:
        number, digest = json.loads(base64.urlsafe_b64decode(request.page_token))
        number = int(number)
    except (ValueError, TypeError) as error:
        raise invalid_argument("Invalid page_token.") from error
    if digest != _query_digest(request, place):
        raise invalid_argument("The page_token belongs to a list with another parent or filter.")
    return int(number)


def _query_digest(request: ListCustomJobsRequest, place: Place) -> str:
    return hashlib.sha256(f"{place}\n{request.filter}".encode()).hexdigest()[:16]
