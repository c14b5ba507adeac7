"""VertexFlow: a flow that is bound to a work pool of this worker's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from prefect.client.orchestration import get_client
from prefect.flows import InfrastructureBoundFlow

from prefect_vertex.runs.adhoc import own_settings_unsaid
from prefect_vertex.runs.included import check_included_files
from prefect_vertex.runs.launchers import check_storage

if TYPE_CHECKING:
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
        vars(new).update(vars(bound))
        return new

    def submit_to_work_pool(self, *args: P.args, **kwargs: P.kwargs) -> PrefectFlowRunFuture[R]:
        """Bundle and upload the flow, and leave the rest to a worker of the pool.

        Returns once the flow run is Scheduled.

        Raises:
            BundleError: include_files would not bring what it says; no flow run was created.
            SetupError: The work pool has no storage for bundles, or uv is needed and missing; no
                flow run was created.
            RuntimeError: The upload failed; the flow run is Failed.
        """
        check_included_files(self)
        with get_client(sync_client=True) as client:
            check_storage(self, client.read_work_pool(self.work_pool))
        with own_settings_unsaid():
            return super().submit_to_work_pool(*args, **kwargs)

    def with_options(self, **options: Any) -> VertexFlow[P, R]:
        """A copy with other options; see Prefect's `Flow.with_options`."""
        return VertexFlow.of(super().with_options(**options))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        state = {**vars(self), "worker_cls": _worker_when_called()}
        return object.__new__, (InfrastructureBoundFlow,), state


def _worker_when_called() -> Callable[..., BaseWorker[Any, Any, Any]]:
    """What makes the worker, found only when it is called.

    As a function within a function it travels whole in a bundle; the class would be looked up
    where that is opened.
    """

    def worker(**options: Any) -> BaseWorker[Any, Any, Any]:
        import importlib

        found = importlib.import_module("prefect_vertex.worker").VertexWorker(**options)
        return cast("BaseWorker[Any, Any, Any]", found)

    return worker
