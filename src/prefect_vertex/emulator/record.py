"""The CustomJob resource of one job: what clients read, and how it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from google.cloud.aiplatform_v1.types import CustomJob, JobState
from google.rpc import status_pb2

from prefect_vertex.emulator.filters import Row
from prefect_vertex.emulator.names import JobName

TERMINAL: Final = frozenset(
    {JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_FAILED, JobState.JOB_STATE_CANCELLED}
)
# What a client may send, and the service ignores.
_OUTPUT_ONLY: Final = (
    "start_time",
    "end_time",
    "error",
    "web_access_uris",
    "satisfies_pzs",
    "satisfies_pzi",
)


class JobRecord:
    """One CustomJob; a change is seen by every reader at once and wakes those who wait for one."""

    def __init__(self, request: CustomJob, name: JobName, state: int) -> None:
        now = datetime.now(UTC)
        self.name = name
        self._resource = CustomJob()
        CustomJob.copy_from(self._resource, request)
        # The message behind it: what proto-plus converts on assignment has no types.
        self._message: Any = CustomJob.pb(self._resource)
        for field in _OUTPUT_ONLY:
            self._message.ClearField(field)
        self._message.name = str(name)
        self._message.state = state
        self._message.create_time.FromDatetime(now)
        self._message.update_time.FromDatetime(now)
        self._row_base = (request.display_name, now, dict(request.labels))
        self._changed = asyncio.Event()

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
        copy = CustomJob()
        CustomJob.copy_from(copy, self._resource)
        return copy

    @property
    def live_resource(self) -> CustomJob:
        """The resource itself, for readers that neither keep nor change it."""
        return self._resource

    @property
    def row(self) -> Row:
        """What a list filter sees."""
        display_name, create_time, labels = self._row_base
        return Row(
            display_name=display_name,
            state=self.state.name,
            create_time=create_time,
            labels=labels,
        )

    @property
    def timeout_seconds(self) -> float:
        """`scheduling.timeout`, 0 where none was given."""
        timeout = self._message.job_spec.scheduling.timeout.ToTimedelta()
        return float(timeout.total_seconds())

    def enter(self, state: int) -> None:
        """Change the state; the first RUNNING sets `start_time`, a terminal state `end_time`."""
        now = self._touch()
        self._message.state = state
        if state == JobState.JOB_STATE_RUNNING and not self._message.HasField("start_time"):
            self._message.start_time.FromDatetime(now)
        if state in TERMINAL:
            self._message.end_time.FromDatetime(now)

    def set_error(self, code: int, message: str) -> None:
        """Set why the job ended."""
        self._touch()
        self._message.error.CopyFrom(status_pb2.Status(code=code, message=message))

    async def wait_until(self, holds: Callable[[CustomJob], bool], seconds: float) -> CustomJob:
        """Wait until the resource is as wanted and return a copy of it.

        Raises:
            TimeoutError: It was not so within `seconds`; the message says the state.
        """
        try:
            async with asyncio.timeout(seconds):
                while not holds(self._resource):
                    await self._changed.wait()
        except TimeoutError as error:
            raise TimeoutError(f"{self.name} is {self.state.name} after {seconds:g} s") from error
        return self.resource

    def _touch(self) -> datetime:
        now = datetime.now(UTC)
        self._message.update_time.FromDatetime(now)
        self._changed.set()
        self._changed = asyncio.Event()
        return now
