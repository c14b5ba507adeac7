"""The CustomJob resource of one job: what clients read, and how it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.cloud.aiplatform_v1.types import CustomJob, JobState
from google.rpc import status_pb2

from prefect_vertex.emulator.filters import Row
from prefect_vertex.emulator.names import JobName

TERMINAL: Final = frozenset(
    {
        JobState.JOB_STATE_SUCCEEDED,
        JobState.JOB_STATE_FAILED,
        JobState.JOB_STATE_CANCELLED,
        # No life here ends in these two by itself; a job may be seeded in them, or ended so.
        JobState.JOB_STATE_EXPIRED,
        JobState.JOB_STATE_PARTIALLY_SUCCEEDED,
    }
)
WITH_ERROR: Final = frozenset({JobState.JOB_STATE_FAILED, JobState.JOB_STATE_CANCELLED})
"""Ends that have an error, as CustomJob.error documents it."""

# What a client may send, and the service ignores.
_OUTPUT_ONLY: Final = (
    "start_time",
    "end_time",
    "error",
    "web_access_uris",
    "satisfies_pzs",
    "satisfies_pzi",
)


@dataclass(slots=True, kw_only=True)
class Lag:
    """How far lists are behind; may be changed at any time.

    Attributes:
        created_seconds: A new job is missing from lists so long.
        changed_seconds: A list row shows a job as it was so long ago.
    """

    created_seconds: float = 0.0
    changed_seconds: float = 0.0


class JobRecord:
    """One CustomJob; a change is seen by every reader at once and wakes those who wait for one.

    Args:
        request: The CustomJob as protobuf's own message, without `job_spec`; it becomes the
            record's.
        spec: Its `job_spec`, which is only read: thousands of records may share one.
        name: Its name.
        state: Its first state, a JobState.
        created: When it was created.
    """

    __slots__ = (
        "_changed",
        "_changes",
        "_error_set",
        "_message",
        "_row",
        "created",
        "name",
        "on_end",
        "spec",
    )

    def __init__(
        self, request: Any, spec: Any, name: JobName, *, state: int, created: datetime
    ) -> None:
        self.name = name
        self.spec = spec
        self.created = created
        self.on_end: Callable[[], None] | None = None
        # Protobuf's own message: what proto-plus converts on assignment has no types.
        self._message = request
        for field in _OUTPUT_ONLY:
            self._message.ClearField(field)
        self._message.name = str(name)
        self._message.state = state
        self._message.create_time.FromDatetime(created)
        self._message.update_time.FromDatetime(created)
        self._row = Row(
            display_name=request.display_name,
            state=JobState(state).name,
            create_time=created,
            labels=dict(request.labels),
        )
        self._changes = [(created, state)]
        self._error_set: datetime | None = None
        # Made when somebody waits.
        self._changed: asyncio.Event | None = None

    @property
    def state(self) -> JobState:
        """The state now."""
        return JobState(self._message.state)

    @property
    def is_terminal(self) -> bool:
        """Whether the state can no longer change."""
        return self.state in TERMINAL

    @property
    def resource(self) -> CustomJob:
        """A copy of the whole resource."""
        copy = CustomJob.pb(CustomJob())
        copy.CopyFrom(self._message)
        copy.job_spec.CopyFrom(self.spec)
        resource: CustomJob = CustomJob.wrap(copy)
        return resource

    @property
    def message(self) -> Any:
        """The resource without `job_spec`, for readers that neither keep nor change it."""
        return self._message

    @property
    def row(self) -> Row:
        """What a list filter sees."""
        return self._row

    @property
    def timeout_seconds(self) -> float:
        """`scheduling.timeout`, 0 where none was given."""
        timeout = self.spec.scheduling.timeout.ToTimedelta()
        return float(timeout.total_seconds())

    def enter(self, state: int, at: datetime | None = None) -> None:
        """Change the state; the first RUNNING sets `start_time`, a terminal state `end_time`."""
        now = at or datetime.now(UTC)
        self._message.state = state
        if state == JobState.JOB_STATE_RUNNING and not self._message.HasField("start_time"):
            self._message.start_time.FromDatetime(now)
        if state in TERMINAL:
            self._message.end_time.FromDatetime(now)
        self._row = _in_state(self._row, state)
        self._touch(now)
        if state in TERMINAL and self.on_end:
            self.on_end()

    def set_error(self, code: int, message: str, at: datetime | None = None) -> None:
        """Set why the job ended."""
        self._error_set = at or datetime.now(UTC)
        self._message.error.CopyFrom(status_pb2.Status(code=code, message=message))
        self._touch(self._error_set)

    def listed(self, lag: Lag, now: datetime) -> tuple[Row, Any] | None:
        """Row and message as a list shows them; None where it does not show the job yet."""
        if self.created > now - timedelta(seconds=lag.created_seconds):
            return None
        if not lag.changed_seconds:
            return self._row, self._message
        return self._as_of(now - timedelta(seconds=lag.changed_seconds))

    async def wait_until(self, holds: Callable[[CustomJob], bool], seconds: float) -> CustomJob:
        """Wait until the resource is as wanted and return a copy of it.

        Raises:
            TimeoutError: It was not so within `seconds`; the message says the state.
        """
        try:
            async with asyncio.timeout(seconds):
                while not holds(resource := self.resource):
                    self._changed = self._changed or asyncio.Event()
                    await self._changed.wait()
        except TimeoutError as error:
            raise TimeoutError(f"{self.name} is {self.state.name} after {seconds:g} s") from error
        return resource

    def _as_of(self, moment: datetime) -> tuple[Row, Any]:
        past = [change for change in self._changes if change[0] <= moment]
        updated, state = past[-1] if past else self._changes[0]
        message = type(self._message)()
        message.CopyFrom(self._message)
        message.state = state
        message.update_time.FromDatetime(updated)
        for field in ("start_time", "end_time"):
            if getattr(message, field).ToDatetime(UTC) > moment:
                message.ClearField(field)
        if self._error_set and self._error_set > moment:
            message.ClearField("error")
        return _in_state(self._row, state), message

    def _touch(self, now: datetime) -> None:
        self._message.update_time.FromDatetime(now)
        self._changes.append((now, self._message.state))
        if self._changed:
            self._changed.set()
            self._changed = None


def taken_apart(job: CustomJob) -> tuple[Any, Any]:
    """Copies of a CustomJob without `job_spec`, and of its `job_spec`, as protobuf's own."""
    whole = CustomJob.pb(job)
    spec = type(whole.job_spec)()
    spec.CopyFrom(whole.job_spec)
    message = type(whole)()
    message.CopyFrom(whole)
    message.ClearField("job_spec")
    return message, spec


def _in_state(row: Row, state: int) -> Row:
    return Row(
        display_name=row.display_name,
        state=JobState(state).name,
        create_time=row.create_time,
        labels=row.labels,
    )
