"""The table of refusals: from a service's answer to a `RefusalReason`; `refusals` explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prefect_vertex.capacity.reasons import RefusalReason, When
from prefect_vertex.lifecycle import wordings
from prefect_vertex.lifecycle.wordings import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; what it leaves out fits everything.

    Attributes:
        codes: Status names, of a refused create or of a job's error; "" is no code.
        words: Judges the text.
    """

    reason: RefusalReason
    when: frozenset[When] = frozenset(When)
    error_reasons: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    words: Predicate | None = None

    def fits(self, when: When, error_reason: str, code: str, words: str) -> bool:
        """Whether all that the row names fits."""
        return (
            when in self.when
            and (not self.error_reasons or error_reason in self.error_reasons)
            and (not self.codes or code in self.codes)
            and (self.words is None or self.words(words))
        )


_AT_CREATE: Final = frozenset({When.AT_CREATE})
_BEFORE: Final = frozenset({When.BEFORE_START})
_AFTER: Final = frozenset({When.AFTER_START})
_OF_A_JOB: Final = _BEFORE | _AFTER
_UNSTARTED: Final = _AT_CREATE | _BEFORE

_REFINED: Final = frozenset(
    {
        "",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DEADLINE_EXCEEDED",
        "DATA_LOSS",
    }
)
"""Codes under which the words say more; the others speak for themselves."""
_FOR_NOW: Final = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE"})
"""Codes of what may be had later."""
_NO_ACCESS: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED"})
_WITHOUT_MEANING: Final = frozenset({"", "OK", "UNKNOWN"})


def _refined(reason: RefusalReason, words: Predicate, *, but: frozenset[str] = frozenset()) -> Row:
    """A row for words that say more than their code does, under whichever code but these."""
    return Row(reason=reason, codes=_REFINED - but, words=words)


_BY_ERROR_REASON: Final = (
    Row(reason=RefusalReason.RATE, error_reasons=frozenset({"RATE_LIMIT_EXCEEDED"})),
    Row(
        reason=RefusalReason.QUOTA,
        when=_UNSTARTED,
        error_reasons=frozenset({"RESOURCE_QUOTA_EXCEEDED", "QUOTA_EXCEEDED"}),
    ),
    Row(
        # Compute Engine's own words for it, should they come through.
        reason=RefusalReason.NO_ROOM,
        when=_UNSTARTED,
        error_reasons=frozenset(
            {
                "STOCKOUT",
                "ZONE_RESOURCE_POOL_EXHAUSTED",
                "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
                "RESOURCE_POOL_EXHAUSTED",
            }
        ),
    ),
    Row(
        reason=RefusalReason.NOT_HERE,
        when=_UNSTARTED,
        error_reasons=frozenset(
            {
                "LOCATION_POLICY_VIOLATED",
                "LOCATION_ORG_POLICY_VIOLATED",
                "LOCATION_TAX_POLICY_VIOLATED",
                "ENDPOINT_USAGE_RESTRICTION_VIOLATED",
            }
        ),
    ),
    Row(
        reason=RefusalReason.ACCESS,
        when=_UNSTARTED,
        # google/api/error_reason.proto: what another region would answer as well.
        error_reasons=frozenset(
            {
                "SERVICE_DISABLED",
                "BILLING_DISABLED",
                "API_KEY_INVALID",
                "API_KEY_SERVICE_BLOCKED",
                "USER_PROJECT_DENIED",
                "CONSUMER_SUSPENDED",
                "CONSUMER_INVALID",
                "SECURITY_POLICY_VIOLATED",
                "ACCESS_TOKEN_EXPIRED",
                "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
                "ACCESS_TOKEN_TYPE_UNSUPPORTED",
                "ACCOUNT_STATE_INVALID",
                "CREDENTIALS_MISSING",
                "RESOURCE_PROJECT_INVALID",
                "USER_BLOCKED_BY_ADMIN",
                "RESOURCE_USAGE_RESTRICTION_VIOLATED",
                "ORG_RESTRICTION_VIOLATION",
                "SERVICE_NOT_VISIBLE",
                "GCP_SUSPENDED",
                "IAM_PERMISSION_DENIED",
            }
        ),
    ),
)

_AFTER_START: Final = (
    Row(reason=RefusalReason.CANCELLED, when=_AFTER, codes=frozenset({"CANCELLED"})),
    Row(reason=RefusalReason.TIME_LIMIT, when=_AFTER, codes=frozenset({"DEADLINE_EXCEEDED"})),
    Row(
        # A Spot job that loses its machines "fails with a STOCKOUT error" (documented); which
        # number goes with that is in no public report.
        reason=RefusalReason.PREEMPTED,
        when=_AFTER,
        codes=_REFINED,
        words=wordings.is_loss_of_machines,
    ),
    Row(reason=RefusalReason.CONTAINER, when=_AFTER, codes=frozenset({"INVALID_ARGUMENT"})),
    Row(
        reason=RefusalReason.ENDED,
        when=_AFTER,
        codes=frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE"}),
        words=wordings.is_quota,
    ),
    Row(
        reason=RefusalReason.PREEMPTED,
        when=_AFTER,
        codes=frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE"}),
    ),
    Row(reason=RefusalReason.INTERNAL, when=_AFTER, codes=frozenset({"INTERNAL", "ABORTED"})),
    Row(
        reason=RefusalReason.INTERNAL,
        when=_AFTER,
        codes=_WITHOUT_MEANING,
        words=wordings.is_internal,
    ),
    Row(
        reason=RefusalReason.CANCELLED,
        when=_AFTER,
        codes=_WITHOUT_MEANING,
        words=wordings.is_cancelled,
    ),
    Row(reason=RefusalReason.ENDED, when=_AFTER),
)

_BY_CODE: Final = (
    # A call of ours that was cancelled is no job that was.
    Row(reason=RefusalReason.INTERNAL, when=_AT_CREATE, codes=frozenset({"CANCELLED"})),
    Row(reason=RefusalReason.CANCELLED, when=_BEFORE, codes=frozenset({"CANCELLED"})),
    Row(
        # Found by gRPC on this side of the wire.
        reason=RefusalReason.WRONG_REQUEST,
        when=_AT_CREATE,
        codes=frozenset({"RESOURCE_EXHAUSTED"}),
        words=wordings.is_too_large,
    ),
    Row(reason=RefusalReason.IMAGE, codes=_NO_ACCESS, words=wordings.is_image_fault),
    Row(reason=RefusalReason.ACCESS, codes=_NO_ACCESS),
    Row(
        reason=RefusalReason.WRONG_REQUEST,
        codes=frozenset({"OUT_OF_RANGE", "ALREADY_EXISTS"}),
    ),
    _refined(RefusalReason.ACCESS, wordings.is_no_right_to_act),
    _refined(RefusalReason.ACCESS, wordings.is_not_set_up),
    _refined(RefusalReason.RATE, wordings.is_rate),
    _refined(RefusalReason.NO_ROOM, wordings.is_stockout),
    _refined(RefusalReason.NETWORK, wordings.is_network_fault),
    _refined(RefusalReason.QUOTA, wordings.is_quota),
    _refined(RefusalReason.NOT_HERE, wordings.is_missing_attachment),
    _refined(RefusalReason.NOT_HERE, wordings.is_elsewhere),
    _refined(RefusalReason.NO_ROOM, wordings.is_not_free),
    _refined(RefusalReason.NOT_HERE, wordings.is_not_offered, but=_FOR_NOW),
    _refined(RefusalReason.IMAGE, wordings.is_image_fault),
    _refined(RefusalReason.PREEMPTED, wordings.is_preemption),
    _refined(RefusalReason.NO_ROOM, wordings.is_sent_elsewhere),
    _refined(RefusalReason.NO_ROOM, wordings.is_exhausted),
    Row(reason=RefusalReason.WRONG_REQUEST, codes=frozenset({"INVALID_ARGUMENT"})),
    # What is missing may be there in another region: a bucket, a resource, a policy's consent, or
    # Vertex AI itself, for which a host answers UNIMPLEMENTED.
    Row(
        reason=RefusalReason.NOT_HERE,
        codes=frozenset({"NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED"}),
    ),
    Row(reason=RefusalReason.NO_ROOM, codes=frozenset({"RESOURCE_EXHAUSTED"})),
    Row(
        # Where no container ever ran, it was the wait that was over.
        reason=RefusalReason.NO_ROOM,
        when=_BEFORE,
        codes=frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"}),
    ),
    Row(
        reason=RefusalReason.INTERNAL,
        codes=frozenset({"INTERNAL", "ABORTED", "DATA_LOSS", "UNAVAILABLE", "DEADLINE_EXCEEDED"}),
    ),
    Row(reason=RefusalReason.INTERNAL, when=_AT_CREATE, codes=frozenset({"UNKNOWN"})),
)

_BY_WORDS: Final = (
    Row(reason=RefusalReason.ACCESS, words=wordings.is_no_access),
    Row(reason=RefusalReason.WRONG_REQUEST, words=wordings.is_wrong),
    Row(reason=RefusalReason.WRONG_REQUEST, when=_AT_CREATE, words=wordings.is_too_large),
    Row(reason=RefusalReason.INTERNAL, words=wordings.is_internal),
    Row(reason=RefusalReason.CANCELLED, when=_BEFORE, words=wordings.is_cancelled),
)

TABLE: Final = (
    *_BY_ERROR_REASON,
    *_AFTER_START,
    *_BY_CODE,
    *_BY_WORDS,
    Row(reason=RefusalReason.UNKNOWN),
)
"""Every row, in the order in which they are tried; the last one fits everything."""
