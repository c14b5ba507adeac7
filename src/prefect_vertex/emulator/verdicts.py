"""How a job ends, decided before its replicas are down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.cloud.aiplatform_v1.types import JobState
from google.rpc import code_pb2

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.names import JobName
from prefect_vertex.emulator.output import error_tail
from prefect_vertex.emulator.replica import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An end.

    Attributes:
        state: The JobState in which the job ends.
        code: The error's; unused for a success.
        message: The error's.
        is_retried: It is not the job that ends but this attempt, and another follows.
        grace_seconds: What the replicas get between SIGTERM and SIGKILL; None: the usual.
    """

    state: int
    code: int = code_pb2.OK
    message: str = ""
    is_retried: bool = False
    grace_seconds: float | None = None


SUCCEEDED: Final = Verdict(state=JobState.JOB_STATE_SUCCEEDED)
CANCELLED: Final = Verdict(
    state=JobState.JOB_STATE_CANCELLED,
    code=code_pb2.CANCELLED,
    message=wordings.CANCELLED_INFERRED,
)


def failed(
    code: int, message: str, *, is_retried: bool = False, grace_seconds: float | None = None
) -> Verdict:
    """FAILED with that error."""
    return Verdict(
        state=JobState.JOB_STATE_FAILED,
        code=code,
        message=message,
        is_retried=is_retried,
        grace_seconds=grace_seconds,
    )


def replica_failed(replica: Replica, job: JobName) -> Verdict:
    """A replica has ended with a status that is not zero, or could not be started."""
    end = replica.ended.result()
    url = wordings.logs_url(job.place.project_number, job.job_id)
    if end.start_error:
        message = wordings.replica_not_started(replica.name, end.status, end.start_error, url)
    else:
        message = wordings.replica_exited(
            replica.name, end.status, error_tail(replica.errors()), url
        )
    return failed(code_pb2.INVALID_ARGUMENT, message)
