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
            "How many replicas the job has, each on a machine of its own, all with the same "
            "machine type and container. One of them is in Vertex AI's first worker pool, the "
            "others are in its second."
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
            "Whether replicas wait for each other before the first of them begins, for as long as "
            "Provisioning Timeout allows. A job that got only a part of its machines can then be "
            "given up without having run anything. False: each begins at once."
        ),
    )
