"""How many calls a minute the service takes, by project and location.

Documented (https://cloud.google.com/vertex-ai/docs/quotas, read 2026-11): 60 submissions, which are
creates and deletes, and 600 other calls.  Counted over a window that slides, so that whenever a
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
_WINDOW_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Calls a minute for each project and location; None: as many as come.

    Attributes:
        submissions_per_minute: Creates and deletes.
        calls_per_minute: All others.
        retry_info_seconds: Send RetryInfo with this delay in a denial; Google sends none.
    """

    submissions_per_minute: int | None = None
    calls_per_minute: int | None = None
    retry_info_seconds: float | None = None


UNLIMITED: Final = RateLimits()
DOCUMENTED: Final = RateLimits(submissions_per_minute=60, calls_per_minute=600)
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
        self._admitted: dict[tuple[Place, bool], deque[float]] = {}

    def admit(self, method: str, place: Place) -> None:
        """Count a call; one that is denied does not count.

        Raises:
            ApiError: RESOURCE_EXHAUSTED, because the last minute is full.
        """
        is_submission = method in SUBMISSIONS
        limit = (
            self.limits.submissions_per_minute if is_submission else self.limits.calls_per_minute
        )
        if limit is None:
            return
        now = self._now()
        admitted = self._admitted.setdefault((place, is_submission), deque())
        while admitted and admitted[0] <= now - _WINDOW_SECONDS:
            admitted.popleft()
        if len(admitted) >= limit:
            raise self._denial(limit, place, is_submission=is_submission)
        admitted.append(now)

    def _denial(self, limit: int, place: Place, *, is_submission: bool) -> ApiError:
        quota = (
            wordings.SUBMISSION_QUOTA_INFERRED if is_submission else wordings.CALL_QUOTA_INFERRED
        )
        metadata = {
            "consumer": f"projects/{place.project_number}",
            "quota_limit": quota.limit_id,
            "quota_limit_value": str(limit),
            "quota_location": place.location,
            "quota_metric": quota.metric_id,
            "service": wordings.SERVICE_NAME,
        }
        details = [error_info("RATE_LIMIT_EXCEEDED", metadata), wordings.quota_help()]
        if self.limits.retry_info_seconds is not None:
            details.append(retry_info(self.limits.retry_info_seconds))
        message = wordings.rate_exceeded(quota, place.project_number)
        return ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, message, *details)
