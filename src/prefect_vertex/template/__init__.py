"""The base job template, and the configuration that a run's job variables become.

Prefect renders the template; this package judges what comes out and hands it to `planning` as a
`RunSpec`. It imports no Google module.
"""

from __future__ import annotations

from prefect_vertex.planning.credentials import CredentialValues
from prefect_vertex.template.configuration import VertexJobConfiguration
from prefect_vertex.template.pool import base_job_template
from prefect_vertex.template.variables import VertexVariables

__all__ = ["CredentialValues", "VertexJobConfiguration", "VertexVariables", "base_job_template"]
