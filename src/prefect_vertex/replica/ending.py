"""The end of the leader's flow function: it waits for the followers' runs, and fails with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from prefect.client.schemas.objects import FlowRun

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.crew import Crew, Leaving, describe, is_final, was_told
from prefect_vertex.replica.losses import Loss, Losses
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
        self._losses = Losses(member)

    def check(self) -> set[int]:
        """Ranks whose runs have not ended yet, or have with their machines a little while ago.

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
            if run is not None and run.state is not None and run.state.is_completed():
                continue
            self._check(rank, run, left.get(rank), signs.get(rank))
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

    def _check(
        self, rank: int, run: FlowRun | None, leaving: Leaving | None, sign: SignOfLife | None
    ) -> None:
        """Raise for a follower that is not Completed, unless it goes on or its loss is borne."""
        loss: Loss | None = None
        if run is not None and is_final(run):
            what = f"(flow run {run.name}) ended {describe(run)}"
            loss = Loss.TOLD if was_told(run) else None
        elif leaving is not None:
            what = f"left without an end: {leaving.why}"
            loss = Loss.TOLD if leaving.told else None
        elif self._meeting is not None and sign is not None and self._meeting.is_silent(sign):
            what = f"has given no sign of life for {sign.silent_seconds:.0f} s"
            loss = Loss.SILENT
        else:
            self._losses.forget(rank)
            return
        if not self._losses.bears(rank, loss):
            raise self._failure(rank, what)

    def _failure(self, rank: int, what: str) -> ReplicaError:
        return ReplicaError(
            f"Replica {rank} of {self._member.world_size} {what.removesuffix('.')}."
        )


def _pauses() -> Iterator[float]:
    pause = _FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
