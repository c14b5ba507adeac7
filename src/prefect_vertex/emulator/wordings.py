"""What the service says, word for word where that is known.

The first part is documented or was seen in public reports.  Names that end in `_INFERRED` (and
functions that say so) are our guess at a sentence that nobody has published: no test and no client
may rely on them.  Sources are listed in README.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.rpc import error_details_pb2

SERVICE_NAME: Final = "aiplatform.googleapis.com"

# --- refusals: documented or observed -------------------------------------------------------------

ACCELERATOR_PAIR: Final = (
    "Both `accelerator_type` and `accelerator_count` should be specified or none."
)
LABELS: Final = (
    "There can be no more than 64 labels attached to a single resource. Label keys and values can "
    "only contain lowercase letters, numbers, dashes and underscores. Label keys must start with a "
    "letter or number, must be less than 64 characters in length, and must be less than 128 bytes "
    "in length when encoded in UTF-8."
)
PERSISTENT_RESOURCE_ID: Final = (
    "persistent_resource_id can only contain numbers, lower case letters and hyphens. The first "
    "character must be a letter, and the last character must be a letter or number."
)


def found_errors(errors: Sequence[tuple[str, str]]) -> str:
    """The aggregated list of field errors, tabs and trailing space included."""
    rows = (
        f"{position}.Field: {path}; Message: {message}\t "
        for position, (path, message) in enumerate(errors, start=1)
    )
    return "List of found errors:\t" + "".join(rows)


def accelerator_not_supported(accelerator: str, machine_type: str) -> str:
    """This machine never takes this accelerator."""
    return f'Accelerator "{accelerator}" is not supported for machine type "{machine_type}"'


def accelerator_count_not_allowed(
    accelerator: str, machine_type: str, count: int, allowed: Sequence[int]
) -> str:
    """This machine takes this accelerator in other numbers (seen for endpoints)."""
    numbers = ", ".join(str(number) for number in allowed)
    return (
        f'The accelerator count "{count}" is not allowed. The allowed numbers of accelerator '
        f'"{accelerator}" to use with machine type "{machine_type}" are: [{numbers}].'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateQuota:
    """How Google names one quota of calls a minute."""

    metric: str
    limit: str
    metric_id: str
    limit_id: str
    service: str = SERVICE_NAME


LOG_READ_QUOTA: Final = RateQuota(
    metric="Read requests",
    limit="Read requests per minute",
    metric_id="logging.googleapis.com/read_requests",
    limit_id="ReadRequestsPerMinutePerProject",
    service="logging.googleapis.com",
)
"""Seen whole, details included, in public reports."""


def rate_exceeded(quota: RateQuota, project_number: str) -> str:
    """Too many calls a minute: seen for Cloud Logging; the names of Vertex AI's quotas are ours."""
    return (
        f"Quota exceeded for quota metric '{quota.metric}' and limit '{quota.limit}' of service "
        f"'{quota.service}' for consumer 'project_number:{project_number}'."
    )


def quota_help() -> Any:
    """The link that comes with it."""
    link = error_details_pb2.Help.Link(
        description="Request a higher quota limit.",
        url="https://cloud.google.com/docs/quotas/help/request_increase",
    )
    return error_details_pb2.Help(links=[link])


def cannot_cancel(name: str, state: str) -> str:
    """Cancel of a job that has ended (seen for the sibling TrainingPipeline)."""
    return f'The CustomJob "{name}" is in state {state} and cannot be canceled.'


def quota_exceeded(metrics: Iterable[str]) -> str:
    """The job asks for more than the project may have (observed)."""
    names = ",".join(f"{SERVICE_NAME}/{metric}" for metric in metrics)
    return f"The following quota metrics exceed quota limits: {names}"


# --- how a job ended: documented or observed ------------------------------------------------------


def logs_url(project_number: str, job_id: str) -> str:
    """The address that job errors send their reader to."""
    return (
        f"https://console.cloud.google.com/logs/viewer?project={project_number}"
        f"&resource=ml_job%2Fjob_id%2F{job_id}"
        "&advancedFilter=resource.type%3D%22ml_job%22%0A"
        f"resource.labels.job_id%3D%22{job_id}%22"
    )


def replica_exited(replica: str, status: int, tail: str, url: str) -> str:
    """A container ended with a non-zero status."""
    return (
        f"The replica {replica} exited with a non-zero status of {status}. "
        f"Termination reason: Error. \n{tail}\n\n{_see_logs(url)}"
    )


def replica_not_started(replica: str, status: int, cause: str, url: str) -> str:
    """A container could not be started at all."""
    return (
        f"The replica {replica} exited with a non-zero status of {status}. "
        "Termination reason: StartError. \n Termination log message: "
        f"failed to create containerd task: {cause}\n\n{_see_logs(url)}"
    )


def out_of_memory(replica: str) -> str:
    """A container used more memory than its machine has."""
    return f"The replica {replica} ran out of memory and exited with a non-zero status of 137."


def stockout(location: str) -> str:
    """There are no such machines in the location now; also what a Spot preemption is called."""
    return (
        f"Resources are insufficient in region: {location}. "
        "Try a different region or use a different accelerator."
    )


INTERNAL: Final = "Internal error occurred for the current attempt"


def _see_logs(url: str) -> str:
    return f"To find out more about why your job exited please check the logs: {url}"


# --- inferred: never pinned -----------------------------------------------------------------------

ENV_NAMES_UNIQUE_INFERRED: Final = "EnvVar names must be unique."
ENV_NAME_INFERRED: Final = "EnvVar name must be a valid C identifier."
ENV_COUNT_INFERRED: Final = "The number of environment variables must be at most 100."
STRING_TOO_LONG_INFERRED: Final = (
    "A single argument or NAME=value string must be at most 131071 bytes; the container could not "
    "be started."
)
NUL_BYTE_INFERRED: Final = "A NUL character is not allowed."
REQUIRED_INFERRED: Final = "Required field is not set."
DISPLAY_NAME_LENGTH_INFERRED: Final = "The display name must be at most 128 characters."
PRIMARY_REPLICA_COUNT_INFERRED: Final = "The replica count of the first worker pool must be 1."
REPLICA_COUNT_INFERRED: Final = "The replica count must be at least 1."
TASK_INFERRED: Final = "Exactly one of container_spec and python_package_spec must be set."
CANCELLED_INFERRED: Final = "CANCELED"


SUBMISSION_QUOTA_INFERRED: Final = RateQuota(
    metric="Job or LRO submission requests",
    limit="Job or LRO submission requests per minute per region",
    metric_id=f"{SERVICE_NAME}/job_submission_requests",
    limit_id="JobSubmissionRequestsPerMinutePerProjectPerRegion",
)
CALL_QUOTA_INFERRED: Final = RateQuota(
    metric="Resource management (CRUD) requests",
    limit="Resource management (CRUD) requests per minute per region",
    metric_id=f"{SERVICE_NAME}/resource_management_requests",
    limit_id="ResourceManagementRequestsPerMinutePerProjectPerRegion",
)


def machine_type_not_supported_inferred(machine_type: str) -> str:
    """No such machine type for training."""
    return f'Machine type "{machine_type}" is not supported.'


def job_not_found_inferred(name: str) -> str:
    """Get, cancel or delete of a job that is not there."""
    return f'The CustomJob "{name}" does not exist.'


def cannot_delete_inferred(name: str, state: str) -> str:
    """Delete of a job that has not ended."""
    return f'The CustomJob "{name}" is in state {state} and cannot be deleted.'


def timed_out_inferred(seconds: float) -> str:
    """The job outlived its `scheduling.timeout`, where that is a failure."""
    return f"The job reached its maximum run time of {seconds:g}s."
