"""Every error that this package raises itself.

A job that fails is not an error: it is a `JobOutcome`.  Errors are for what could not be asked,
delivered or answered.

    PrefectVertexError                  .hint: what the user can do about it
    ├── PlanError (also ValueError)     found before any I/O; names the job variable
    │   ├── MachineSpecError            machine type, accelerator, count
    │   ├── SchedulingError             strategy, timeout, waiting
    │   └── NamingError                 names, labels, regions, resource names
    ├── SetupError                      this machine or its settings cannot do what was asked
    ├── DeliveryError
    │   ├── BundleError                 the local tree cannot be archived
    │   └── CodeStoreError              the bucket refused or did not answer
    └── ServiceError                    Vertex AI refused or did not answer; .code .retryable
        ├── ServiceUnavailableError     no answer, or one that may change: retryable
        ├── QuotaExceededError          RESOURCE_EXHAUSTED: retryable
        │   └── RateLimitedError        requests per minute, not machines
        ├── RequestRejectedError        the request itself is wrong
        ├── AccessDeniedError           the credentials may not do this
        └── JobNotFoundError            no such CustomJob

None of them descends from an error of Google, gRPC or Prefect, so that no caller has to import
those to tell them apart; the original is chained as the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class PrefectVertexError(Exception):
    """Root of the tree.

    Args:
        message: One line: what was attempted, on what, and what was wrong.
        hint: One line: what the user can do. Empty when the message says it already.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class PlanError(PrefectVertexError, ValueError):
    """A job variable that cannot lead to a job; found before anything is created.

    `variable` is the job variable at fault, empty where there is no single one.
    """

    def __init__(self, message: str, *, variable: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.variable = variable


class MachineSpecError(PlanError):
    """A machine type, accelerator or count that Vertex AI does not offer together."""


class SchedulingError(PlanError):
    """A strategy, timeout or waiting time that cannot be combined."""


class NamingError(PlanError):
    """A name, label, location or resource name that the service would refuse."""


class SetupError(PrefectVertexError):
    """This machine lacks something: an extra, a program, a setting, a reachable server."""


class ReplicaError(PrefectVertexError):
    """Another replica failed, went silent or left; or this one cannot reach the meeting place.

    Raised by `barrier` and `gather`, and at the end of the leader's flow function, so that one
    failed replica fails the leader's run.  The message names rank and reason.
    """


class DeliveryError(PrefectVertexError):
    """The code could not be brought to where the container can fetch it."""


class BundleError(DeliveryError):
    """The local directory cannot be archived."""


class CodeStoreError(DeliveryError):
    """The staging bucket refused, is missing, or did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceVerdict:
    """What the service said, in its own terms.

    Attributes:
        code: gRPC status name, such as `NOT_FOUND`; empty where there was no answer at all.
        reason: `google.rpc.ErrorInfo.reason`, such as `RATE_LIMIT_EXCEEDED`; empty if not sent.
        metadata: `google.rpc.ErrorInfo.metadata`.
        retry_after_seconds: `google.rpc.RetryInfo.retry_delay`, None if not sent.
        words: Its own sentence, verbatim but for its length.
    """

    code: str = ""
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_seconds: float | None = None
    words: str = ""


class ServiceError(PrefectVertexError):
    """Vertex AI refused the call or did not answer it.

    Args:
        message: What was attempted, on which resource, and the service's own words.
        verdict: The service's answer in its own terms.
        resource_name: The CustomJob or parent that the call named.
        hint: What the user can do.
    """

    retryable = False

    def __init__(
        self,
        message: str,
        *,
        verdict: ServiceVerdict | None = None,
        resource_name: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict or ServiceVerdict()
        self.resource_name = resource_name

    @property
    def code(self) -> str:
        """The gRPC status name."""
        return self.verdict.code


class ServiceUnavailableError(ServiceError):
    """UNAVAILABLE, DEADLINE_EXCEEDED, INTERNAL, UNKNOWN, ABORTED, CANCELLED: it may have happened.

    After a create this says nothing about whether the job exists; only a look does.
    """

    retryable = True


class QuotaExceededError(ServiceError):
    """RESOURCE_EXHAUSTED: the project's quota of machines does not allow it now."""

    retryable = True


class RateLimitedError(QuotaExceededError):
    """RESOURCE_EXHAUSTED with ErrorInfo RATE_LIMIT_EXCEEDED: too many requests a minute."""


class RequestRejectedError(ServiceError):
    """INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, ALREADY_EXISTS."""


class AccessDeniedError(ServiceError):
    """PERMISSION_DENIED or UNAUTHENTICATED."""


class JobNotFoundError(ServiceError):
    """NOT_FOUND."""
