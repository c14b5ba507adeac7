"""AdHocWorker: submits a flow from the process that defines it, without a deployment.

The base class creates the flow run, Pending, then bundles and uploads its code, and leaves the run
as it is where any of that fails.  Here such a run ends as Crashed, says from its first moment whose
it is, and its code does not carry this process's settings to the container.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import anyio
import anyio.to_thread
import httpx
from anyio.abc import TaskStatus
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import SettingsContext, get_settings_context
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL

from prefect_vertex.errors import DeliveryError, PrefectVertexError, SetupError
from prefect_vertex.lifecycle.run import (
    BUNDLE_AWAITED,
    BUNDLE_LABEL,
    BUNDLE_OF_RETRY,
    BUNDLE_STORED,
    HELD_LABEL,
    INSTANCE_LABEL,
)
from prefect_vertex.planning.addresses import told, without_user
from prefect_vertex.planning.spelling import storable
from prefect_vertex.runs.included import check_included_files
from prefect_vertex.runs.launchers import about_missing_pool, check_pool, check_storage
from prefect_vertex.runs.parameters import check_parameters
from prefect_vertex.runs.seams import C, GuardedWorker, R, V
from prefect_vertex.runs.submitters import is_submitter

if TYPE_CHECKING:
    from prefect.flows import Flow
    from prefect.futures import PrefectFlowRunFuture

_LONGEST_REASON = 500


@dataclass
class _Submission:
    """One submission: it passes the flow run on once that exists, and remembers it."""

    caller: TaskStatus[FlowRun] | None
    is_retry: bool
    known: dict[UUID, _Submission]
    flow_run: FlowRun | None = None
    made: anyio.Event = field(default_factory=anyio.Event)
    announced: anyio.Event = field(default_factory=anyio.Event)

    def started(self, value: FlowRun) -> None:
        """The flow run exists."""
        self.flow_run = value
        self.known[value.id] = self
        self.made.set()
        if self.caller is not None:
            self.caller.started(value)


class AdHocWorker(GuardedWorker[C, V, R], abc.ABC):
    """A worker that flows submit themselves through."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._submissions: dict[UUID, _Submission] = {}

    @property
    @abc.abstractmethod
    def signature(self) -> str:
        """How runs name this process as their holder."""

    async def setup(self) -> None:
        """See that there is such a pool first: the base class would create a misspelt one.

        Raises:
            SetupError: A flow is to be submitted, and its work pool does not exist or cannot take
                it.
        """
        if is_submitter(self.name) and PREFECT_API_URL.value():
            async with get_client() as client:
                try:
                    check_pool(await client.read_work_pool(self._work_pool_name), creates=True)
                except ObjectNotFound as error:
                    raise about_missing_pool(self._work_pool_name) from error
        await super().setup()

    async def submit(
        self,
        flow: Flow[..., Any],
        parameters: dict[str, Any] | None = None,
        job_variables: dict[str, Any] | None = None,
        flow_run: FlowRun | None = None,
    ) -> PrefectFlowRunFuture[Any]:
        """Submit a flow; returns once its flow run exists.

        Raises:
            BundleError: include_files would not bring what it says; no flow run was created.
            PlanError: A parameter would arrive as another value; no flow run was created.
            SetupError: The flow run to retry has not ended; or the work pool is of another type,
                paused, or without storage for bundles, or uv is needed and missing; no flow run
                was created.
        """
        check_pool(self.work_pool, creates=True)
        if flow_run is not None:
            await self._check_ended(flow_run.id)
        check_parameters(flow, parameters or {})
        check_included_files(flow)
        check_storage(flow, self.work_pool)
        return await super().submit(flow, parameters, job_variables, flow_run)

    async def _check_ended(self, run_id: UUID) -> None:
        """A retry of a run that goes on would be a second job beside its first."""
        run = await self.client.read_flow_run(run_id)
        if run.state is not None and not run.state.is_final():
            raise SetupError(
                f"Flow run {run.name!r} is {run.state.name}: only one that has ended is retried.",
                hint="Wait for its end, or cancel it.",
            )

    async def _submit_adhoc_run(
        self,
        flow: Flow[..., Any],
        parameters: dict[str, Any] | None = None,
        job_variables: dict[str, Any] | None = None,
        task_status: TaskStatus[FlowRun] | None = None,
        flow_run: FlowRun | None = None,
    ) -> None:
        """Bundle, upload, create the job; a run for which that fails ends as Crashed.

        Raises:
            PrefectVertexError: It failed; the flow run says the same.
        """
        failure: Exception | None = None
        submission = _Submission(
            caller=task_status, is_retry=flow_run is not None, known=self._submissions
        )
        async with anyio.create_task_group() as group:
            group.start_soon(self._announce, submission)
            group.start_soon(self._stay_online)
            try:
                with own_settings_unsaid():
                    await super()._submit_adhoc_run(
                        flow,
                        parameters,
                        job_variables,
                        cast("TaskStatus[FlowRun]", submission),
                        flow_run,
                    )
            except Exception as error:  # noqa: BLE001 - whatever it is, the run has to hear of it
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            await self._fail(submission.flow_run, failure)

    async def _announce(self, submission: _Submission) -> None:
        """Say whose the run is as soon as it exists: storing its code may take minutes."""
        await submission.made.wait()
        run = submission.flow_run
        if run is None or run.state is None:  # pragma: no cover - set before the event
            return
        labels: dict[str, bool | int | float | str] = {
            INSTANCE_LABEL: self.signature,
            HELD_LABEL: str(run.state.id),
            BUNDLE_LABEL: BUNDLE_AWAITED,
        }
        try:
            await self.client.update_flow_run_labels(run.id, labels)
        except httpx.HTTPError as error:
            self._logger.warning("Flow run %s does not say who submits it: %s", run.id, told(error))
        submission.announced.set()

    async def _stay_online(self) -> None:
        """Send heartbeats, which only a started worker sends; until cancelled."""
        ended = threading.Event()
        try:
            await anyio.to_thread.run_sync(self.send_heartbeats, ended, abandon_on_cancel=True)
        finally:
            ended.set()

    async def bundle_of(self, flow_run: FlowRun) -> str:
        """Where the code of a run that is submitted here is by now; empty for any other run."""
        submission = self._submissions.pop(flow_run.id, None)
        if submission is None:
            return ""
        await submission.announced.wait()
        return BUNDLE_OF_RETRY if submission.is_retry else BUNDLE_STORED

    async def _fail(self, flow_run: FlowRun | None, failure: Exception) -> None:
        if flow_run is None:
            raise failure
        self._submissions.pop(flow_run.id, None)
        named = _named(flow_run, failure)
        await self._propose_crashed_state(flow_run, str(named), client=self.client)
        if named is failure:
            raise failure
        raise named from failure


class _Unsaid(SettingsContext):
    """Settings that are in force here and do not travel."""

    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - the base class's signature
        """Nothing: the container has its own."""
        return {}


@contextmanager
def own_settings_unsaid() -> Iterator[None]:
    """Keep this process's Prefect settings, the API key among them, out of what is bundled here.

    Prefect would store them in clear, and the flow would use them in place of its container's.
    """
    current = get_settings_context()
    with _Unsaid(profile=current.profile, settings=current.settings):
        yield


def _named(flow_run: FlowRun, failure: Exception) -> PrefectVertexError:
    """What failed, as one line that names the run."""
    if isinstance(failure, PrefectVertexError):
        return failure
    text = storable(without_user(str(failure)))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Of a program's output the end says what was wrong.
    reason = " ".join(lines)[-_LONGEST_REASON:] or type(failure).__name__
    return DeliveryError(
        f"Flow run {flow_run.name!r} could not be submitted, its code was not stored: {reason}"
    )
