"""One page of ListCustomJobs: filter, page token, page size and read mask."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import (
    CustomJob,
    ListCustomJobsRequest,
    ListCustomJobsResponse,
)
from google.protobuf.field_mask_pb2 import FieldMask

from prefect_vertex.emulator.api_error import invalid_argument
from prefect_vertex.emulator.filters import compile_filter
from prefect_vertex.emulator.names import Place
from prefect_vertex.emulator.profiles import Behaviour
from prefect_vertex.emulator.store import JobStore
from prefect_vertex.emulator.surroundings import Surroundings


def list_page(
    store: JobStore,
    place: Place,
    request: ListCustomJobsRequest,
    surroundings: Surroundings,
) -> ListCustomJobsResponse:
    """The page that was asked for, newest job first.

    A token names the job after which to go on, so jobs that come or go between two pages neither
    shift nor repeat the others.

    Raises:
        ApiError: INVALID_ARGUMENT for a bad filter, size, mask or token.
    """
    behaviour, lag = surroundings.behaviour, surroundings.lag
    wanted = compile_filter(request.filter)
    mask = _checked_mask(request) if behaviour.honour_read_mask else FieldMask()
    size = _page_size(request, behaviour)
    before = _parse_token(request, place)
    now = datetime.now(UTC)
    # Protobuf's own messages: a page of 100 jobs through proto-plus takes tens of milliseconds.
    page = ListCustomJobsResponse.pb(ListCustomJobsResponse())
    last = 0
    jobs = store.newest_first(place, wanted, before=before, by_state=not lag.changed_seconds)
    for position, job in jobs:
        listed = job.record.listed(lag, now)
        if listed is None or not wanted(listed[0]):
            continue
        if len(page.custom_jobs) == size:
            page.next_page_token = _format_token(last, request, place)
            break
        _add(page, listed[1], job.record.spec, mask)
        last = position
    response: ListCustomJobsResponse = ListCustomJobsResponse.wrap(page)
    return response


def _add(page: Any, message: Any, spec: Any, mask: FieldMask) -> None:
    row = page.custom_jobs.add()
    if not mask.paths:
        row.MergeFrom(message)
        row.job_spec.CopyFrom(spec)
    elif any(path.partition(".")[0] == "job_spec" for path in mask.paths):
        whole = type(message)()
        whole.CopyFrom(message)
        whole.job_spec.CopyFrom(spec)
        mask.MergeMessage(whole, row)
    else:
        mask.MergeMessage(message, row)


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


def _parse_token(request: ListCustomJobsRequest, place: Place) -> int | None:
    if not request.page_token:
        return None
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
