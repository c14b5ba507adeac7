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
            "cpu or gpu: chooses machine type and accelerator, where they are empty: for cpu "
            f"{DEFAULT_CPU_MACHINE}, for gpu the usual machine of the GPU type. Empty: what these "
            "say themselves."
        ),
    )
    gpu_type: str | None = Field(
        default=None,
        title="GPU Type",
        description=(
            f"{', '.join(GPU_TYPES)}: the GPU of every replica; a count is one, unless the machine "
            f"has a fixed number. Empty with gpu: {DEFAULT_GPU_TYPE}."
        ),
        examples=["T4", "L4"],
    )
    machine_type: str | None = Field(
        default=None,
        title="Machine Type",
        description=(
            "Machine of every replica; it wins over hardware. Empty: what hardware and GPU type "
            f"ask for, else n1-standard-4. See {SOURCE}"
        ),
        examples=["n1-standard-16", "g2-standard-12"],
    )
    accelerator_type: str | None = Field(
        default=None,
        title="Accelerator Type",
        description=(
            "GPU of every replica by its full name, with a count; it wins over the GPU type. "
            f"Empty: none. See {SOURCE}"
        ),
        examples=["NVIDIA_TESLA_T4", "NVIDIA_L4"],
    )
    accelerator_count: int | None = Field(
        default=None,
        title="Accelerator Count",
        description="GPUs on each machine, with a type. Empty: none, or what the type comes with.",
        examples=[1],
    )
    validate_hardware: Literal["error", "warn"] | None = Field(
        default="error",
        title="Validate Hardware",
        description=(
            "What hardware gets that is known not to go together, with itself, the strategy or the "
            "network: an error before the job is created, or a warning and the job."
        ),
    )
    strategy: str | list[str] | None = Field(
        default=None,
        title="Scheduling Strategy",
        description=(
            "STANDARD, SPOT (cheaper, may be preempted) or FLEX_START (waits for scarce GPUs), in "
            "any case; short for strategy in Scheduling Options. A list is tried in its order, "
            "each in all regions. Empty: STANDARD."
        ),
        examples=["SPOT", ["SPOT", "STANDARD"]],
    )
    candidates: list[dict[str, Any]] = Field(
        default=[],
        title="Candidates",
        description=(
            "What is tried, in order, instead of regions and a list of strategies: each entry "
            "overrides any job variable but capacity; a null in it unsets one. Empty: what region, "
            "regions and strategy say."
        ),
        examples=[[{"region": "us-east1", "strategy": "SPOT"}, {"region": "us-east4"}]],
    )
    capacity: dict[str, Any] | None = Field(
        default=None,
        title="Capacity",
        description=(
            "How long the run looks for machines: max_attempts (6), refused creates too, "
            "max_wall_seconds (3600) and max_passes over all candidates (0), each 0 for no limit; "
            "backoff_seconds (60) between passes, doubled up to backoff_max_seconds (600); "
            "max_restarts (6), new attempts after a preemption or a reschedule, 0 for none. Empty: "
            "these."
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
