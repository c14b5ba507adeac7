"""FakeJobGateway: CustomJobs in memory, which change when a test says so."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.lowlevel

from prefect_vertex.errors import JobNotFoundError, RequestRejectedError, ServiceVerdict
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import PHASE_OF, phase_of
from prefect_vertex.planning.naming import WORK_POOL_LABEL, ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.testing.clock import ManualClock

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import types  # noqa: TID251  not loaded, only named

_PROJECT_NUMBER = "123456789012"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Script:
    """What happens to one call."""

    error: Exception | None
    after_effect: bool
    until: anyio.Event | None


@dataclass(slots=True)
class _Job:
    snapshot: JobSnapshot
    request: types.CreateCustomJobRequest
    created_at: float
    hidden: bool = False


@dataclass(slots=True)
class _Scripts:
    """Scripted calls by method, each used once, in order."""

    waiting: dict[str, deque[_Script]] = field(default_factory=dict)

    def take(self, method: str) -> _Script | None:
        queue = self.waiting.get(method)
        return queue.popleft() if queue else None

    def left(self) -> dict[str, int]:
        return {method: len(queue) for method, queue in self.waiting.items() if queue}


class FakeJobGateway:
    """A `JobGateway` whose jobs live in memory and change only when the test says so.

    Args:
        target: What it speaks for.
        clock: Stamps times; a clock of its own if not given.
        list_lag_seconds: How long a new job is missing from lists, as it may be at Vertex AI.
    """

    METHODS = (
        "submission_turn",
        "create",
        "describe",
        "find",
        "list_live",
        "list_ended",
        "cancel",
        "delete",
    )

    def __init__(
        self,
        target: Target = Target("demo-project", "us-central1"),  # noqa: B008  frozen
        *,
        clock: ManualClock | None = None,
        list_lag_seconds: float = 0.0,
    ) -> None:
        self._target = target
        self._clock = clock or ManualClock()
        self._list_lag_seconds = list_lag_seconds
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._ids = itertools.count(1_000_000_000_000_000_001)
        self._scripts = _Scripts()
        self.calls: Counter[str] = Counter()
        """How often each method was called: what a budget or a tick is measured by."""

    # --- what a test says and sees ---------------------------------------------------------------

    @property
    def jobs(self) -> tuple[JobSnapshot, ...]:
        """Every job that exists, oldest first, as a describe would show it."""
        return tuple(self._show(job, described=True) for job in self._jobs.values())

    def request(self, name: ResourceName) -> types.CreateCustomJobRequest:
        """What a job was created from."""
        return self._job(name, "show").request

    def advance(
        self, name: ResourceName, state: str, *, error: JobError | None = None
    ) -> JobSnapshot:
        """Put a job into a state, with the times that Vertex AI would stamp.

        Args:
            name: Which job.
            state: Vertex AI's word; one that is not in the table stands for a state of the future.
            error: What the service says about the end.
        """
        job = self._job(name, "advance")
        now, old, phase = self._clock.utc(), job.snapshot, phase_of(state)
        job.snapshot = replace(
            old,
            state=state,
            phase=phase,
            error=error or old.error,
            start_time=old.start_time or (now if state == "JOB_STATE_RUNNING" else None),
            end_time=old.end_time or (now if phase.is_terminal else None),
        )
        return self._show(job, described=True)

    def hide(self, name: ResourceName, *, hidden: bool = True) -> None:
        """Leave a job out of lists and finds, as a lagging index does; `describe` still sees it."""
        self._job(name, "hide").hidden = hidden

    def script(
        self,
        method: str,
        error: Exception | None = None,
        *,
        after_effect: bool = False,
        until: anyio.Event | None = None,
    ) -> None:
        """Say what happens to the next call of a method that has no script yet.

        Args:
            method: One of `METHODS`.
            error: What the call ends with; None: it ends as usual.
            after_effect: Whether the service has acted by then: a lost answer, not a lost request.
            until: The call first waits for this.
        """
        if method not in self.METHODS:
            raise ValueError(f"{method!r} is none of {', '.join(self.METHODS)}.")
        queue = self._scripts.waiting.setdefault(method, deque())
        queue.append(_Script(error, after_effect, until))

    def assert_scripts_used(self) -> None:
        """Fail if a scripted call never came: the test did not test what it says."""
        left = self._scripts.left()
        if left:
            raise AssertionError(f"Scripted calls that never came: {left}.")

    # --- JobGateway ------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """The project, location and credentials that it speaks for."""
        return self._target

    async def submission_turn(self) -> None:
        """See `JobGateway.submission_turn`: at once, unless it is scripted to wait."""
        await self._call("submission_turn", lambda: None)

    async def create(self, request: types.CreateCustomJobRequest) -> JobSnapshot:
        """See `JobGateway.create`."""
        return await self._call("create", lambda: self._create(request))

    async def describe(self, name: ResourceName) -> JobSnapshot:
        """See `JobGateway.describe`."""
        return await self._call(
            "describe", lambda: self._show(self._job(name, "describe"), described=True)
        )

    async def find(self, flow_run_id: str) -> tuple[JobSnapshot, ...]:
        """See `JobGateway.find`."""
        return await self._call("find", lambda: self._rows(lambda j: j.flow_run_id == flow_run_id))

    async def list_live(self, work_pool_id: str) -> tuple[JobSnapshot, ...]:
        """See `JobGateway.list_live`."""
        return await self._call(
            "list_live",
            lambda: self._rows(lambda j: _in_pool(j, work_pool_id) and not j.is_terminal),
        )

    async def list_ended(
        self, work_pool_id: str, since: datetime | None = None
    ) -> tuple[JobSnapshot, ...]:
        """See `JobGateway.list_ended`."""
        return await self._call(
            "list_ended",
            lambda: self._rows(
                lambda j: (
                    _in_pool(j, work_pool_id)
                    and j.is_terminal
                    and (since is None or j.create_time >= since)
                )
            ),
        )

    async def cancel(self, name: ResourceName) -> None:
        """See `JobGateway.cancel`: a live job is CANCELLING until the test says more."""
        await self._call("cancel", lambda: self._cancel(name))

    async def delete(self, name: ResourceName) -> None:
        """See `JobGateway.delete`."""
        await self._call("delete", lambda: self._delete(name))

    # --- inside ----------------------------------------------------------------------------------

    async def _call(self, method: str, effect: Callable[[], _T]) -> _T:
        self.calls[method] += 1
        await anyio.lowlevel.checkpoint()
        script = self._scripts.take(method) or _Script(None, after_effect=False, until=None)
        if script.until is not None:
            await script.until.wait()
        if script.error is not None and not script.after_effect:
            raise script.error
        answer = effect()
        if script.error is not None:
            raise script.error
        return answer

    def _create(self, request: types.CreateCustomJobRequest) -> JobSnapshot:
        self._check(request)
        job = request.custom_job
        name = ResourceName(_PROJECT_NUMBER, self._target.location, str(next(self._ids)))
        snapshot = JobSnapshot(
            resource_name=name,
            display_name=job.display_name,
            phase=PHASE_OF["JOB_STATE_PENDING"],
            state="JOB_STATE_PENDING",
            observed_at=self._clock.utc(),
            create_time=self._clock.utc(),
            labels=dict(job.labels),
        )
        from prefect_vertex.vertex.machines import with_machines

        snapshot = with_machines(snapshot, job)
        self._jobs[name.key] = _Job(snapshot, request, self._clock.now())
        return self._show(self._jobs[name.key], described=True)

    def _check(self, request: types.CreateCustomJobRequest) -> None:
        job = request.custom_job
        required: Mapping[str, object] = {
            "custom_job.display_name": job.display_name,
            "custom_job.job_spec.worker_pool_specs": job.job_spec.worker_pool_specs,
        }
        for path, value in required.items():
            if not value:
                raise self._refusal(f"{path} is required", request.parent)
        if request.parent != self._target.parent:
            raise self._refusal("the location ID doesn't match the endpoint", request.parent)

    @staticmethod
    def _refusal(words: str, parent: str) -> RequestRejectedError:
        return RequestRejectedError(
            f"Could not create CustomJob in {parent}: INVALID_ARGUMENT: {words}",
            verdict=ServiceVerdict(code="INVALID_ARGUMENT"),
            resource_name=parent,
        )

    def _cancel(self, name: ResourceName) -> None:
        job = self._jobs.get(name.key)
        if job is not None and not job.snapshot.is_terminal:
            self.advance(name, "JOB_STATE_CANCELLING")

    def _delete(self, name: ResourceName) -> None:
        job = self._jobs.get(name.key)
        if job is not None and not job.snapshot.is_terminal:
            raise RequestRejectedError(
                f"Could not delete CustomJob {name}: FAILED_PRECONDITION: it has not ended",
                verdict=ServiceVerdict(code="FAILED_PRECONDITION"),
                resource_name=str(name),
            )
        self._jobs.pop(name.key, None)

    def _job(self, name: ResourceName, attempted: str) -> _Job:
        try:
            return self._jobs[name.key]
        except KeyError:
            raise JobNotFoundError(
                f"Could not {attempted} CustomJob {name}: NOT_FOUND: it does not exist",
                verdict=ServiceVerdict(code="NOT_FOUND"),
                resource_name=str(name),
            ) from None

    def _rows(self, keep: Callable[[JobSnapshot], bool]) -> tuple[JobSnapshot, ...]:
        newest = self._clock.now() - self._list_lag_seconds
        return tuple(
            self._show(job, described=False)
            for job in self._jobs.values()
            if not job.hidden and job.created_at <= newest and keep(job.snapshot)
        )

    def _show(self, job: _Job, *, described: bool) -> JobSnapshot:
        shown = replace(job.snapshot, observed_at=self._clock.utc(), described=described)
        if described:
            return shown
        # A list row comes under a read mask.
        return replace(shown, machines=(), strategy="", timeout_seconds=None)


def _in_pool(job: JobSnapshot, work_pool_id: str) -> bool:
    return job.labels.get(WORK_POOL_LABEL) == work_pool_id
