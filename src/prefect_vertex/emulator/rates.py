"""How many calls a minute the service takes, by project and location.

Documented (https://cloud.google.com/vertex-ai/docs/quotas, read 2026-11): 60 submissions, which are
creates and deletes, and 600 other calls; of Cloud Logging 60 reads a project, whatever the location
(https://cloud.google.com/logging/quotas).  Counted over a window that slides, so that whenever a
minute is taken, no more than that many calls of it were let through.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import grpc

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.api_error import ApiError, error_info, retry_info
from prefect_vertex.emulator.names import Place

SUBMISSIONS: Final = frozenset({"CreateCustomJob", "DeleteCustomJob"})
LOG_READS: Final = frozenset({"ListLogEntries"})
_WINDOW_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Calls a minute for each project and location; None: as many as come.

    Attributes:
        submissions_per_minute: Creates and deletes.
        calls_per_minute: All others.
        log_reads_per_minute: Reads of log entries, for each project.
        retry_info_seconds: Send RetryInfo with this delay in a denial; Google sends none.
    """

    submissions_per_minute: int | None = None
    calls_per_minute: int | None = None
    log_reads_per_minute: int | None = None
    retry_info_seconds: float | None = None


UNLIMITED: Final = RateLimits()
DOCUMENTED: Final = RateLimits(
    submissions_per_minute=60, calls_per_minute=600, log_reads_per_minute=60
)
RATES_OF_CLOCK: Final[Mapping[str, RateLimits]] = {"fast": UNLIMITED, "lifelike": DOCUMENTED}


class Rates:
    """The meters; `limits` may be set at any time and holds for the next call.

    Args:
        limits: To begin with.
        now: Seconds of a clock that never goes back.
    """

    def __init__(
        self, limits: RateLimits = UNLIMITED, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self._now = now
        self._admitted: dict[tuple[Place, str], deque[float]] = {}

    def admit(self, method: str, place: Place) -> None:
        """Count a call; one that is denied does not count.

        Raises:
            ApiError: RESOURCE_EXHAUSTED, because the last minute is full.
        """
        limit, quota = self._limit(method)
        if limit is None:
            return
        now = self._now()
        admitted = self._admitted.setdefault((place, quota.limit_id), deque())
        while admitted and admitted[0] <= now - _WINDOW_SECONDS:
            admitted.popleft()
        if len(admitted) >= limit:
            raise self._denial(limit, place, quota)
        admitted.append(now)

    def _limit(self, method: str) -> tuple[int | None, wordings.RateQuota]:
        if method in SUBMISSIONS:
            return self.limits.submissions_per_minute, wordings.SUBMISSION_QUOTA_INFERRED
        if method in LOG_READS:
            return self.limits.log_reads_per_minute, wordings.LOG_READ_QUOTA
        return self.limits.calls_per_minute, wordings.CALL_QUOTA_INFERRED

    def _denial(self, limit: int, place: Place, quota: wordings.RateQuota) -> ApiError:
        metadata = {
            "consumer": f"projects/{place.project_number}",
            "quota_limit": quota.limit_id,
            "quota_limit_value": str(limit),
            "quota_location": place.location,
            "quota_metric": quota.metric_id,
            "service": quota.service,
        }
        details = [error_info("RATE_LIMIT_EXCEEDED", metadata), wordings.quota_help()]
        if self.limits.retry_info_seconds is not None:
            details.append(retry_info(self.limits.retry_info_seconds))
        message = wordings.rate_exceeded(quota, place.project_number)
        return ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, message, *details)
