"""Where the replicas of one attempt meet: heartbeats, barriers and gathered values in a bucket.

Below `<staging>/replicas/<leader's run>/a<attempt>/`, so that nothing of an earlier attempt is ever
seen: `alive/<rank>` is written again and again, `barrier/…` and `gather/…` once.  `at/…` says who
waits where (`posts`).
"""

from __future__ import annotations

import logging
import math
import pickle
import time
from typing import Any
from urllib.parse import quote, unquote

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.losses import Loss, Losses
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.pickling import dumps
from prefect_vertex.replica.posts import Posts, describe, ended, names, standstill
from prefect_vertex.replica.seams import runs_around
from prefect_vertex.replica.signs import NOTE, SignOfLife, after, read_sign, sign_word
from prefect_vertex.replica.store import Folder
from prefect_vertex.replica.visits import Visits

__all__ = ["FOLDER", "Meeting", "SignOfLife"]

_logger = logging.getLogger(__name__)

FOLDER = "replicas"
_PLACES = ("barrier/", "gather/")
_FIRST_POLL_SECONDS = 0.2
_LONGEST_POLL_SECONDS = 2.0
_BEATS_TO_REMIND = 6


class Meeting:
    """The meeting place, as one replica sees it. Blocking; for any threads.

    Args:
        member: Who this is.
        patience_seconds: How long a call to the bucket that fails for a passing reason is repeated.
        call_seconds: How long one call may be without an answer.

    Raises:
        ReplicaError: There is no staging bucket, or no flow run.
    """

    def __init__(
        self, member: Membership, *, patience_seconds: float = 60.0, call_seconds: float = 60.0
    ) -> None:
        if not member.staging:
            raise ReplicaError(
                f"{str(member).capitalize()} cannot meet the others: there is no staging bucket.",
                hint="Set the job variable staging_bucket.",
            )
        if not member.leader_id:
            raise ReplicaError(
                f"{str(member).capitalize()} cannot meet the others: it is in no flow run.",
                hint="Set PREFECT__FLOW_RUN_ID, the same for all replicas.",
            )
        self._member = member
        self._folder = Folder(
            f"{member.staging}/{FOLDER}/{member.leader_id}/a{member.attempt}",
            patience_seconds=patience_seconds,
            call_seconds=call_seconds,
        )
        self._visits = Visits()
        self._visited: set[str] = set()
        self._posts = Posts(self._folder, member.rank)
        self._losses = Losses(member)

    def start_over(self) -> None:
        """Begin another try of the flow, which gets the same answers again."""
        self._visits.start_over()
        self._posts.start_over()

    def end(self) -> None:
        """Say that this replica comes to no further barrier, though it has not left yet."""
        self._posts.end()

    def check_visits(self) -> None:
        """See, once all others have ended, that no retry took one visit for another.

        Raises:
            ReplicaError: One may have: a try came to fewer visits than the one before, or others
                have come to more.
        """
        made = self._visits.of_retries()
        doubtful = set(self._visits.uncertain())
        for kind in _PLACES if made else ():
            for name in self._folder.entries(kind):
                place, visit, _ = f"{kind}{name}".rsplit("/", 2)
                if int(visit) >= made.get(place, math.inf):
                    doubtful.add(place)
        if doubtful:
            kind, _, name = min(doubtful).partition("/")
            raise ReplicaError(
                f"A retry left out visits of {kind} {unquote(name)!r}, and may have taken one for"
                " another.",
                hint="Give each visit that a retry may leave out a name of its own.",
            )

    def barrier(self, name: str) -> None:
        """Wait until every replica has come to the same visit of this barrier.

        Raises:
            ReplicaError: One has gone silent, or has left without coming; or every replica waits
                for others, at different places.
        """
        place, what = self._come_to("barrier", name, b"")
        self._wait_for_all(place, what)

    def gather(self, value: Any, name: str) -> list[Any] | None:
        """Leave a value for the leader; on the leader, wait for all and return them by rank."""
        # First: a value that cannot travel is no visit.
        content = dumps(value)
        place, what = self._come_to("gather", name, content)
        if not self._member.is_leader:
            return None
        self._wait_for_all(place, what)
        # Also one's own: a retry returns what was said the first time.
        return [
            pickle.loads(self._folder.get(f"{place}/{rank}"))  # noqa: S301 - the replicas' own words
            for rank in range(self._member.world_size)
        ]

    def say_alive(
        self,
        *,
        progress: tuple[float, float] | None = None,
        left: str | None = None,
        told: bool = False,
        ended_because: str = "",
    ) -> None:
        """Give a sign of life.

        Args:
            progress: What it has done, and of how much; None where it has told nothing.
            left: How this replica ended; None while it runs.
            told: SIGTERM has ended it.
            ended_because: How the process ended that gave the signs, where another may go on.
        """
        word = sign_word(progress, left=left, told=told, ended_because=ended_because)
        self._folder.put(f"alive/{self._member.rank}", word.encode(), {NOTE: word})

    def signs_of_life(self) -> dict[int, SignOfLife]:
        """What each replica last said, by rank; one that has not begun is missing."""
        entries = self._folder.entries("alive/")
        # Our own launcher writes here too, so the newest sign is at most one beat old.
        newest = max((entry.updated for entry in entries.values()), default=None)
        return {
            int(name): read_sign(entry, (newest - entry.updated).total_seconds())
            for name, entry in entries.items()
            if newest is not None
        }

    def signs_if_any(self) -> dict[int, SignOfLife]:
        """The same; empty, with a warning, while the bucket does not answer."""
        try:
            return self.signs_of_life()
        except ReplicaError as error:
            _logger.warning("Cannot see who is alive: %s", error)
            return {}

    def is_silent(self, sign: SignOfLife) -> bool:
        """Whether a replica that has not left counts as dead."""
        return not sign.has_left and sign.silent_seconds > self._member.silence_seconds

    def clear(self) -> None:
        """Delete what this run's replicas have left here, in this attempt and earlier ones."""
        member = self._member
        Folder(f"{member.staging}/{FOLDER}/{member.leader_id}").clear()

    def clear_if_unused(self) -> bool:
        """The same where nobody needs it any more; whether that is so. It may run at exit.

        Nobody does once all others have left, unless something is left at a place that this
        process has never been to: another of this replica may come for it.
        """
        signs = self.signs_of_life()
        everything = self._folder.entries("")
        others = set(range(self._member.world_size)) - {self._member.rank}
        have_left = all(rank in signs and signs[rank].has_left for rank in others)
        if not have_left and everything.keys() - {f"alive/{self._member.rank}"}:
            return False
        places = {name.rpartition("/")[0] for name in everything if name.startswith(_PLACES)}
        if places - self._visited:
            return False
        self.clear()
        return True

    def _come_to(self, kind: str, name: str, content: bytes) -> tuple[str, str]:
        """Leave word at the next visit; its folder, and what people call it.

        Without that word nobody knows of the visit, and who calls again comes for the same one.
        """
        if not name:
            raise ValueError(f"A {kind} needs a name.")
        place = f"{kind}/{quote(name, safe='')}"
        around = runs_around()
        visit = self._visits.next(place, around)
        try:
            self._folder.put_once(f"{place}/{visit}/{self._member.rank}", content)
        except ReplicaError:
            self._visits.take_back(place, around)
            raise
        self._visited.add(f"{place}/{visit}")
        return f"{place}/{visit}", f"{kind} {name!r}" + (f", visit {visit + 1}" if visit else "")

    def _wait_for_all(self, place: str, what: str) -> None:
        beat = self._member.heartbeat_seconds
        pause = _FIRST_POLL_SECONDS
        begun = time.monotonic()
        look_at, remind_at = begun + beat / 2, begun + _BEATS_TO_REMIND * beat
        has_post = False
        try:
            while missing := self._missing(place):
                self._check_alive(missing, place, what)
                now = time.monotonic()
                if now >= look_at:
                    if not has_post:
                        self._posts.take(place, what)
                        has_post = True
                    self._check_order(missing, place, what)
                    look_at = now + beat
                if now >= remind_at:
                    self._remind(missing, what, now - begun)
                    remind_at = now + _BEATS_TO_REMIND * beat
                time.sleep(pause)
                pause = min(pause * 1.3, _LONGEST_POLL_SECONDS)
        finally:
            if has_post:
                self._posts.leave()

    def _check_order(self, missing: set[int], place: str, what: str) -> None:
        gone = missing & ended(self._posts.read()) & self._missing(place)
        if gone:
            raise ReplicaError(
                f"The flow function of {names(gone)} of {self._member.world_size} has ended without"
                f" coming to {what}."
            )
        stands = standstill(self._posts.read, self._missing, self._member.world_size)
        if stands:
            raise ReplicaError(
                f"No replica can go on: {stands}.",
                hint="Let all replicas come to the same barriers and gathers in the same order.",
            )

    def _remind(self, missing: set[int], what: str, seconds: float) -> None:
        posts = [post for post in self._posts.read() if post.rank in missing]
        where = describe(posts)
        _logger.warning(
            "Replica %d has waited at %s for %.0f s: %s not there%s.",
            self._member.rank,
            what,
            seconds,
            f"{names(missing)} {'is' if len(missing) == 1 else 'are'}",
            f" ({where})" if where else "",
        )

    def _missing(self, place: str) -> set[int]:
        come = {int(name) for name in self._folder.entries(f"{place}/")}
        return set(range(self._member.world_size)) - come

    def _check_alive(self, missing: set[int], place: str, what: str) -> None:
        signs = self.signs_of_life()
        for rank in sorted(missing & signs.keys()):
            sign = signs[rank]
            is_silent = self.is_silent(sign)
            if not is_silent and not sign.has_left:
                self._losses.forget(rank)
                continue
            loss = Loss.SILENT if is_silent else Loss.TOLD if sign.told else None
            # It may have come and left between our two looks.
            if rank not in self._missing(place) or self._losses.bears(rank, loss):
                continue
            if is_silent:
                raise ReplicaError(
                    f"Replica {rank} of {self._member.world_size} did not come to {what}:"
                    f" no sign of life for {sign.silent_seconds:.0f} s{after(sign)}."
                )
            raise ReplicaError(
                f"Replica {rank} of {self._member.world_size} left without coming to"
                f" {what}: {sign.why}"
            )
