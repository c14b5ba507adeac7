"""Foreign words to ours, once: statuses and Google's errors to `errors.py`, protos to snapshots.

Nothing is decided by the words of a message, with one exception: a message that gRPC itself found
too large arrives as RESOURCE_EXHAUSTED without any details, and is no quota.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
from google.api_core import exceptions as api_errors
from google.auth import exceptions as auth_errors
from google.cloud.aiplatform_v1 import types
from google.rpc import error_details_pb2

from prefect_vertex.errors import (
    AccessDeniedError,
    JobNotFoundError,
    NamingError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
    ServiceVerdict,
)
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import phase_of
from prefect_vertex.planning.addresses import without_user
from prefect_vertex.planning.naming import parse_resource_name
from prefect_vertex.planning.spelling import storable
from prefect_vertex.vertex.machines import with_machines

ERROR_OF: dict[str, type[ServiceError]] = {
    # An error that says OK contradicts itself; it is at least not silent.
    "OK": ServiceError,
    "CANCELLED": ServiceUnavailableError,
    "UNKNOWN": ServiceUnavailableError,
    "INVALID_ARGUMENT": RequestRejectedError,
    "DEADLINE_EXCEEDED": ServiceUnavailableError,
    "NOT_FOUND": JobNotFoundError,
    "ALREADY_EXISTS": RequestRejectedError,
    "PERMISSION_DENIED": AccessDeniedError,
    "UNAUTHENTICATED": AccessDeniedError,
    "RESOURCE_EXHAUSTED": QuotaExceededError,
    "FAILED_PRECONDITION": RequestRejectedError,
    "ABORTED": ServiceUnavailableError,
    "OUT_OF_RANGE": RequestRejectedError,
    # Also what a host that is no Vertex AI endpoint answers (an HTML page with HTTP status 404).
    "UNIMPLEMENTED": RequestRejectedError,
    "INTERNAL": ServiceUnavailableError,
    "UNAVAILABLE": ServiceUnavailableError,
    "DATA_LOSS": ServiceError,
}
"""Every gRPC status (google.golang.org/grpc/codes, 17 of them)."""

RATE_LIMIT_REASON = "RATE_LIMIT_EXCEEDED"
"""`google.api.ErrorReason`: too many requests, as opposed to too many machines."""

_ASK_THE_ADDRESS = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED"})
_TOO_LARGE = re.compile(r"message larger than max", re.IGNORECASE)
_MAX_TEXT_LENGTH = 1000
_MAX_WORDS_LENGTH = 2000
"""Characters that the ledger of a walk keeps of an answer."""

_HINTS = {
    "SERVICE_DISABLED": "Enable aiplatform.googleapis.com in the project.",
    "PERMISSION_DENIED": (
        "The worker's account needs roles/aiplatform.user on the project and"
        " roles/iam.serviceAccountUser on the job's service account."
    ),
    "UNAUTHENTICATED": (
        "Renew the worker's credentials: the pool's `credentials` block, or"
        " GOOGLE_APPLICATION_CREDENTIALS."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who is being asked, for messages.

    Attributes:
        address: host:port.
        check: What a user should look at when it does not answer.
    """

    address: str = ""
    check: str = ""


def one_line(text: object) -> str:
    """Text of any origin on one line, cut where it would fill a screen."""
    line = " ".join(without_user(storable(str(text))).split())
    if len(line) > _MAX_TEXT_LENGTH:
        return f"{line[: _MAX_TEXT_LENGTH - 1]}…"
    return line


def _sentence(text: str) -> str:
    """Text with a full stop, so that a hint can follow."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def verdict_of(error: api_errors.GoogleAPICallError) -> ServiceVerdict:
    """The service's answer in its own terms: status, ErrorInfo, RetryInfo, words."""
    delays = [
        detail.retry_delay.ToTimedelta().total_seconds()
        for detail in error.details
        if isinstance(detail, error_details_pb2.RetryInfo) and detail.HasField("retry_delay")
    ]
    return ServiceVerdict(
        code=getattr(error.grpc_status_code, "name", ""),
        reason=error.reason or "",
        metadata=dict(error.metadata or {}),
        retry_after_seconds=delays[0] if delays else None,
        words=_words(error)[:_MAX_WORDS_LENGTH],
    )


def error_class(verdict: ServiceVerdict, text: str) -> type[ServiceError]:
    """Our class for a verdict; a status that is none of the 17 is the base class."""
    if verdict.code == "RESOURCE_EXHAUSTED":
        if verdict.reason == RATE_LIMIT_REASON:
            return RateLimitedError
        if not verdict.reason and _TOO_LARGE.search(text):
            return ServiceError
    return ERROR_OF.get(verdict.code, ServiceError)


def _words(error: api_errors.GoogleAPICallError) -> str:
    """The service's own sentence, and the fields at fault where it names them apart from it."""
    violations = [
        f"{violation.field}: {violation.description}"
        for detail in error.details
        if isinstance(detail, error_details_pb2.BadRequest)
        for violation in detail.field_violations
    ]
    return "; ".join([str(error.message or "no reason given"), *violations])


def _subject(attempted: str, resource_name: str) -> str:
    if not resource_name:
        return attempted
    link = " " if "/customJobs/" in resource_name else " in "
    return f"{attempted}{link}{resource_name}"


def from_api_error(
    error: api_errors.GoogleAPICallError, attempted: str, resource_name: str, peer: Peer
) -> ServiceError:
    """Our error for one of Google's."""
    verdict = verdict_of(error)
    words = one_line(_words(error))
    place, hint = "", _HINTS.get(verdict.reason, _HINTS.get(verdict.code, ""))
    if verdict.code in _ASK_THE_ADDRESS:
        place, hint = (f" from {peer.address}" if peer.address else ""), peer.check
    return error_class(verdict, words)(
        f"Could not {_subject(attempted, resource_name)}:"
        f" {verdict.code or 'no status'}{place}: {_sentence(words)}",
        verdict=verdict,
        resource_name=resource_name,
        hint=hint,
    )


def from_auth_error(
    error: auth_errors.GoogleAuthError, attempted: str, resource_name: str
) -> ServiceError:
    """Our error for one of google-auth's: no token, so nothing was sent."""
    transient = isinstance(error, auth_errors.TransportError | auth_errors.TimeoutError)
    # The second argument of a refresh error is the token service's whole answer; not for a message.
    words = one_line(error.args[0] if error.args else type(error).__name__)
    subject = _subject(attempted, resource_name)
    if transient or error.retryable:
        return ServiceUnavailableError(
            f"Could not {subject}: no access token, its issuer did not answer: {_sentence(words)}",
            resource_name=resource_name,
            hint="Check the network between the worker and its token service.",
        )
    return AccessDeniedError(
        f"Could not {subject}: no access token: {_sentence(words)}",
        resource_name=resource_name,
        hint=_HINTS["UNAUTHENTICATED"],
    )


@contextmanager
def translated(
    attempted: str, resource_name: str = "", *, peer: Peer | None = None
) -> Iterator[None]:
    """Raise Google's, google-auth's and gRPC's errors as ours, with the original as the cause.

    Cancellation and everything that is not theirs pass untouched.

    Args:
        attempted: A verb phrase, such as `create CustomJob`.
        resource_name: The job, or the parent of jobs, that the call names.
        peer: Who is asked.
    """
    try:
        yield
    except api_errors.GoogleAPICallError as error:
        raise from_api_error(error, attempted, resource_name, peer or Peer()) from error
    except auth_errors.GoogleAuthError as error:
        raise from_auth_error(error, attempted, resource_name) from error
    except grpc.aio.BaseError as error:
        # A channel that was closed under the call, or gRPC's own accident: there is no answer.
        raise ServiceUnavailableError(
            f"Could not {_subject(attempted, resource_name)}: {_sentence(one_line(error))}",
            resource_name=resource_name,
        ) from error


def _state_name(number: int) -> str:
    """The state's word; a number that the installed client does not know stays a number."""
    try:
        return str(types.JobState(number).name)
    except ValueError:
        return f"JOB_STATE_{number}"


def _moment(message: Any, field: str) -> datetime | None:
    if not message.HasField(field):
        return None
    moment: datetime = getattr(message, field).ToDatetime(tzinfo=UTC)
    return moment


def _job_error(message: Any) -> JobError | None:
    error = message.error
    # Code 0 without a word is an error that has not been set yet.
    if not (error.code or error.message):
        return None
    return JobError(code=error.code, message=storable(error.message))


def snapshot_of(job: types.CustomJob, *, observed_at: datetime, described: bool) -> JobSnapshot:
    """Our copy of a CustomJob.

    Args:
        job: As the service sent it.
        observed_at: When it was asked for, which is never later than what it shows.
        described: Whether it is a whole, strongly consistent answer rather than a list row.

    Raises:
        ServiceError: The answer holds no legible name.
    """
    message = types.CustomJob.pb(job)
    try:
        name = parse_resource_name(message.name)
    except NamingError as illegible:
        raise ServiceError(
            f"Vertex AI answered with a CustomJob whose name cannot be read: {message.name!r}."
        ) from illegible
    state = _state_name(message.state)
    snapshot = JobSnapshot(
        resource_name=name,
        display_name=message.display_name,
        phase=phase_of(state),
        state=state,
        observed_at=observed_at,
        # Always set by the service; were it missing, the job is at most as old as this look.
        create_time=_moment(message, "create_time") or observed_at,
        labels=dict(message.labels),
        start_time=_moment(message, "start_time"),
        end_time=_moment(message, "end_time"),
        error=_job_error(message),
        described=described,
        web_access_uris=dict(message.web_access_uris),
    )
    return with_machines(snapshot, job)
