"""What a flow sees of the replica it runs in."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from prefect_vertex.replica import shares
from prefect_vertex.replica.heartbeat import Heartbeat, write_progress
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import LEADER_RUN_ID, RUN_ID, Membership
from prefect_vertex.replica.slots import slots_here

if TYPE_CHECKING:
    from prefect_vertex.planning.sizing import WorkProfile
    from prefect_vertex.replica.progress import OwnProgress

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the machines that run a flow together; see `current`.

    Attributes:
        rank: From 0; 0 is the leader, whose flow run is the one that was started.
        world_size: Replicas in all, as they were really provisioned.
    """

    rank: int
    world_size: int

    @property
    def is_leader(self) -> bool:
        """Whether this is rank 0, which merges, writes the summary, and ends last."""
        return self.rank == 0

    @property
    def slots(self) -> int:
        """How many units of work to run at once here, as the job's resource plan says."""
        return slots_here()

    @staticmethod
    def slots_for(profile: WorkProfile | None) -> int:
        """As many as units that were measured to need that much have room for here.

        Args:
            profile: From `measured_profile`; None is the plan of `slots`.
        """
        return slots_here(profile=profile)

    def shard(self, items: Iterable[T], *, key: Callable[[T], Any] | None = None) -> list[T]:
        """This replica's contiguous slice of the sorted items: `[n*r//W, n*(r+1)//W)`.

        All replicas' shards together are the items, each exactly once; their sizes differ by one
        at most, and a shard may be empty. `key` sorts items that cannot be compared.
        """
        return shares.shard(items, self.rank, self.world_size, key=key)

    def assign(self, items: Iterable[T]) -> list[T]:
        """The items whose place in the order given leaves this rank over, modulo the world size."""
        return shares.assign(items, self.rank, self.world_size)

    def barrier(self, name: str) -> None:
        """Wait until every replica has called this as often with this name.

        It waits as long as the others are alive, and blocks: in an async flow, call it with
        `asyncio.to_thread`.  A flow that is retried in its process passes its barriers again.

        Raises:
            ReplicaError: Another replica has died or left without coming (within a minute), or
                there is no staging bucket.
        """
        meeting = _meeting()
        if meeting is not None:
            meeting.barrier(name)

    def gather(self, value: Any, name: str) -> list[Any] | None:
        """Hand a value to the leader: there a list by rank, elsewhere None at once.

        The value travels as a pickle through the staging bucket.  A flow that is retried in its
        process gets the same list again, its own first value included.

        Raises:
            ReplicaError: As for `barrier`; on the leader.
        """
        meeting = _meeting()
        return [value] if meeting is None else meeting.gather(value, name)

    def progress(self, done: float, total: float) -> None:
        """Show how far this replica is, in one progress artifact over all replicas.

        Cheap enough for every unit of work; outside a flow run it shows nothing.
        """
        if not write_progress(done, total) and (artifact := _own_progress()) is not None:
            artifact.show(done, total)


def current() -> Replica:
    """The replica that this process belongs to; outside a job rank 0 of 1.

    Raises:
        PrefectVertexError: The environment describes a cluster, but not readably.
    """
    member = Membership.read()
    return Replica(member.rank, member.world_size)


def start_over() -> None:
    """Begin counting barriers and gathers anew, at the start of a call of the flow's function."""
    if (meeting := _meeting_if_possible()) is not None:
        meeting.start_over()


@functools.cache
def _meeting_of(member: Membership) -> Meeting:
    meeting = Meeting(member)
    if not os.environ.get(LEADER_RUN_ID):
        # `replicas: command`: no launcher gives signs of life, so this process does.
        heartbeat = Heartbeat(member)
        heartbeat.start()
        atexit.register(heartbeat.leave, "its process ended")
    return meeting


def _meeting() -> Meeting | None:
    member = Membership.read()
    return _meeting_of(member) if member.world_size > 1 else None


def _meeting_if_possible() -> Meeting | None:
    member = Membership.read()
    return _meeting_of(member) if member.world_size > 1 and member.staging else None


def _own_progress() -> OwnProgress | None:
    run_id = os.environ.get(RUN_ID)
    return _own_progress_of(run_id) if run_id else None


@functools.cache
def _own_progress_of(run_id: str) -> OwnProgress:
    from prefect_vertex.replica.progress import OwnProgress

    return OwnProgress(run_id)
