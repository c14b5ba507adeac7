"""Waiting for a gRPC call, without taking its end for one of our own.

grpc.aio (1.85) ends a call that was cancelled in this process with a `CancelledError` of its own:
also where nobody has cancelled the task that waits, but the channel was closed under the call, and
in place of the one with which a cancel scope ends the wait, which that scope then doesn't know for
its own.  Either would go through everything that catches errors, and end the whole worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio.lowlevel
from google.api_core import exceptions as api_errors

_T = TypeVar("_T")


async def answered(call: Awaitable[_T]) -> _T:
    """Wait for a call; a cancellation of the task that waits passes as it was sent.

    Raises:
        Cancelled: The call was cancelled, and not the task that waits for it.
    """
    try:
        return await call
    except asyncio.CancelledError as error:
        # In a cancelled scope this raises that scope's own cancellation.
        await anyio.lowlevel.checkpoint_if_cancelled()
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        lost: Callable[[str], Exception] = api_errors.Cancelled
        raise lost("its connection was closed before there was an answer") from error
