"""What a flow sees of the replica it runs in."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica import shares
from prefect_vertex.replica.heartbeat import figures, write_progress
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import RUN_ID, Membership
from prefect_vertex.replica.presence import be_present, check_may_meet, has_met
from prefect_vertex.replica.slots import slots_here

if TYPE_CHECKING:
    from prefect_vertex.planning.sizing import WorkProfile
    from prefect_vertex.replica.progress import OwnProgress

T = TypeVar("T")

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_meetings: dict[Membership, Meeting] = {}
_artifacts: dict[str, OwnProgress] = {}
_warned: set[str] = set()


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
        `asyncio.to_thread`.  A flow, subflow or task that is retried in its process passes the
        barriers again that it had come to, without the others.

        Raises:
            ReplicaError: Another replica has left without coming, or was lost a minute ago, all
                replicas wait at different places, this is not the process of the flow, or there is
                no staging bucket.
        """
        meeting = _meeting()
        if meeting is not None:
            meeting.barrier(name)

    def gather(self, value: Any, name: str) -> list[Any] | None:
        """Hand a value to the leader: there a list by rank, elsewhere None at once.

        The value travels as a pickle through the staging bucket.  A flow, subflow or task that is
        retried in its process gets the same list again, its own first value included.

        Raises:
            ReplicaError: As for `barrier`; on the leader.
        """
        meeting = _meeting()
        return [value] if meeting is None else meeting.gather(value, name)

    def progress(self, done: float, total: float) -> None:
        """Show how far this replica is, in one progress artifact over all replicas.

        Cheap enough for every unit of work; outside a flow run it shows nothing.  It never fails:
        what is no finite number, or cannot be shown, is left out, with one warning.
        """
        known = figures(done, total)
        if known is None:
            _warn_once(f"Progress is left out that is no finite number: {done!r} of {total!r}")
            return
        try:
            if not write_progress(*known) and (artifact := _own_progress()) is not None:
                artifact.show(*known)
        except Exception as error:  # noqa: BLE001 - progress is never worth a run's end
            _warn_once(f"Progress cannot be shown: {type(error).__name__}: {error}")


def current() -> Replica:
    """The replica that this process belongs to; outside a job rank 0 of 1.

    With `replicas: command` the first process of a replica that asks gives its signs of life from
    then on, until its end.

    Raises:
        PrefectVertexError: The environment describes a cluster, but not readably.
    """
    member = Membership.read()
    be_present(member)
    return Replica(member.rank, member.world_size)


def start_over() -> None:
    """Begin another try of all barriers and gathers, at the start of the flow's function."""
    if (meeting := _meeting_if_possible()) is not None:
        meeting.start_over()


def end_meeting() -> None:
    """Say that the flow's function has ended, and so comes to no further barrier."""
    if (meeting := _meeting_if_possible()) is None:
        return
    try:
        meeting.end()
    except ReplicaError as error:
        # It only spares others a wait in vain.
        _logger.warning("The end of the flow function could not be told: %s", error)


def check_visits() -> None:
    """See that no retry took one visit for another, once the other replicas have ended.

    Raises:
        ReplicaError: One may have.
    """
    if (meeting := _meeting_if_possible()) is not None:
        meeting.check_visits()


def _meeting() -> Meeting | None:
    member = Membership.read()
    if member.world_size == 1:
        return None
    check_may_meet(member)
    with _lock:
        if member not in _meetings:
            _meetings[member] = Meeting(member)
            has_met(member, _meetings[member])
        return _meetings[member]


def _meeting_if_possible() -> Meeting | None:
    return _meeting() if Membership.read().staging else None


def _own_progress() -> OwnProgress | None:
    run_id = os.environ.get(RUN_ID)
    if not run_id:
        return None
    from prefect_vertex.replica.progress import OwnProgress

    with _lock:
        if run_id not in _artifacts:
            _artifacts[run_id] = OwnProgress(run_id)
        return _artifacts[run_id]


def _warn_once(message: str) -> None:
    kind = message.partition(":")[0]
    if kind not in _warned:
        _warned.add(kind)
        _logger.warning("%s", message)
