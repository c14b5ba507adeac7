"""A Prefect worker for Vertex AI CustomJobs.

Prefect finds the worker type `vertex-custom-job` through the package's entry point. Importing the
package itself loads neither Prefect nor Google, so that its commands start at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect_vertex._version import __version__

if TYPE_CHECKING:
    from prefect_vertex.adhoc.decorator import vertex_job
    from prefect_vertex.worker import VertexWorker

__all__ = ["VertexWorker", "__version__", "vertex_job"]


def __getattr__(name: str) -> Any:
    """Load the worker, or the decorator, when it is asked for."""
    if name == "vertex_job":
        from prefect_vertex.adhoc.decorator import vertex_job

        return vertex_job
    if name == "VertexWorker":
        from prefect_vertex.worker import VertexWorker

        return VertexWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
