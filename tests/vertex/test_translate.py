"""Foreign errors and protos to our own words; total over what the libraries can raise."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.api_core import exceptions as api_core_exceptions
from google.auth import exceptions as google_auth_exceptions
from google.cloud.aiplatform_v1 import types
from google.rpc import error_details_pb2

from prefect_vertex.capacity.walk import MAX_MESSAGE_LENGTH
from prefect_vertex.errors import (
    AccessDeniedError,
    JobNotFoundError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
)
from prefect_vertex.lifecycle.snapshot import JobError
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.vertex.translate import ERROR_OF, Peer, one_line, snapshot_of, translated

# Neither library has types.
api_errors: Any = api_core_exceptions
auth_errors: Any = google_auth_exceptions

NAME = "projects/42/locations/us-central1/customJobs/7"
NOW = datetime(2026, 5, 1, tzinfo=UTC)

# Written out, so that a change of the table is a change of this list too.
EXPECTED = {
    "OK": ServiceError,
    "CANCELLED": ServiceUnavailableError,
    "UNKNOWN": ServiceUnavailableError,
    "INVALID_ARGUMENT": RequestRejectedError,
    "DEADLINE_EXCEEDED": ServiceUnavailableError,
    "NOT_FOUND": JobNotFoundError,
    "ALREADY_EXISTS": RequestRejectedError,
    "PERMISSION_DENIED": AccessDeniedError,
    "RESOURCE_EXHAUSTED": QuotaExceededError,
    "FAILED_PRECONDITION": RequestRejectedError,
    "ABORTED": ServiceUnavailableError,
    "OUT_OF_RANGE": RequestRejectedError,
    "UNIMPLEMENTED": RequestRejectedError,
    "INTERNAL": ServiceUnavailableError,
    "UNAVAILABLE": ServiceUnavailableError,
    "DATA_LOSS": ServiceError,
    "UNAUTHENTICATED": AccessDeniedError,
}

API_ERRORS = [
    kind
    for _, kind in inspect.getmembers(api_errors, inspect.isclass)
    if issubclass(kind, api_errors.GoogleAPICallError)
    # Errors of resumable uploads take other arguments, and are raised by those alone.
    and not issubclass(kind, api_errors.ResumableTransferError)
]
AUTH_ERRORS = [
    kind
    for _, kind in inspect.getmembers(auth_errors, inspect.isclass)
    if issubclass(kind, auth_errors.GoogleAuthError)
]


def _translate(
    error: BaseException, attempted: str = "describe CustomJob", name: str = NAME, **peer: str
) -> ServiceError:
    with pytest.raises(ServiceError) as caught, translated(attempted, name, peer=Peer(**peer)):
        raise error
    return caught.value


def test_every_grpc_status_has_its_error() -> None:
    assert {code.name for code in grpc.StatusCode} == set(ERROR_OF)
    assert ERROR_OF == EXPECTED


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_a_status_becomes_its_error_with_the_original_as_cause(code: grpc.StatusCode) -> None:
    original = api_errors.from_grpc_status(code, "words of the service")

    error = _translate(original)

    assert type(error) is EXPECTED[code.name]
    assert error.code == code.name
    assert error.resource_name == NAME
    assert error.__cause__ is original
    assert "words of the service" in str(error)
    assert NAME in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("kind", API_ERRORS)
def test_every_error_class_of_the_client_library_is_translated(kind: Any) -> None:
    assert isinstance(_translate(kind("no")), ServiceError)


@pytest.mark.parametrize("kind", AUTH_ERRORS)
def test_every_error_class_of_google_auth_is_translated(kind: Any) -> None:
    error = _translate(kind("no token"))

    assert isinstance(error, AccessDeniedError | ServiceUnavailableError)


def test_a_refused_token_is_a_matter_of_access() -> None:
    refusal = auth_errors.RefreshError("invalid_grant: bad signature", {"secret": "answer"})

    error = _translate(refusal)

    assert isinstance(error, AccessDeniedError)
    assert "invalid_grant" in str(error)
    assert "answer" not in str(error)


@pytest.mark.parametrize(
    "silence",
    [auth_errors.TransportError("no route"), auth_errors.RefreshError("later", retryable=True)],
)
def test_a_token_service_that_does_not_answer_may_answer_later(
    silence: Exception,
) -> None:
    assert isinstance(_translate(silence), ServiceUnavailableError)


def test_the_service_s_words_are_kept_verbatim_beside_the_message() -> None:
    words = "List of found errors:\t1.Field: a; Message: b\t " + "x" * 1500
    original = api_errors.from_grpc_status(grpc.StatusCode.INVALID_ARGUMENT, words)

    error = _translate(original)

    assert error.verdict.words == words
    assert len(error.message) < 1200


def test_no_more_of_the_service_s_words_is_kept_than_a_ledger_has_room_for() -> None:
    original = api_errors.from_grpc_status(grpc.StatusCode.INVALID_ARGUMENT, "x" * 9000)

    assert _translate(original).verdict.words == "x" * MAX_MESSAGE_LENGTH


def test_a_channel_closed_under_the_call_is_no_answer() -> None:
    error = _translate(grpc.aio.UsageError("Channel is closed."))

    assert isinstance(error, ServiceUnavailableError)


def test_too_many_requests_are_told_from_too_many_machines_by_the_reason() -> None:
    info = error_details_pb2.ErrorInfo(reason="RATE_LIMIT_EXCEEDED", metadata={"quota_limit": "x"})
    exhausted = api_errors.ResourceExhausted("quota", details=[info], error_info=info)

    error = _translate(exhausted)

    assert type(error) is RateLimitedError
    assert error.verdict.reason == "RATE_LIMIT_EXCEEDED"
    assert error.verdict.metadata == {"quota_limit": "x"}


@pytest.mark.parametrize("reason", ["", "RESOURCE_QUOTA_EXCEEDED"])
def test_any_other_exhaustion_is_a_quota_of_machines(reason: str) -> None:
    info = error_details_pb2.ErrorInfo(reason=reason) if reason else None
    exhausted = api_errors.ResourceExhausted(
        "The following quota metrics exceed quota limits: x", error_info=info
    )

    assert type(_translate(exhausted)) is QuotaExceededError


def test_a_message_that_grpc_itself_found_too_large_is_no_quota() -> None:
    exhausted = api_errors.ResourceExhausted("CLIENT: Received message larger than max (5 vs. 4)")

    error = _translate(exhausted)

    assert type(error) is ServiceError
    assert not error.retryable


def test_the_delay_that_the_service_asks_for_is_kept() -> None:
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromMilliseconds(2500)

    error = _translate(api_errors.ServiceUnavailable("later", details=[info]))

    assert error.verdict.retry_after_seconds == 2.5


def test_fields_at_fault_are_named() -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="labels", description="too many")
    details = [error_details_pb2.BadRequest(field_violations=[violation])]

    error = _translate(api_errors.InvalidArgument("Request is invalid.", details=details))

    assert "Request is invalid.; labels: too many" in str(error)


def test_a_hint_follows_a_whole_sentence() -> None:
    error = _translate(api_errors.ServiceUnavailable("refused"), check="Look there.")

    assert str(error).endswith("refused. Look there.")


def test_a_long_answer_is_one_line_that_fits_on_a_screen() -> None:
    error = _translate(api_errors.InvalidArgument("<html>\n" + "x\t" * 5000))

    assert "\n" not in str(error)
    assert "\t" not in str(error)
    assert len(str(error)) < 1300


@pytest.mark.parametrize(
    "silence",
    [api_errors.ServiceUnavailable("refused"), api_errors.MethodNotImplemented("HTTP 404")],
)
def test_an_endpoint_that_is_none_is_named_with_what_to_check(silence: Exception) -> None:
    error = _translate(silence, address="127.0.0.1:9", check="Look at the address.")

    assert "127.0.0.1:9" in str(error)
    assert error.hint == "Look at the address."


def test_a_call_on_a_location_says_in_which() -> None:
    error = _translate(
        api_errors.InvalidArgument("no"), "create CustomJob", "projects/p/locations/l"
    )

    assert str(error).startswith("Could not create CustomJob in projects/p/locations/l: ")


@pytest.mark.parametrize(
    "passing", [asyncio.CancelledError(), KeyError("x"), JobNotFoundError("x")]
)
def test_what_is_not_theirs_passes_untouched(passing: BaseException) -> None:
    with pytest.raises(type(passing)) as caught, translated("describe CustomJob", NAME):
        raise passing

    assert caught.value is passing


# --- protos --------------------------------------------------------------------------------------


def test_a_whole_job_becomes_a_snapshot(a_job: Callable[..., types.CustomJob]) -> None:
    job = a_job(
        7,
        state="JOB_STATE_FAILED",
        labels={"prefect-io_flow-run-id": "abc", "prefect-vertex_attempt": "2"},
        create_time={"seconds": 10, "nanos": 500_000_000},
        start_time={"seconds": 20},
        end_time={"seconds": 30},
        error={"code": 3, "message": "The replica workerpool0-0 exited."},
        web_access_uris={"workerpool0-0": "x.example"},
    )

    snapshot = snapshot_of(job, observed_at=NOW, described=True)

    assert str(snapshot.resource_name) == NAME
    assert snapshot.display_name == "job-7"
    assert (snapshot.phase, snapshot.state) == (JobPhase.FAILED, "JOB_STATE_FAILED")
    assert (snapshot.flow_run_id, snapshot.attempt) == ("abc", 2)
    assert snapshot.create_time == datetime(1970, 1, 1, 0, 0, 10, 500_000, tzinfo=UTC)
    assert snapshot.start_time == datetime(1970, 1, 1, 0, 0, 20, tzinfo=UTC)
    assert snapshot.end_time == datetime(1970, 1, 1, 0, 0, 30, tzinfo=UTC)
    assert snapshot.error == JobError(code=3, message="The replica workerpool0-0 exited.")
    assert snapshot.web_access_uris == {"workerpool0-0": "x.example"}
    assert snapshot.observed_at == NOW
    assert snapshot.described


def test_a_nul_of_a_replica_s_goes_no_further(a_job: Callable[..., types.CustomJob]) -> None:
    """A job's error quotes its stderr, and Prefect's PostgreSQL would refuse the run's end."""
    job = a_job(error={"code": 3, "message": "exited: \0bad\0 byte"})

    assert snapshot_of(job, observed_at=NOW, described=True).error == JobError(
        code=3, message="exited: bad byte"
    )
    assert one_line("a\0b") == "ab"


def test_what_a_job_has_not_got_yet_is_none(a_job: Callable[..., types.CustomJob]) -> None:
    snapshot = snapshot_of(a_job(), observed_at=NOW, described=False)

    assert (snapshot.start_time, snapshot.end_time, snapshot.error) == (None, None, None)
    assert not snapshot.described


def test_a_state_newer_than_the_client_keeps_its_number(
    a_job: Callable[..., types.CustomJob],
) -> None:
    job = a_job()
    types.CustomJob.pb(job).state = 77

    snapshot = snapshot_of(job, observed_at=NOW, described=False)

    assert (snapshot.phase, snapshot.state) == (JobPhase.UNKNOWN, "JOB_STATE_77")


def test_a_job_without_a_legible_name_is_an_error_of_the_service(
    a_job: Callable[..., types.CustomJob],
) -> None:
    with pytest.raises(ServiceError, match="name cannot be read"):
        snapshot_of(a_job(name=""), observed_at=NOW, described=False)
