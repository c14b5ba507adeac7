"""One call of the JobService: sent within a budget and a deadline, again where that is safe."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from google.cloud.aiplatform_v1.services.job_service.async_client import JobServiceAsyncClient

from prefect_vertex.errors import QuotaExceededError, RateLimitedError, ServiceError
from prefect_vertex.vertex.awaiting import answered
from prefect_vertex.vertex.budget import Clock, RateBudget
from prefect_vertex.vertex.channel import Connection
from prefect_vertex.vertex.translate import translated

BACKOFF_SECONDS = (0.5, 1.0, 2.0)
"""Pauses between the tries of a call that may be repeated; one try more than pauses."""

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[_T]):
    """What for, on what, within what.

    Attributes:
        attempted: A verb phrase, such as `create CustomJob`.
        resource_name: The job, or the parent of jobs.
        budget: Where each try takes a token.
        seconds: How long it may take, all tries together; waiting for the first token not counted.
        send: Given the client and a timeout, the request on its way.
        repeatable: Whether sending it twice has the effect of sending it once.
        in_turn: The first token has been taken already.
    """

    attempted: str
    resource_name: str
    budget: RateBudget
    seconds: float
    send: Callable[[JobServiceAsyncClient, float], Awaitable[_T]]
    repeatable: bool = True
    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class Answer(Generic[_T]):
    """What was answered, and when the question was sent: no observation is newer than that."""

    value: _T
    asked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Sends calls.

    Attributes:
        connect: Gives the connection, its credentials fresh, within so many seconds.
        clock: Times tries and pauses.
        utc: The wall clock, for observations.
    """

    connect: Callable[[float], Awaitable[Connection]]
    clock: Clock
    utc: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def ask(self, call: Call[_T]) -> Answer[_T]:
        """Send a call, and again where that is safe and may help.

        Raises:
            ServiceError: Refused, or not answered in time.
        """
        if not call.in_turn:
            await call.budget.acquire()
        deadline = self.clock.now() + call.seconds
        pauses = iter(BACKOFF_SECONDS if call.repeatable else ())
        while True:
            asked_at = self.utc()
            try:
                return Answer(await self._send(call, deadline), asked_at)
            except ServiceError as error:
                _slow_down(call, error)
                pause = next(pauses, None)
                if pause is None or not error.retryable:
                    raise
                if self.clock.now() + pause >= deadline:
                    raise
                last = error
            _LOGGER.debug("Trying again in %s s. %s", pause, last)
            await self.clock.sleep(pause)
            await call.budget.acquire()
            if self.clock.now() >= deadline:
                raise last

    async def _send(self, call: Call[_T], deadline: float) -> _T:
        # Credentials first: what fails there has not been sent, and says so in its own words.
        connection = await self.connect(deadline - self.clock.now())
        seconds = max(deadline - self.clock.now(), 0.0)
        with translated(call.attempted, call.resource_name, peer=connection.peer):
            return await answered(call.send(connection.client, seconds))


def _slow_down(call: Call[_T], error: ServiceError) -> None:
    # Only a create can ask for more machines than are allowed; any other call that is told
    # RESOURCE_EXHAUSTED came too often, whatever details were sent.
    if isinstance(error, RateLimitedError) or (
        call.repeatable and isinstance(error, QuotaExceededError)
    ):
        call.budget.deny(error.verdict.retry_after_seconds)
