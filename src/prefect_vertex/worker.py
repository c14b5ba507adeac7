"""VertexWorker: Prefect's words for what the reconciler does, and nothing else.

Google's modules and the reconciler are imported when a worker starts to work, not before: Prefect
loads every collection at worker start, block lookup and server start.
"""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
from anyio.abc import TaskStatus
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect.workers.base import BaseWorkerResult

from prefect_vertex.errors import (
    AccessDeniedError,
    JobNotFoundError,
    NamingError,
    PrefectVertexError,
    SetupError,
)
from prefect_vertex.lifecycle.run import signature_of
from prefect_vertex.planning.naming import parse_resource_name
from prefect_vertex.runs.adhoc import AdHocWorker
from prefect_vertex.runs.seams import interruptible
from prefect_vertex.settings import VertexSettings, read_settings, unknown_settings
from prefect_vertex.template import VertexJobConfiguration, VertexVariables, base_job_template
from prefect_vertex.template.carried_over import template_warning
from prefect_vertex.template.patience import BUDGET_SECONDS, patiently

if TYPE_CHECKING:
    from prefect_vertex.reconciler.loop import Reconciler
    from prefect_vertex.reconciler.wiring import Surroundings


class VertexWorkerResult(BaseWorkerResult):
    """The end of a flow run's infrastructure; `identifier` is the CustomJob's resource name."""


class VertexWorker(AdHocWorker[VertexJobConfiguration, VertexVariables, VertexWorkerResult]):
    """Runs flow runs as Vertex AI CustomJobs."""

    type = "vertex-custom-job"
    job_configuration = VertexJobConfiguration
    job_configuration_variables = VertexVariables
    cleanup_max_concurrency = 16
    _display_name = "Vertex AI CustomJob"
    _description = (
        "Runs flows as Vertex AI CustomJobs: no cluster to keep, machines only while a job runs."
    )
    _documentation_url = "https://github.com/prefect-vertex/prefect-vertex"
    _logo_url = "https://cdn.sanity.io/images/3ugk85nk/production/10424e311932e31c477ac2b9ef3d53cefbaad708-250x250.png"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._instance = uuid.uuid4().hex[:12]
        self._surroundings: Surroundings | None = None
        self._reconciler: Reconciler | None = None
        self._ready = anyio.Event()
        self._synced = anyio.Event()
        self._starts = False

    @property
    def signature(self) -> str:
        """How runs name this process as their holder."""
        return signature_of(self.name, self._instance)

    @cached_property
    def _settings(self) -> VertexSettings:
        """Read when they are first needed, where a mistake in them can be told in one line."""
        return read_settings()

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """The base job template of a new pool."""
        return base_job_template()

    async def start(
        self,
        run_once: bool = False,  # noqa: FBT001, FBT002 - the base class's signature
        with_healthcheck: bool = False,  # noqa: FBT001, FBT002
        printer: Callable[..., None] = print,
    ) -> None:
        """Start the worker, with the reconciler around it.

        The reconciler lives outside the base class's own task groups: it must outlive their end
        with `--run-once`, and must not start where a flow only submits itself.

        Raises:
            SystemExit: This machine or its settings are at fault; one line on stderr says how.
        """
        self._starts = True
        try:
            self._check_setup()
            with interruptible():
                async with anyio.create_task_group() as group:
                    group.start_soon(self._reconcile)
                    await super().start(run_once, with_healthcheck, printer)
                    group.cancel_scope.cancel()
        except PrefectVertexError as error:
            _give_up(error)
        except BaseExceptionGroup as group_error:
            cause = _single(group_error)
            if isinstance(cause, PrefectVertexError):
                _give_up(cause)
            raise cause from None

    def _check_setup(self) -> None:
        """Find what would stop the reconciler, before any run is taken."""
        from prefect_vertex.reconciler.prices import read_prices
        from prefect_vertex.vertex.channel import emulator_address

        for line in unknown_settings():
            self._logger.warning("%s", line)
        read_prices(self._settings.prices)
        emulator_address()

    async def _reconcile(self) -> None:
        await self._synced.wait()
        async with self._open() as reconciler:
            self._reconciler = reconciler
            self._ready.set()
            await reconciler.run_forever()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Reconciler]:
        from prefect_vertex.reconciler.loop import Reconciler
        from prefect_vertex.reconciler.wiring import Surroundings

        async with get_client() as client:
            surroundings = Surroundings(self, client, self._settings, instance=self._instance)
            self._surroundings = surroundings
            try:
                # Without it a look would find no jobs where there are some.
                patience = math.inf if self._starts else BUDGET_SECONDS
                await patiently(surroundings.learn_home, budget_seconds=patience)
                async with Reconciler(surroundings.world()) as reconciler:
                    yield reconciler
            finally:
                with anyio.CancelScope(shield=True):
                    await surroundings.aclose()

    @asynccontextmanager
    async def _attending(self) -> AsyncIterator[Reconciler]:
        """The running reconciler; one of its own for a worker that was never started."""
        if self._starts:
            await self._ready.wait()
            if self._reconciler is None:  # pragma: no cover - set before the event
                raise RuntimeError("The reconciler is not there.")
            yield self._reconciler
            return
        try:
            async with self._open() as reconciler, anyio.create_task_group() as group:
                group.start_soon(reconciler.run_forever)
                yield reconciler
                group.cancel_scope.cancel()
        except BaseExceptionGroup as group_error:
            # What the caller's own block raised is meant for its caller.
            raise _single(group_error) from None

    async def run(
        self,
        flow_run: FlowRun,
        configuration: VertexJobConfiguration,
        task_status: TaskStatus[Any] | None = None,
    ) -> VertexWorkerResult:
        """Put the run under the reconciler's care and wait for the end of its infrastructure.

        A signal to the worker cancels this wait and nothing else.
        """
        run_id = str(flow_run.id)
        async with self._attending() as reconciler:
            ticket = await self._submit_to(reconciler, flow_run, configuration)
            try:
                name = await ticket.wait_started()
                if task_status is not None:
                    refused = SetupError("The flow run ended before it had a CustomJob.")
                    task_status.started(str(name) if name is not None else refused)
                outcome = await ticket.wait_ended()
            finally:
                reconciler.drop(run_id, ticket)
        name = outcome.resource_name or name
        return VertexWorkerResult(
            identifier=str(name) if name is not None else run_id,
            # The base class proposes Crashed for anything but 0, whatever the run's state is.
            status_code=outcome.exit_status if ticket.crashed else 0,
        )

    async def _initiate_run(self, flow_run: FlowRun, configuration: VertexJobConfiguration) -> None:
        """Create the job of an ad-hoc run and return; any worker of the pool goes on with it."""
        from prefect_vertex.reconciler.errand import run_errand
        from prefect_vertex.reconciler.wiring import Surroundings

        bundle = await self.bundle_of(flow_run)
        async with get_client() as client:
            surroundings = Surroundings(self, client, self._settings, instance=self._instance)
            try:
                await run_errand(surroundings, str(flow_run.id), configuration, bundle=bundle)
            finally:
                with anyio.CancelScope(shield=True):
                    await surroundings.aclose()

    async def _submit_to(
        self, reconciler: Reconciler, flow_run: FlowRun, configuration: VertexJobConfiguration
    ) -> Any:
        from prefect_vertex.reconciler.intake import taken

        if self._surroundings is None:  # pragma: no cover - opened with the reconciler
            raise RuntimeError("The worker's adapters are not there.")
        return await taken(reconciler, self._surroundings, str(flow_run.id), configuration)

    async def kill_infrastructure(
        self,
        infrastructure_pid: str,
        configuration: VertexJobConfiguration,
        grace_seconds: int = 30,  # noqa: ARG002 - Vertex AI has no such setting
    ) -> None:
        """Cancel the job that the identifier names, in the location that it names.

        Returns once the cancel is accepted or the job has ended; the reconciler sees to the rest.

        Raises:
            InfrastructureNotFound: There is no such job.
            InfrastructureNotAvailable: It is not a CustomJob, or not within these credentials.
        """
        try:
            name = parse_resource_name(infrastructure_pid)
        except NamingError as error:
            raise InfrastructureNotAvailable(str(error)) from error
        async with self._attending():
            if self._surroundings is None:  # pragma: no cover - opened with the reconciler
                raise RuntimeError("The worker's adapters are not there.")
            gateway = self._surroundings.gateway_for_name(name, configuration)
            try:
                if not (await gateway.describe(name)).is_terminal:
                    await gateway.cancel(name)
            except JobNotFoundError as error:
                raise InfrastructureNotFound(str(error)) from error
            except AccessDeniedError as error:
                raise InfrastructureNotAvailable(str(error)) from error

    # --- what the base class calls ----------------------------------------------------------------

    async def on_synced(self) -> None:
        """The pool is known: the reconciler may begin, and may have new places to look at."""
        if self.is_synced and not self._synced.is_set():
            self._synced.set()
            if self._starts and (line := template_warning(self.work_pool)):
                self._logger.warning("%s", line)
        if self._surroundings is not None:
            await self._surroundings.learn_home()

    def on_cancelling(self, flow_run_id: str) -> None:
        """Look at a cancelled run now instead of at the next tick."""
        if self._reconciler is not None:
            self._reconciler.nudge(flow_run_id)

    def is_saturated(self) -> bool:
        """More than a minute's submissions wait already."""
        waiting = self._reconciler.waiting_submissions if self._reconciler is not None else 0
        return waiting > self._settings.submissions_per_minute

    def is_worker_still_polling(self, query_interval_seconds: float) -> bool:
        """Whether both loops are alive: the poll, and the reconciler's."""
        alive = super().is_worker_still_polling(query_interval_seconds)
        return alive and (self._reconciler is None or self._reconciler.is_alive)


def _single(error: BaseException) -> BaseException:
    """The only error in a group of one, else the group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions
    return error


def _give_up(error: PrefectVertexError) -> NoReturn:
    # Prefect's command would print a traceback above any error but this.
    sys.stderr.write(f"The worker cannot go on: {error}\n")
    raise SystemExit(1) from error
