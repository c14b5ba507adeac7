"""The decorator `vertex_job`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prefect.flows import Flow, bind_flow_to_infrastructure

from prefect_vertex.adhoc.flow import VertexFlow, check_job_variables
from prefect_vertex.errors import SetupError
from prefect_vertex.runs.included import check_patterns
from prefect_vertex.worker import VertexWorker

if TYPE_CHECKING:
    from prefect.bundles import BundleLauncher

P = ParamSpec("P")
R = TypeVar("R")


def vertex_job(
    work_pool: str,
    include_files: Sequence[str] | None = None,
    launcher: BundleLauncher | None = None,
    *,
    include_files_base_dir: Path | str | None = None,
    **job_variables: Any,
) -> Callable[[Flow[P, R]], VertexFlow[P, R]]:
    """Bind a flow to a work pool: submitting it, or calling it, runs it as a CustomJob.

    Nothing is sent and no file is read until then. The pool must have storage for bundles
    (`prefect work-pool storage configure gcs`), and a worker of it watches the job.

    Args:
        work_pool: The work pool's name.
        include_files: Files to bring beside the code, as patterns like .gitignore's, relative to
            the flow's file; they are in the flow's working directory. Each has to match.
        launcher: What stands in the place of `uv run …` before `-m <step>`: a list, such as
            ["python"], or a mapping with "upload" (this machine) and "execution" (the container).
        include_files_base_dir: Where the patterns begin instead; relative to this process's
            working directory.
        **job_variables: As in a deployment.

    Raises:
        BundleError: A pattern that could match nothing below the base directory.
        PlanError: Several replicas or a command, which an ad-hoc run cannot have.
        SetupError: What is decorated is no flow, or the work pool is not named.
        ValueError: The launcher is neither.
    """
    if not isinstance(work_pool, str):
        raise SetupError(
            f"vertex_job was given {getattr(work_pool, '__name__', work_pool)!r} in place of a "
            "work pool's name.",
            hint='Call it above @flow: `@vertex_job("<work pool>")`.',
        )
    check_job_variables(job_variables)
    patterns = None if include_files is None else check_patterns(include_files)

    def bind(flow: Flow[P, R]) -> VertexFlow[P, R]:
        if not isinstance(flow, Flow):
            raise SetupError(
                f"vertex_job decorates {getattr(flow, '__name__', flow)!r}, which is no flow.",
                hint="Write it above @flow.",
            )
        return VertexFlow.of(
            bind_flow_to_infrastructure(
                flow,
                work_pool=work_pool,
                worker_cls=VertexWorker,
                job_variables=job_variables,
                launcher=launcher,
                include_files=patterns,
                include_files_base_dir=include_files_base_dir,
            )
        )

    return bind
