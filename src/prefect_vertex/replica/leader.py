"""The leader's launcher: Prefect's own execution, and then the wait for the followers' exit.

The end of the primary's container ends the job and every other replica in it, so it goes last.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from uuid import UUID

import anyio.to_thread
import httpx
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Cancelled

from prefect_vertex.errors import ReplicaError
from prefect_vertex.planning.addresses import told
from prefect_vertex.replica.crew import Crew, end_of, is_final
from prefect_vertex.replica.heartbeat import Heartbeat
from prefect_vertex.replica.meeting import Meeting, SignOfLife
from prefect_vertex.replica.membership import LEADER_RUN_ID, RUN_ID, Membership
from prefect_vertex.replica.progress import ProgressBoard
from prefect_vertex.replica.seams import execute_as_prefect_does

_POLL_SECONDS = 1.0
_logger = logging.getLogger(__name__)


async def lead(member: Membership, heartbeat: Heartbeat, board: ProgressBoard) -> int:
    """Execute the leader's run and see the others off; the code of `prefect flow-run execute`."""
    crew = Crew(member)
    # Prefect does not repeat its first request; this one is repeated for a minute.
    await anyio.to_thread.run_sync(crew.leader)
    os.environ.update({LEADER_RUN_ID: member.leader_id, RUN_ID: member.leader_id})
    code = await execute_as_prefect_does(UUID(member.leader_id))
    # Prefect's handler for it is of no use any more: from here on SIGTERM just ends the process.
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    try:
        await anyio.to_thread.run_sync(_see_off, member, crew, heartbeat, board)
    except httpx.HTTPError as error:
        _logger.warning("Could not wait for the other replicas: %s", told(error))
    return code


def _see_off(member: Membership, crew: Crew, heartbeat: Heartbeat, board: ProgressBoard) -> None:
    run = crew.leader()
    # Rescheduled or suspended: this machine is being taken away, there is no time to wait.
    if run is None or is_final(run):
        departure = Departure(member, crew, run)
        departure.wait()
        # One last sign, so that the progress artifact shows all that was done.
        heartbeat.leave("its flow run has ended")
        board.finish()
        departure.settle()


class Departure:
    """Seeing the followers off. Blocking.

    Args:
        member: The leader.
        crew: Its runs.
        leader: The leader's run, which has ended; None where it was deleted.
    """

    ended_seconds = 60.0
    """How long a follower whose run has ended may take to leave."""
    longest_seconds = 120.0
    """How long any follower may take: Prefect's own cancellation takes half of it at most."""

    def __init__(self, member: Membership, crew: Crew, leader: FlowRun | None) -> None:
        self._member = member
        self._crew = crew
        self._leader = leader
        self._meeting = Meeting(member) if member.staging and member.world_size > 1 else None
        self._ended_since: dict[int, float] = {}

    def wait(self) -> None:
        """Return once every follower has left, or need not be waited for any longer."""
        begun = time.monotonic()
        while waiting := self._waiting(time.monotonic()):
            if time.monotonic() - begun > self.longest_seconds:
                _logger.warning("Replicas %s have not left; going without them.", sorted(waiting))
                return
            time.sleep(_POLL_SECONDS)

    def settle(self) -> None:
        """End the runs of followers that did not do it themselves, and clean the folder up."""
        for rank, run in sorted(self._crew.followers().items()):
            if not is_final(run):
                self._crew.propose(run.id, self._end_of(rank, run))
        if self._meeting is not None:
            try:
                self._meeting.clear()
            except ReplicaError as error:
                _logger.warning("The meeting place could not be deleted: %s", error)

    def _waiting(self, now: float) -> set[int]:
        followers = set(range(1, self._member.world_size))
        if not followers:
            return followers
        waiting = followers - self._crew.left().keys()
        if not waiting:
            return waiting
        runs = self._crew.followers()
        signs = self._meeting.signs_if_any() if self._meeting is not None else {}
        for rank in waiting:
            run = runs.get(rank)
            if run is None or is_final(run):
                self._ended_since.setdefault(rank, now)
        return {
            rank
            for rank in waiting
            if not self._is_silent(signs.get(rank))
            and now - self._ended_since.get(rank, now) < self.ended_seconds
        }

    def _is_silent(self, sign: SignOfLife | None) -> bool:
        return self._meeting is not None and sign is not None and self._meeting.is_silent(sign)

    def _end_of(self, rank: int, run: FlowRun) -> State[None]:
        state = self._leader.state if self._leader is not None else None
        if state is None or state.is_cancelled():
            return Cancelled(message="The leader's run was cancelled.")
        return end_of(run, f"Replica {rank} did not report its end before the leader's.")
