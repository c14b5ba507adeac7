"""`python -m prefect_vertex.replica.engine SCRIPT engine|hook …`: a replica's flow run process.

Prefect's own engine, with the flow's function wrapped: each call begins another try of the
barriers, and the leader's ends with a wait for the followers, before its final state is proposed.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from prefect_vertex.replica.ending import Followers
from prefect_vertex.replica.membership import RUN_ID, Membership
from prefect_vertex.replica.seams import run_engine
from prefect_vertex.replica.view import check_visits, end_meeting, start_over


class Ceremony:
    """What happens before and after each call of the flow's function."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._calls = 0

    def applies(self) -> bool:
        """Whether the function is called for this process's own run, not as a subflow of it."""
        from prefect.context import FlowRunContext

        context = FlowRunContext.get()
        run = context.flow_run if context is not None else None
        return run is not None and str(run.id) == os.environ.get(RUN_ID)

    def begin(self) -> None:
        """Begin a try; a leader's retry fails at once where a follower has failed for good.

        From here on this process is the one that meets the other replicas.
        """
        start_over()
        self._calls += 1
        if self._leads and self._calls > 1:
            Followers(self._member).check()

    def end(self) -> None:
        """Wait for the followers' runs, of which none need wait for this one any more."""
        if self._leads:
            end_meeting()
            Followers(self._member).wait()
            check_visits()

    async def end_async(self) -> None:
        """Wait for them without holding up the event loop."""
        if self._leads:
            await asyncio.to_thread(end_meeting)
            await Followers(self._member).wait_async()
            await asyncio.to_thread(check_visits)

    @property
    def _leads(self) -> bool:
        return self._member.is_leader and self._member.world_size > 1


def wrap(flow: Any) -> Any:
    """Put the ceremony around a flow's function."""
    flow.fn = wrapped(
        flow.fn,
        Ceremony(Membership.read()),
        is_async=flow.isasync,
        is_generator=flow.isgenerator,
    )
    return flow


def wrapped(
    function: Callable[..., Any], ceremony: Ceremony, *, is_async: bool, is_generator: bool
) -> Callable[..., Any]:
    """The function with the ceremony around it, of the same kind as before."""
    if is_generator:
        return _generator(function, ceremony, is_async=is_async)
    if is_async:

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            if not ceremony.applies():
                return await function(*args, **kwargs)
            await asyncio.to_thread(ceremony.begin)
            result = await function(*args, **kwargs)
            await ceremony.end_async()
            return result

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not ceremony.applies():
            return function(*args, **kwargs)
        ceremony.begin()
        result = function(*args, **kwargs)
        ceremony.end()
        return result

    return called


def _generator(
    function: Callable[..., Any], ceremony: Ceremony, *, is_async: bool
) -> Callable[..., Any]:
    if is_async:

        @functools.wraps(function)
        async def yielded_async(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            applies = ceremony.applies()
            if applies:
                await asyncio.to_thread(ceremony.begin)
            async for item in function(*args, **kwargs):
                yield item
            if applies:
                await ceremony.end_async()

        return yielded_async

    @functools.wraps(function)
    def yielded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        applies = ceremony.applies()
        if applies:
            ceremony.begin()
        result = yield from function(*args, **kwargs)
        if applies:
            ceremony.end()
        return result

    return yielded


if __name__ == "__main__":
    run_engine(sys.argv[1:], wrap)
