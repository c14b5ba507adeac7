"""The end of the leader's flow function: it waits for the followers' runs, and fails with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.crew import Crew, describe, is_final
from prefect_vertex.replica.meeting import Meeting, SignOfLife
from prefect_vertex.replica.membership import Membership

_FIRST_POLL_SECONDS = 0.5
_LONGEST_POLL_SECONDS = 5.0


class Followers:
    """The followers, as the leader's flow sees them. Blocking.

    Args:
        member: The leader.
    """

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._crew = Crew(member)
        self._meeting = Meeting(member) if member.staging else None

    def check(self) -> set[int]:
        """Ranks whose runs have not ended yet.

        Raises:
            ReplicaError: One ended otherwise than Completed, left without an end, or went silent.
        """
        # Who has left is read first: a run read afterwards cannot change any more.
        left = self._crew.left()
        signs = self._meeting.signs_if_any() if self._meeting is not None else {}
        runs = self._crew.followers()
        waiting: set[int] = set()
        for rank in range(1, self._member.world_size):
            run = runs.get(rank)
            if run is not None and is_final(run):
                if run.state is None or not run.state.is_completed():
                    raise self._failure(rank, f"(flow run {run.name}) ended {describe(run)}")
            elif rank in left:
                raise self._failure(rank, f"left without an end: {left[rank].why}")
            else:
                self._check_alive(rank, signs.get(rank))
                waiting.add(rank)
        return waiting

    def wait(self) -> None:
        """Return once all followers' runs are Completed.

        Raises:
            ReplicaError: As for `check`.
        """
        for pause in _pauses():
            if not self.check():
                return
            time.sleep(pause)

    async def wait_async(self) -> None:
        """The same on an event loop, where no thread may be left waiting when it is cancelled."""
        for pause in _pauses():
            if not await asyncio.to_thread(self.check):
                return
            await asyncio.sleep(pause)

    def _check_alive(self, rank: int, sign: SignOfLife | None) -> None:
        if self._meeting is not None and sign is not None and self._meeting.is_silent(sign):
            raise self._failure(rank, f"has given no sign of life for {sign.silent_seconds:.0f} s")

    def _failure(self, rank: int, what: str) -> ReplicaError:
        return ReplicaError(
            f"Replica {rank} of {self._member.world_size} {what.removesuffix('.')}."
        )


def _pauses() -> Iterator[float]:
    pause = _FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
