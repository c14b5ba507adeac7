"""VertexVariables: the job variables, as the form of a work pool shows them.

Names and meaning are prefect-gcp's where it has them. A description is user documentation: what it
does, its unit, what applies when it is empty.
"""

from __future__ import annotations

from typing import Any

from prefect.workers.base import BaseVariables
from pydantic import Field

from prefect_vertex.template.job_variables import JobVariables
from prefect_vertex.template.place_variables import PlaceVariables
from prefect_vertex.template.replica_variables import ReplicaVariables

_CREDENTIALS_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"$ref": "#/definitions/GcpCredentials"},
        # Of a deployment made by API, which has no picker; the worker resolves it.
        {
            "title": "Reference",
            "type": "string",
            "pattern": r"^\s*\{\{\s*prefect\.blocks\.[^{}]+\}\}\s*$",
        },
        {"type": "null"},
    ],
    "default": None,
    "title": "GCP Credentials",
    "description": (
        "The GCP Credentials block that jobs are created, watched and cancelled with. Choose it "
        "here, or set {{ prefect.blocks.gcp-credentials.NAME }} by API or flow.deploy. Never in "
        "prefect.yaml or with `prefect deploy`: that resolves it, and stores the whole key in the "
        "deployment for everybody to read; there, {{ prefect.variables.NAME }} of a Prefect "
        "variable that holds the reference is stored as the reference. Empty: the worker's own "
        "(Application Default Credentials)."
    ),
}
_CREDENTIALS_DEFINITION: dict[str, Any] = {
    "title": "GcpCredentials",
    "description": "A GCP Credentials block of prefect-gcp.",
    "type": "object",
    "properties": {
        "service_account_file": {"title": "Service Account File", "type": "string"},
        "service_account_info": {"title": "Service Account Info", "type": "object"},
        "project": {"title": "Project", "type": "string"},
    },
    # The server takes either these values or a reference, and not what could be both.
    "propertyNames": {"pattern": "^[^$]"},
    "block_type_slug": "gcp-credentials",
    "secret_fields": ["service_account_info.*"],
    "block_schema_references": {},
}


class VertexVariables(JobVariables, ReplicaVariables, PlaceVariables, BaseVariables):
    """Job variables of a work pool whose flow runs become Vertex AI CustomJobs."""

    project: str | None = Field(
        default=None,
        title="Project",
        description=(
            "The id of the Google Cloud project that the job runs in. Empty: the project of the "
            "credentials."
        ),
        examples=["my-project-123"],
    )
    image: str | None = Field(
        default=None,
        title="Image",
        description=(
            "The container image that runs the flow; Prefect has to be in it, and Vertex AI's "
            "service agent has to be allowed to pull it. Needed, here or in the deployment."
        ),
        examples=["us-central1-docker.pkg.dev/my-project-123/flows/forecast:latest"],
    )
    credentials: Any = Field(default=None, title="GCP Credentials")
    service_account_name: str | None = Field(
        default=None,
        title="Service Account",
        description=(
            "E-mail address of the service account that the code runs as; the credentials need "
            "permission to act as it. Empty: the account that the credentials name, else Vertex "
            "AI's own agent."
        ),
        examples=["forecasting@my-project-123.iam.gserviceaccount.com"],
    )
    boot_disk_type: str | None = Field(
        default=None,
        title="Boot Disk Type",
        description="pd-ssd, pd-standard or hyperdisk-balanced. Empty: Vertex AI's own choice.",
        examples=["pd-ssd"],
    )
    boot_disk_size_gb: int = Field(
        default=100,
        title="Boot Disk Size (GB)",
        description="Size of each replica's boot disk, in GB, from 100 to 64,000.",
    )
    maximum_run_time_hours: float = Field(
        default=24,
        gt=0,
        title="Maximum Run Time (Hours)",
        description=(
            "Vertex AI ends the job this many hours after its start; 0.5 is half an hour. A "
            "timeout in Scheduling Options is used instead where it is set."
        ),
    )
    disable_retries: bool = Field(
        default=True,
        title="Disable Retries",
        description=(
            "Whether Vertex AI is told not to run a started job again after internal errors. It "
            "may still retry provisioning."
        ),
    )
    scheduling: dict[str, Any] | None = Field(
        default=None,
        title="Scheduling Options",
        description=(
            "Scheduling of the CustomJob: timeout, strategy, max_wait_duration (with FLEX_START), "
            "disable_retries, restart_job_on_worker_restart. Durations are seconds, such as "
            "1800s, or ISO 8601. What is set here is used instead of the variables of the same "
            "meaning."
        ),
        examples=[{"strategy": "FLEX_START", "max_wait_duration": "1800s"}],
    )
    network: str | None = Field(
        default=None,
        title="Network",
        description=(
            "Full name of the Compute Engine network to peer the job with. Empty: none, and the "
            "job reaches the internet only."
        ),
        examples=["projects/12345/global/networks/my-network"],
    )
    reserved_ip_ranges: list[str] | None = Field(
        default=None,
        title="Reserved IP Ranges",
        description="Names of the network's IP ranges that the job may use. Empty: any.",
    )
    enable_web_access: bool = Field(
        default=False,
        title="Enable Web Access",
        description="Whether Vertex AI opens an interactive shell into running replicas.",
    )
    enable_dashboard_access: bool = Field(
        default=False,
        title="Enable Dashboard Access",
        description="Whether the dashboard of the primary replica can be reached.",
    )
    base_output_directory: str | None = Field(
        default=None,
        title="Base Output Directory",
        description=(
            "Cloud Storage folder that Vertex AI names in AIP_MODEL_DIR, AIP_CHECKPOINT_DIR and "
            "AIP_TENSORBOARD_LOG_DIR; checkpoints are kept below it. Empty: none."
        ),
        examples=["gs://my-bucket/forecasts"],
    )
    staging_bucket: str | None = Field(
        default=None,
        title="Staging Bucket",
        description=(
            "Bucket, or folder in one, for files that belong to runs: checkpoints, unless there is "
            "a base output directory; what several replicas tell each other, which barriers and "
            "gathered values need; and a record of each launch. Empty: none of these."
        ),
        examples=["gs://my-bucket/prefect"],
    )
    code_uri: str | None = Field(
        default=None,
        title="Code Archive",
        description=(
            "Cloud Storage address of a staged code archive, which `prefect-vertex stage-code` "
            "prints. Empty: the image or the pull steps bring the code."
        ),
    )
    code_sha256: str | None = Field(
        default=None,
        title="Code Archive SHA-256",
        description=(
            "The SHA-256 of the code archive, in hex, which `prefect-vertex stage-code` prints "
            "too. Both are set, or neither."
        ),
    )
    python_command: list[str] = Field(
        default=["python3"],
        title="Python Command",
        description="The interpreter in the image that starts each replica (Python 3.9 or newer).",
    )
    setup_command: list[str] | None = Field(
        default=None,
        title="Setup Command",
        description=(
            "Lines of one shell script that runs in the container before the flow, which inherits "
            "its environment; a failing line fails the replica. Empty: none."
        ),
        examples=[["source /opt/tools/activate.sh"]],
    )
    prefect_api_key_secret: str | None = Field(
        default=None,
        title="Prefect API Key Secret",
        description=(
            "The Secret Manager version that holds the Prefect API key, or the auth string where "
            "the worker uses one; without /versions/V the latest. The container reads it as the "
            "service account, which must be set and needs roles/secretmanager.secretAccessor "
            "there. No secret of Prefect's is then in the job. Empty: the job carries the worker's "
            "own."
        ),
        examples=["projects/my-project-123/secrets/prefect-api-key/versions/1"],
    )
    provisioning_timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        title="Provisioning Timeout (Seconds)",
        description=(
            "How long a job may wait for its machines, and its replicas for each other. Empty: as "
            "long as it takes."
        ),
    )
    start_grace_seconds: float = Field(
        default=900,
        gt=0,
        title="Start Grace (Seconds)",
        description=(
            "How long a job may run before its flow run has started; then it is cancelled and the "
            "flow run has crashed."
        ),
    )
    stall_timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        title="Stall Timeout (Seconds)",
        description=(
            "How long a running flow may give no sign of life: a log line, a heartbeat of "
            "Prefect's, or a change of state, of its own, of a task run or in a subflow. Then its "
            "job is cancelled and the flow run has crashed. Empty: as long as it takes."
        ),
    )
    cancel_grace_seconds: float = Field(
        default=60,
        ge=0,
        title="Cancel Grace (Seconds)",
        description=(
            "How long a started flow run may take to cancel itself before its job is cancelled; "
            "also how long a job outlives a flow run that has ended."
        ),
    )
    stream_output: bool = Field(
        default=True,
        title="Stream Output",
        description=(
            "Whether the replicas' log lines and Vertex AI's own messages are brought from Cloud "
            "Logging into the flow run's log until the flow has started, and again when the run "
            "crashes. Needs roles/logging.viewer; without it only these lines are missing."
        ),
    )
    job_watch_poll_interval: float | None = Field(
        default=None,
        gt=0,
        title="Poll Interval (Seconds)",
        description=(
            "Seconds between two looks of the worker at the pool's jobs while this run lives, "
            "where that is less than the worker's own setting. Empty: the worker's own."
        ),
    )

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The `variables` section of the template: with it the server refuses unknown names.

        A new copy each time.
        """
        schema = super().model_json_schema(*args, **kwargs)
        schema["properties"]["credentials"] = {**_CREDENTIALS_SCHEMA}
        for name in JobVariables.model_fields:  # last in the form
            schema["properties"][name] = schema["properties"].pop(name)
        mappings = [
            name
            for name, each in schema["properties"].items()
            if any(kind.get("type") == "object" for kind in each.get("anyOf", [each]))
        ]
        return {
            **schema,
            "definitions": {
                **schema.get("definitions", {}),
                "GcpCredentials": {**_CREDENTIALS_DEFINITION},
            },
            "additionalProperties": False,
            # `env.NAME` and the like: the command line's way into a variable that is a mapping.
            "patternProperties": {rf"^({'|'.join(mappings)})\.": {}},
        }
