"""What a refusal says: one table from the service's answer to a reason, and from there to a scope.

A row fits when all that it names fits; the first row that fits decides.  The rows stand in the
order in which an answer is trusted: when it came, the ErrorInfo's reason, the gRPC code, the job
error's code, and only then the words.  The words refine a code that is ambiguous, or stand for one
that is missing.  What no row knows is "no room now", and is kept verbatim: a wasted try is seen,
a place that was silently given up is not.

Sources of the wordings: facts on CustomJob errors, sections 1.5 and 1.6, and on the forecasting
submitter, sections 6 and 17; the samples are in tests/capacity/test_refusals*.py.

What kind of end a terminal job had, and whether a run that had started may be tried again at all,
is for `lifecycle.diagnosis` and `lifecycle.verdicts` to say; here it is said where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from prefect_vertex.capacity.reasons import SCOPE_OF, RefusalReason, Scope, When
from prefect_vertex.capacity.rows import TABLE
from prefect_vertex.lifecycle import wordings

__all__ = ["SCOPE_OF", "Refusal", "RefusalReason", "Scope", "When", "classify"]

_NAME_OF_CODE: Final = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
    16: "UNAUTHENTICATED",
}
"""google.rpc.Code; 0 is an error that says nothing by its number."""
_CODE_IN_TEXT: Final = re.compile(rf"\bcode[=:] ?(?P<name>{'|'.join(_NAME_OF_CODE.values())})\b")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One attempt's end, as the walk reads it.

    Attributes:
        message: What the service said, verbatim.
    """

    reason: RefusalReason
    scope: Scope
    message: str = ""


def classify(
    *,
    when: When,
    error_reason: str = "",
    grpc_code: str | None = None,
    job_code: int | None = None,
    text: str = "",
) -> Refusal:
    """Say what an answer means for the walk.

    After the container started, the scope is where a run that may be tried again goes; whether it
    may is `diagnose`'s to say (a preempted Spot job's, or one whose container had rescheduled it).

    Args:
        when: How far the attempt had come.
        error_reason: `google.rpc.ErrorInfo.reason`; empty if none was sent.
        grpc_code: The status name of a refused create, such as `RESOURCE_EXHAUSTED`.
        job_code: `CustomJob.error.code`, google.rpc.Code numbers.
        text: The service's words, with or without our own before them.
    """
    if when is not When.AT_CREATE and wordings.is_container_end(text):
        reason = RefusalReason.CONTAINER
    else:
        code = grpc_code or _NAME_OF_CODE.get(job_code or 0, "") or _code_in(text)
        said = wordings.first_line(text) if when is When.AFTER_START else text
        words = wordings.words_of(said)
        reason = next(
            row.reason for row in TABLE if row.fits(when, error_reason.upper(), code, words)
        )
    return Refusal(reason, SCOPE_OF[reason], text)


def _code_in(text: str) -> str:
    """A status that stands in the text: `code=RESOURCE_EXHAUSTED, message=...` was seen."""
    return match["name"] if (match := _CODE_IN_TEXT.search(text)) else ""
