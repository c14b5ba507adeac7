"""ReplicaVariables: the job variables that say how many replicas a job has, and what they do.

The rest of the form is in `variables`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ReplicaVariables(BaseModel):
    """How many machines share one flow run, and how."""

    worker_count: int = Field(
        default=1,
        ge=1,
        title="Worker Count",
        description=(
            "Replicas in all, on one machine each: the first pool gets one, the second the rest, "
            "with the same machine and container."
        ),
    )
    replicas: Literal["flow", "command"] | None = Field(
        default="flow",
        title="Replicas",
        description=(
            "What several replicas do. flow: each runs the flow, the first as this flow run and "
            "the others as flow runs below it, which share the work by prefect_vertex.replica; "
            "prefect-vertex has to be in the image, and libraries such as NumPy are held to the "
            "threads of one slot, unless env sets OMP_NUM_THREADS and its like. command: each runs "
            "Command as it is, for torchrun, Dask and the like."
        ),
    )
    gang_start: bool = Field(
        default=True,
        title="Gang Start",
        description=(
            "Whether no replica of several begins before all of them are there, for as long as "
            "Provisioning Timeout allows. A job of which only a part got machines can then be "
            "given up without having run anything. False: each begins at once."
        ),
    )
