"""VertexJobGateway: the JobGateway that speaks to Vertex AI through Google's own async client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from google.api_core import exceptions as api_errors
from google.cloud.aiplatform_v1 import types
from google.cloud.aiplatform_v1.services.job_service.async_client import JobServiceAsyncClient
from google.protobuf import field_mask_pb2

from prefect_vertex.errors import (
    JobNotFoundError,
    RequestRejectedError,
    ServiceError,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex import filters
from prefect_vertex.vertex.budget import Budgets, Clock
from prefect_vertex.vertex.calls import Call, Caller
from prefect_vertex.vertex.channel import Connection
from prefect_vertex.vertex.translate import snapshot_of

PAGE_SIZE = 100
"""What public code asks for; the service's own maximum is not published, fewer may come."""

READ_MASK = (
    "name",
    "display_name",
    "state",
    "labels",
    "create_time",
    "start_time",
    "end_time",
    "update_time",
    "error",
    "web_access_uris",
)
"""What a list row needs. Without a mask a page of 100 jobs is 3 MB, with it 0.1 MB."""

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long a call may take, in seconds; waiting for the budget is not counted.

    Attributes:
        create_seconds: The one try of a create.
        call_seconds: Any other call, all its tries together.
    """

    create_seconds: float = 60.0
    call_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a list, as it came and as it was read."""

    message: Any
    job: JobSnapshot


@dataclass(frozen=True, slots=True)
class _Rows:
    """A whole list, and the pages that it came in."""

    rows: tuple[_Row, ...]
    pages: int

    @property
    def jobs(self) -> tuple[JobSnapshot, ...]:
        """What the rows show."""
        return tuple(row.job for row in self.rows)


class VertexJobGateway:
    """A `JobGateway` for one project and location.

    Args:
        target: What it speaks for.
        connect: Gives the connection, with credentials fresh; the argument is a time limit.
        budgets: Of the target's project and location, shared with its other gateways.
        clock: Times tries and pauses.
        deadlines: How long calls may take.
        utc: The wall clock, for `observed_at`.
    """

    def __init__(
        self,
        target: Target,
        *,
        connect: Callable[[float], Awaitable[Connection]],
        budgets: Budgets,
        clock: Clock,
        deadlines: Deadlines | None = None,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._target = target
        self._caller = Caller(connect=connect, clock=clock, utc=utc)
        self._deadlines = deadlines or Deadlines()
        self._long_filters = True
        self._last_live: dict[str, _Row] = {}
        self.budgets = budgets
        self.pages_last_list = 1
        """Pages of the last `list_live`: what one tick costs in reads."""

    @property
    def target(self) -> Target:
        """The project, location and credentials that it speaks for."""
        return self._target

    async def submission_turn(self) -> None:
        """Wait for this caller's turn to create; see `JobGateway.submission_turn`."""
        await self.budgets.submissions.acquire()

    async def create(self, request: types.CreateCustomJobRequest) -> JobSnapshot:
        """Send the request once; see `JobGateway.create`."""
        answer = await self._caller.ask(
            Call(
                attempted="create CustomJob",
                resource_name=request.parent,
                budget=self.budgets.submissions,
                seconds=self._deadlines.create_seconds,
                send=lambda client, timeout: client.create_custom_job(
                    request, timeout=timeout, retry=None
                ),
                repeatable=False,
                in_turn=True,
            )
        )
        return snapshot_of(answer.value, observed_at=answer.asked_at, described=True)

    async def describe(self, name: ResourceName) -> JobSnapshot:
        """Read one job; see `JobGateway.describe`."""
        request = types.GetCustomJobRequest(name=str(name))
        answer = await self._caller.ask(
            self._read(
                "describe CustomJob",
                str(name),
                lambda client, timeout: client.get_custom_job(request, timeout=timeout, retry=None),
            )
        )
        return snapshot_of(answer.value, observed_at=answer.asked_at, described=True)

    async def find(self, flow_run_id: str) -> tuple[JobSnapshot, ...]:
        """Jobs of one flow run, oldest first; see `JobGateway.find`."""
        found = await self._rows(filters.flow_run_filter(flow_run_id))
        return tuple(sorted(found.jobs, key=_age))

    async def list_live(self, work_pool_id: str) -> tuple[JobSnapshot, ...]:
        """Jobs of the pool that are not known to have ended; see `JobGateway.list_live`."""
        rows = await self._list(work_pool_id, filters.live_jobs_filter(work_pool_id))
        self.pages_last_list = rows.pages
        self._last_live = {row.message.name: row for row in rows.rows}
        return tuple(job for job in rows.jobs if not job.is_terminal)

    async def list_ended(
        self, work_pool_id: str, since: datetime | None = None
    ) -> tuple[JobSnapshot, ...]:
        """Jobs of the pool that have ended; see `JobGateway.list_ended`.

        Args:
            work_pool_id: The pool's id.
            since: Only jobs created then or later.
        """
        rows = await self._list(work_pool_id, filters.ended_jobs_filter(work_pool_id, since))
        return tuple(
            job
            for job in rows.jobs
            if job.is_terminal and (since is None or job.create_time >= since)
        )

    async def cancel(self, name: ResourceName) -> None:
        """Ask for the end; see `JobGateway.cancel`."""
        request = types.CancelCustomJobRequest(name=str(name))
        call = self._read(
            "cancel CustomJob",
            str(name),
            lambda client, timeout: client.cancel_custom_job(request, timeout=timeout, retry=None),
        )
        try:
            await self._caller.ask(call)
        except JobNotFoundError:
            return
        except RequestRejectedError as error:
            # "… is in state JOB_STATE_FAILED and cannot be canceled."
            if error.code != "FAILED_PRECONDITION":
                raise

    async def delete(self, name: ResourceName) -> None:
        """Delete the resource of an ended job; see `JobGateway.delete`."""
        request = types.DeleteCustomJobRequest(name=str(name))

        async def send(client: JobServiceAsyncClient, seconds: float) -> None:
            operation: Any = await client.delete_custom_job(request, timeout=seconds, retry=None)
            # Not waited for, but one that has failed already holds a refusal; its exception is
            # taken, or it would be reported as lost, and lacks the status.
            if operation.operation.HasField("error"):
                await operation.exception()
                refusal = operation.operation.error
                error: Callable[..., Exception] = api_errors.from_grpc_status
                raise error(refusal.code, refusal.message)

        call = Call(
            attempted="delete CustomJob",
            resource_name=str(name),
            budget=self.budgets.submissions,
            seconds=self._deadlines.call_seconds,
            send=send,
        )
        try:
            await self._caller.ask(call)
        except JobNotFoundError:
            return

    def _read(
        self,
        attempted: str,
        resource_name: str,
        send: Callable[[JobServiceAsyncClient, float], Awaitable[_T]],
    ) -> Call[_T]:
        return Call(
            attempted=attempted,
            resource_name=resource_name,
            budget=self.budgets.reads,
            seconds=self._deadlines.call_seconds,
            send=send,
        )

    async def _list(self, work_pool_id: str, filter_text: str) -> _Rows:
        """The rows of a pool's list; of the whole pool where the filter is not understood."""
        short = filters.pool_filter(work_pool_id)
        if not self._long_filters:
            return await self._rows(short)
        try:
            return await self._rows(filter_text)
        except RequestRejectedError as error:
            if error.code != "INVALID_ARGUMENT":
                raise
            refusal = error
        # What the short form is refused for too is no matter of the filter.
        rows = await self._rows(short)
        self._long_filters = False
        _LOGGER.warning(
            "Vertex AI refused a filter by job state; from now on jobs of the pool in any"
            " state are listed and sorted out here, which costs more reads. (%s)",
            refusal,
        )
        return rows

    async def _rows(self, filter_text: str) -> _Rows:
        """Every row of every page; each page spends a read."""
        # By job, because a list that changes between two pages may show a job on both, and one
        # job must never look like two.
        rows: dict[tuple[str, str], _Row] = {}
        tokens = [""]
        while True:
            answer = await self._caller.ask(self._page(filter_text, tokens[-1]))
            for message in answer.value.custom_jobs.pb:
                row = self._row(message, answer.asked_at)
                rows[row.job.resource_name.key] = row
            # A page may be short, or empty, and not be the last.
            token = answer.value.next_page_token
            if not token:
                return _Rows(tuple(rows.values()), len(tokens))
            if token in tokens:
                raise ServiceError(
                    f"Vertex AI's list of CustomJobs in {self._target.parent} goes in a circle:"
                    f" page token {token!r} came twice.",
                    resource_name=self._target.parent,
                )
            tokens.append(token)

    def _row(self, message: Any, observed_at: datetime) -> _Row:
        """Read a row, unless it is the same as in the last list of live jobs, as most are."""
        last = self._last_live.get(message.name)
        if last is not None and last.message == message:
            return _Row(message, replace(last.job, observed_at=observed_at))
        job = types.CustomJob.wrap(message)
        return _Row(message, snapshot_of(job, observed_at=observed_at, described=False))

    def _page(self, filter_text: str, token: str) -> Call[Any]:
        request = types.ListCustomJobsRequest(
            parent=self._target.parent,
            filter=filter_text,
            page_size=PAGE_SIZE,
            page_token=token,
            read_mask=field_mask_pb2.FieldMask(paths=READ_MASK),
        )
        return self._read(
            "list CustomJobs",
            self._target.parent,
            # The pager is used for its first page only: it would fetch others with no budget.
            lambda client, timeout: client.list_custom_jobs(request, timeout=timeout, retry=None),
        )


def _age(job: JobSnapshot) -> tuple[datetime, int, str]:
    """Older first; ids grow with time, and are compared as the numbers that they are."""
    job_id = job.resource_name.job_id
    return (job.create_time, int(job_id) if job_id.isdecimal() else 0, job_id)
