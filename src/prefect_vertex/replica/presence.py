"""Which process speaks for a replica: one gives the signs of life, one meets the others.

The launcher gives the signs where there is one (`replicas: flow`).  Otherwise the first process
does that asks for its replica; it marks its environment, so that what it starts keeps quiet.
Whoever meets marks it too: visits are counted in one process, and two that count would lose values.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica import pool_process
from prefect_vertex.replica.heartbeat import Heartbeat
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import LEADER_RUN_ID, Membership

MEETS = "PREFECT_VERTEX_MEETING_PROCESS"
BEATS = "PREFECT_VERTEX_HEARTBEAT_PROCESS"

_FOR_OTHERS_SECONDS = 10.0
_POLL_SECONDS = 0.5
_logger = logging.getLogger(__name__)


class _Presence:
    """This process's signs of life, where it gives them, and its last word."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heartbeat: Heartbeat | None = None
        self._member: Membership | None = None
        self._meeting: Meeting | None = None
        self._process = 0

    def begin(self, member: Membership) -> None:
        """Give signs of life from now on, unless another process does."""
        with self._lock:
            if self._process == os.getpid() or _is_alive(os.environ.get(BEATS)):
                return
            self._heartbeat = Heartbeat(member)
            os.environ[BEATS] = str(os.getpid())
            self._heartbeat.start()
            self._end_with(member)

    def met(self, member: Membership, meeting: Meeting) -> None:
        """From now on the end of this process is the end of the replica."""
        with self._lock:
            self._meeting = meeting
            if self._process != os.getpid():
                self._end_with(member)

    def _end_with(self, member: Membership) -> None:
        self._member, self._process = member, os.getpid()
        atexit.register(self._end, self._process)

    def _end(self, process: int) -> None:
        # A forked copy of this process is not this process.
        if process != os.getpid() or self._member is None:
            return
        if self._heartbeat is not None:
            self._heartbeat.leave("its process ended", for_good=self._meeting is not None)
        if self._member.is_leader:
            self._clean(self._meeting or Meeting(self._member))

    def _clean(self, meeting: Meeting) -> None:
        begun = time.monotonic()
        patience = _FOR_OTHERS_SECONDS if self._meeting is not None else 0
        try:
            while not meeting.clear_if_unused() and time.monotonic() - begun < patience:
                time.sleep(_POLL_SECONDS)
        except ReplicaError as error:
            _logger.warning("The meeting place could not be deleted: %s", error)


_presence = _Presence()


def be_present(member: Membership) -> None:
    """See to it that the replica gives signs of life."""
    can_be = member.world_size > 1 and member.staging and member.leader_id
    if can_be and not os.environ.get(LEADER_RUN_ID) and not _is_helper():
        _presence.begin(member)


def check_may_meet(member: Membership) -> None:
    """Let one process of a replica meet the others.

    Raises:
        ReplicaError: This is another.
    """
    met = os.environ.get(MEETS)
    if _is_helper() or (met and met != str(os.getpid())):
        raise ReplicaError(
            f"{str(member).capitalize()} cannot meet the others from a process that its flow has"
            f" started ({os.getpid()}): values would be lost.",
            hint="Call barrier and gather in the flow's own process, and return the values there.",
        )


def has_met(member: Membership, meeting: Meeting) -> None:
    """Make this process the one that meets."""
    os.environ[MEETS] = str(os.getpid())
    be_present(member)
    if not os.environ.get(LEADER_RUN_ID):
        _presence.met(member, meeting)


def _is_helper() -> bool:
    """Whether this process, the local pool's or multiprocessing's, works for another."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    is_unit = main is not None and Path(main).resolve() == Path(pool_process.__file__).resolve()
    return is_unit or multiprocessing.parent_process() is not None


def _is_alive(process: str | None) -> bool:
    """Whether the process that is said to give signs of life can do so."""
    if not process or process == str(os.getpid()):
        return False  # nobody; or this one, before it was replaced by exec
    try:
        os.kill(int(process), 0)
    except (OSError, ValueError):
        return False
    return True
