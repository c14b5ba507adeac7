"""VertexFlow: a flow that is bound to a work pool of this worker's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.flows import InfrastructureBoundFlow
from prefect.utilities.callables import get_call_parameters

from prefect_vertex.errors import PlanError, PrefectVertexError
from prefect_vertex.planning.gang import about_bundle_replicas
from prefect_vertex.runs.adhoc import own_settings_unsaid
from prefect_vertex.runs.included import check_included_files
from prefect_vertex.runs.launchers import about_missing_pool, check_pool, check_storage
from prefect_vertex.runs.parameters import check_parameters

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.futures import PrefectFlowRunFuture
    from prefect.workers.base import BaseWorker

P = ParamSpec("P")
R = TypeVar("R")


class VertexFlow(InfrastructureBoundFlow[P, R]):
    """A flow that runs as a CustomJob when it is submitted or called.

    In a bundle it is a plain flow of Prefect's, so that an image without this package can run it.
    """

    @classmethod
    def of(cls, bound: InfrastructureBoundFlow[P, R]) -> Self:
        """The same flow, with what this class adds."""
        new = cls(
            bound.fn,
            work_pool=bound.work_pool,
            job_variables=bound.job_variables,
            worker_cls=bound.worker_cls,
        )
        vars(new).update(vars(bound), worker_cls=_worker_when_called())
        return new

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> PrefectFlowRunFuture[R]:
        """Create the flow's job from this process; returns once that exists.

        Raises:
            BundleError: include_files would not bring what it says; no flow run was created.
            PlanError: A parameter would arrive as another value; no flow run was created.
            SetupError: The work pool cannot take it, or uv is needed and missing; no flow run was
                created.
            PrefectVertexError: The flow run ended before its flow began; it says why.
        """
        future = super().submit(*args, **kwargs)
        _check_not_ended(future.flow_run_id)
        return future

    def submit_to_work_pool(self, *args: P.args, **kwargs: P.kwargs) -> PrefectFlowRunFuture[R]:
        """Bundle and upload the flow, and leave the rest to a worker of the pool.

        Returns once the flow run is Scheduled.

        Raises:
            BundleError: include_files would not bring what it says; no flow run was created.
            PlanError: A parameter would arrive as another value; no flow run was created.
            SetupError: The work pool is missing, of another type or without storage for bundles, or
                uv is needed and missing; no flow run was created.
            PrefectVertexError: A worker has ended the flow run because the upload took too long.
            RuntimeError: The upload failed; the flow run is Failed.
        """
        check_parameters(self, get_call_parameters(self, args, kwargs))
        check_included_files(self)
        with get_client(sync_client=True) as client:
            try:
                pool = client.read_work_pool(self.work_pool)
            except ObjectNotFound as error:
                raise about_missing_pool(self.work_pool) from error
        check_pool(pool)
        check_storage(self, pool)
        with own_settings_unsaid():
            future = super().submit_to_work_pool(*args, **kwargs)
        _check_not_ended(future.flow_run_id)
        return future

    def with_options(self, **options: Any) -> VertexFlow[P, R]:
        """A copy with other options; see Prefect's `Flow.with_options`.

        Raises:
            PlanError: Job variables that an ad-hoc run cannot have.
        """
        check_job_variables(options.get("job_variables") or {})
        return VertexFlow.of(super().with_options(**options))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return object.__new__, (InfrastructureBoundFlow,), dict(vars(self))


def check_job_variables(given: Mapping[str, Any]) -> None:
    """Refuse what no ad-hoc run can have.

    Raises:
        PlanError: Several replicas, or a command.
    """
    if (count := _count(given.get("worker_count"))) > 1:
        raise about_bundle_replicas(count)
    if given.get("command") is not None:
        raise PlanError(
            f"command is {given['command']!r}, but an ad-hoc run's command starts its bundle.",
            variable="command",
            hint="Leave it out; launcher says what stands before that command, and setup_command "
            "what is done before it.",
        )


def _count(given: object) -> int:
    """A number of replicas in any spelling that a job variable may have; 0 for what is none."""
    try:
        number = float(given) if isinstance(given, int | float | str) else 0.0
    except ValueError:
        return 0
    return math.ceil(number) if math.isfinite(number) else 0


def _check_not_ended(run_id: UUID) -> None:
    """Tell the caller where a run will never begin: Prefect hands out a future all the same.

    Raises:
        PrefectVertexError: It has ended, and its flow never began.
    """
    try:
        with get_client(sync_client=True) as client:
            run = client.read_flow_run(run_id)
    except (httpx.HTTPError, ObjectNotFound):
        return  # it was submitted; the future meets the same trouble
    state = run.state
    if state is None or not state.is_final() or state.is_completed() or run.run_count:
        return
    raise PrefectVertexError(
        f"Flow run {run.name!r} is {state.name}, its flow has not begun: "
        f"{' '.join((state.message or '').split())}"
    )


def _worker_when_called() -> type[BaseWorker[Any, Any, Any]]:
    """What makes the submitting worker, in the place of its class; found only when it is called.

    As a function within a function it travels whole in a bundle; the class would be looked up
    where that is opened.
    """

    def worker(**options: Any) -> BaseWorker[Any, Any, Any]:
        import importlib

        made = importlib.import_module("prefect_vertex.worker").VertexWorker
        names = importlib.import_module("prefect_vertex.runs.submitters")
        found = made(name=names.submitter_name(), create_pool_if_not_found=False, **options)
        return cast("BaseWorker[Any, Any, Any]", found)

    return cast("type[BaseWorker[Any, Any, Any]]", worker)
