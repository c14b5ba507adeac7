"""What can go wrong, as values that a test adds to the script.

A `CallFault` spoils the answer to a call; the others happen to a job.  All are plain data, so that
they travel as JSON; who plays them is `front` for calls and `life` for jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import grpc

METHODS: Final = (
    "CreateCustomJob",
    "GetCustomJob",
    "ListCustomJobs",
    "CancelCustomJob",
    "DeleteCustomJob",
)
QUOTA_METHODS: Final = ("ListQuotaInfos",)
LOG_METHODS: Final = ("ListLogEntries",)
# For pydantic, which reads these from JSON: a misspelt field is an error.
_STRICT: Final[Mapping[str, Any]] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFault:
    """A call is answered wrongly, late or not at all.

    Exactly one of `code`, `hang` and `drop`; or only `delay_seconds`, and the usual answer follows.

    Attributes:
        method: One of `METHODS`, `QUOTA_METHODS` or `LOG_METHODS`; empty for any.
        location: Only calls for this location; empty for any. Log entries are read in `global`.
        when: Before the call has had its effect, or after: a lost request or a lost answer.
        code: Answer with this gRPC status, such as UNAVAILABLE.
        message: The status's message.
        reason: Sent as google.rpc.ErrorInfo, with `domain` and `metadata`.
        domain: Of the ErrorInfo.
        metadata: Of the ErrorInfo.
        retry_after_seconds: Sent as google.rpc.RetryInfo.
        hang: Never answer; the call lasts until the client gives up.
        drop: Cut the client's connection, with every call that is on it.
        delay_seconds: Wait so long first.  With nothing else and `when="before"` the effect comes
            that late, and comes even if the client has given up by then.
        times: For so many calls; 0 for every one until the script is cleared.
    """

    __pydantic_config__: ClassVar = _STRICT

    kind: Literal["call"] = "call"
    method: str = ""
    location: str = ""
    when: Literal["before", "after"] = "before"
    code: str = ""
    message: str = "scripted"
    reason: str = ""
    domain: str = "googleapis.com"
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_seconds: float | None = None
    hang: bool = False
    drop: bool = False
    delay_seconds: float = 0.0
    times: int = 1

    def __post_init__(self) -> None:
        _check_times(self.times)
        known = (*METHODS, *QUOTA_METHODS, *LOG_METHODS)
        if self.method and self.method not in known:
            raise ValueError(f"method {self.method!r} is none of {', '.join(known)}")
        if self.code and (self.code == "OK" or self.code not in grpc.StatusCode.__members__):
            raise ValueError(f"code {self.code!r} is no gRPC status that a call can fail with")
        answers = (bool(self.code), self.hang, self.drop).count(True)
        if answers > 1 or not (answers or self.delay_seconds):
            raise ValueError("a CallFault needs one of code, hang and drop, or delay_seconds alone")
        if not self.code and (self.reason or self.retry_after_seconds is not None):
            raise ValueError("reason and retry_after_seconds need a code")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFault:
    """What happens to the first job that fits; every condition that is empty fits all.

    Attributes:
        job: The job's id or resource name.
        location: Where the job is.
        machine_type: That of one of its pools.
        strategy: STANDARD, SPOT or FLEX_START.
        labels: Labels that the job carries, others beside them.
        times: So many times; 0 for every time until the script is cleared.
    """

    __pydantic_config__: ClassVar = _STRICT

    job: str = ""
    location: str = ""
    machine_type: str = ""
    strategy: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    times: int = 1

    def __post_init__(self) -> None:
        _check_times(self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stockout(JobFault):
    """No machines: the job stays PENDING for a while and fails.

    Attributes:
        after_seconds: How long it is PENDING beside its provisioning; None: as the clock says.
        started_replicas: So many replicas come up, and run user code, before the rest does not.
        code: The error's; 8 (RESOURCE_EXHAUSTED) or 14 (UNAVAILABLE), it is not documented.
    """

    kind: Literal["stockout"] = "stockout"
    after_seconds: float | None = None
    started_replicas: int = 0
    code: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(JobFault):
    """A replica's container is started again in the same job, with an empty file system.

    Exactly one of `after_seconds` and `on_exit_status`.  Where the spec says
    `restart_job_on_worker_restart`, and not `disable_retries`, all replicas are started again.

    Attributes:
        replica: Which.
        after_seconds: So long after its start, by SIGKILL.
        on_exit_status: When it ends with this status.
        grace_seconds: SIGTERM, and so long before SIGKILL.
        pause_seconds: From the end to the new start.
    """

    kind: Literal["restart"] = "restart"
    replica: str = "workerpool0-0"
    after_seconds: float | None = None
    on_exit_status: int | None = None
    grace_seconds: float = 0.0
    pause_seconds: float = 0.0

    def __post_init__(self) -> None:
        _check_times(self.times)
        if (self.after_seconds is None) == (self.on_exit_status is None):
            raise ValueError("a Restart needs one of after_seconds and on_exit_status")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory(JobFault):
    """A replica is killed, and the job fails with the documented sentence.

    Attributes:
        replica: Which.
        after_seconds: So long after its start.
    """

    kind: Literal["out_of_memory"] = "out_of_memory"
    replica: str = "workerpool0-0"
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalError(JobFault):
    """Vertex's own fault: RUNNING, PENDING, RUNNING, or FAILED with code 13.

    It fails the job where the spec says `disable_retries`, and in the third attempt.

    Attributes:
        after_seconds: So long after the job was RUNNING.
    """

    kind: Literal["internal_error"] = "internal_error"
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption(JobFault):
    """The machines of a Spot job are taken away; no other job fits.

    SIGTERM to every replica, then FAILED with the stockout sentence, unless the emulator's
    `Behaviour` restarts preempted jobs.

    Attributes:
        after_seconds: So long after the job was RUNNING.
        grace_seconds: From SIGTERM to SIGKILL.
        code: The error's, as of a `Stockout`.
    """

    kind: Literal["preemption"] = "preemption"
    after_seconds: float = 0.0
    grace_seconds: float = 15.0
    code: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDelay(JobFault):
    """The `error` of a job that has ended is set later than usual.

    Attributes:
        seconds: So long after its end; None for never.
    """

    kind: Literal["error_delay"] = "error_delay"
    seconds: float | None = None


Fault = CallFault | Stockout | Restart | OutOfMemory | InternalError | Preemption | ErrorDelay


def _check_times(times: int) -> None:
    if times < 0:
        raise ValueError(f"times is {times}; it is how often, or 0 for every time")
