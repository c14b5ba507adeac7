"""A Prefect worker for Vertex AI CustomJobs.

Importing it registers the worker type `vertex-custom-job`, and loads no Google module.
"""

from __future__ import annotations

from prefect_vertex._version import __version__
from prefect_vertex.worker import VertexWorker

__all__ = ["VertexWorker", "__version__"]
