"""PlaceVariables: the job variables that say where a job runs, on which machines, in which order.

The rest of the form is in `variables`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from prefect_vertex.planning.hardware import DEFAULT_CPU_MACHINE, DEFAULT_GPU_TYPE, GPU_TYPES
from prefect_vertex.planning.machines import SOURCE


class PlaceVariables(BaseModel):
    """Regions, machines, strategies, and how long to look for them."""

    region: str | None = Field(
        default=None,
        title="Region",
        description="The region that the job runs in. Needed, here or in the deployment.",
        examples=["us-central1"],
    )
    regions: list[str] = Field(
        default=[],
        title="Further Regions",
        description=(
            "Where the job is tried after the region, in order. {region} in a text, such as an "
            "image or a bucket, is replaced by the region that is tried; not in env, labels, "
            "command and setup_command. Empty: nowhere else."
        ),
        examples=[["us-east1", "us-west1"]],
    )
    hardware: Literal["cpu", "gpu"] | None = Field(
        default=None,
        title="Hardware",
        description=(
            "A short way to choose machine type and accelerator, where those are empty: cpu is "
            f"{DEFAULT_CPU_MACHINE}, gpu is the usual machine of the GPU type. Empty: machine type "
            "and accelerator are taken as they are set."
        ),
    )
    gpu_type: str | None = Field(
        default=None,
        title="GPU Type",
        description=(
            f"The GPU of every replica: {', '.join(GPU_TYPES)}. Each machine has one, unless "
            "Accelerator Count asks for more or the machine comes with a fixed number. Empty: "
            f"{DEFAULT_GPU_TYPE} where Hardware is gpu, else none."
        ),
        examples=["T4", "L4"],
    )
    machine_type: str | None = Field(
        default=None,
        title="Machine Type",
        description=(
            "The machine of every replica, whatever Hardware says. Empty: the machine that "
            "Hardware and GPU Type lead to, or n1-standard-4 where those are empty too. See "
            f"{SOURCE}"
        ),
        examples=["n1-standard-16", "g2-standard-12"],
    )
    accelerator_type: str | None = Field(
        default=None,
        title="Accelerator Type",
        description=(
            "The GPU of every replica by its full name, together with Accelerator Count. It is "
            f"used instead of GPU Type where both are set. Empty: none, or GPU Type's. See {SOURCE}"
        ),
        examples=["NVIDIA_TESLA_T4", "NVIDIA_L4"],
    )
    accelerator_count: int | None = Field(
        default=None,
        title="Accelerator Count",
        description=(
            "How many GPUs each machine has. Needed with Accelerator Type, unless Hardware or GPU "
            "Type is set too. Empty: one, or as many as the machine comes with, where a GPU is "
            "asked for; else none."
        ),
        examples=[1],
    )
    validate_hardware: Literal["error", "warn"] | None = Field(
        default="error",
        title="Validate Hardware",
        description=(
            "What follows when machine, GPU, strategy or network are known not to go together. "
            "error: the run ends before a job is created. warn: a warning in the run's log, and "
            "the job is created all the same."
        ),
    )
    strategy: str | list[str] | None = Field(
        default=None,
        title="Scheduling Strategy",
        description=(
            "STANDARD, SPOT (cheaper, may be preempted) or FLEX_START (waits for scarce GPUs); the "
            "same as strategy in Scheduling Options. Of a list the first one is tried in all "
            "regions, then the second in all regions, and so on. Empty: STANDARD."
        ),
        examples=["SPOT", ["SPOT", "STANDARD"]],
    )
    candidates: list[dict[str, Any]] = Field(
        default=[],
        title="Candidates",
        description=(
            "A list of what to try, in this order, instead of Further Regions and a list of "
            "strategies. Each entry sets any job variables except capacity for its try; null "
            "unsets one. Empty: Region, then Further Regions, with Scheduling Strategy."
        ),
        examples=[[{"region": "us-east1", "strategy": "SPOT"}, {"region": "us-east4"}]],
    )
    capacity: dict[str, Any] | None = Field(
        default=None,
        title="Capacity",
        description=(
            "Limits of the search for machines. It ends after max_attempts (6) creates, refused "
            "ones included, after max_wall_seconds (3600), or after max_passes (0) over all "
            "candidates; 0 is no limit. Between passes it waits backoff_seconds (60), doubled each "
            "time up to backoff_max_seconds (600). After a preemption or a reschedule the run is "
            "started again max_restarts (6) times; 0 is never. Empty: these numbers."
        ),
        examples=[{"max_attempts": 12, "max_wall_seconds": 7200}],
    )
    preflight_quota: bool = Field(
        default=False,
        title="Preflight Quota",
        description=(
            "Whether the project's quotas are read before the job is created: a candidate that "
            "cannot fit is skipped, and replicas that the accelerator quota cannot hold are left "
            "out, though never the last. Quotas are limits, not what is free. Needs the quota "
            "extra and roles/cloudquotas.viewer; what cannot be read changes nothing."
        ),
    )
