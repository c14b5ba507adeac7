"""JobVariables: the job variables that go into the CustomJob as they are, for those who need them.

They stand last in the form. The ones that most runs set are in `variables`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

_SPEC_URL = "https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec"


class JobVariables(BaseModel):
    """Fields of the CustomJob, and the two ways to any part of it."""

    restart_job_on_worker_restart: bool | None = Field(
        default=None,
        title="Restart Job on Worker Restart",
        description=(
            "Whether Vertex AI starts the whole job again when it has restarted one replica. True "
            "only goes with Disable Retries set to false. Empty: no."
        ),
    )
    max_wait_duration: str | float | None = Field(
        default=None,
        title="Maximum Wait Duration",
        description=(
            "How long a FLEX_START job waits for its machines: seconds, such as 1800s, or ISO "
            "8601; 0 is without limit. Only with FLEX_START; of a list of strategies the others do "
            "without it. Empty: one day."
        ),
        examples=["1800s"],
    )
    psc_interface_config: dict[str, Any] | None = Field(
        default=None,
        title="Private Service Connect Interface",
        description=(
            "PscInterfaceConfig: network_attachment, which is regional, and dns_peering_configs "
            "(domain, target_project, target_network). Not together with Network. Empty: none."
        ),
        examples=[
            {
                "network_attachment": (
                    "projects/my-project-123/regions/us-central1/networkAttachments/vertex"
                ),
            },
        ],
    )
    persistent_resource_id: str | None = Field(
        default=None,
        title="Persistent Resource",
        description=(
            "Id of a PersistentResource in the same project and region, on whose machines the job "
            "runs; machine and disk have to be those of one of its pools. Empty: machines of its "
            "own."
        ),
        examples=["my-resource"],
    )
    reservation_affinity: dict[str, Any] | None = Field(
        default=None,
        title="Reservation Affinity",
        description=(
            "ReservationAffinity of every machine: reservation_affinity_type, and for "
            "SPECIFIC_RESERVATION also key and values. Empty: Vertex AI's own choice."
        ),
        examples=[{"reservation_affinity_type": "ANY_RESERVATION"}],
    )
    encryption_spec_key: str | None = Field(
        default=None,
        title="Encryption Key",
        description=(
            "Cloud KMS key, in the job's region, that protects what the job stores. Empty: "
            "Google's own keys."
        ),
        examples=["projects/my-project-123/locations/us-central1/keyRings/r/cryptoKeys/k"],
    )
    tensorboard: str | None = Field(
        default=None,
        title="TensorBoard",
        description=(
            "Vertex AI TensorBoard, in the job's region, that logs go to; it needs a service "
            "account and a base output directory. Empty: none."
        ),
        examples=["projects/my-project-123/locations/us-central1/tensorboards/1234567890"],
    )
    experiment: str | None = Field(
        default=None,
        title="Experiment",
        description=(
            "Vertex AI experiment, by the full name of its context, that the job belongs to. "
            "Empty: none."
        ),
        examples=[
            (
                "projects/my-project-123/locations/us-central1/metadataStores/default/contexts/"
                "forecasts"
            ),
        ],
    )
    worker_pools: list[dict[str, Any] | None] | None = Field(
        default=[],
        title="Worker Pools",
        description=(
            "WorkerPoolSpecs in snake_case, by position: each entry is merged over the template's "
            "pool of that place (first the primary replica, second its workers, third parameter or "
            "reduction servers, fourth evaluators). An empty entry changes nothing and keeps an "
            "unused pool's place."
        ),
        examples=[[{}, {"machine_spec": {"machine_type": "n1-highmem-8"}}]],
    )
    job_spec_patch: list[dict[str, Any]] | None = Field(
        default=[],
        title="Job Patch",
        description=(
            "JSON Patch (RFC 6902) on the whole CustomJob in snake_case, as `prefect-vertex plan` "
            "prints it; applied last but for display name, identity labels and bootstrap. See "
            f"{_SPEC_URL}"
        ),
        examples=[[{"op": "add", "path": "/job_spec/experiment_run", "value": "projects/…"}]],
    )
