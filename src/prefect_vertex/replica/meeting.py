"""Where the replicas of one attempt meet: heartbeats, barriers and gathered values in a bucket.

Below `<staging>/replicas/<leader's run>/a<attempt>/`, so that nothing of an earlier attempt is ever
seen: `alive/<rank>` is written again and again, `barrier/…` and `gather/…` once.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.store import Entry, Folder

_logger = logging.getLogger(__name__)

FOLDER = "replicas"
_NOTE = "heartbeat"
_FIRST_POLL_SECONDS = 0.2
_LONGEST_POLL_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOfLife:
    """What a replica last said of itself.

    Attributes:
        has_left: Its flow has ended, and it will come to no further barrier.
        why: How it ended; empty while it runs.
        done, total: Its progress; `total` 0 where it has told none.
        silent_seconds: By the store's clock: since its last sign, at the newest sign of all.
    """

    has_left: bool
    why: str
    done: float
    total: float
    silent_seconds: float


class Meeting:
    """The meeting place, as one replica sees it. Blocking; for one thread at a time.

    Args:
        member: Who this is.
        patience_seconds: How long a call to the bucket that fails for a passing reason is repeated.

    Raises:
        ReplicaError: There is no staging bucket, or no flow run.
    """

    def __init__(self, member: Membership, *, patience_seconds: float = 60.0) -> None:
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
        )
        self._visits: Counter[str] = Counter()

    def start_over(self) -> None:
        """Begin counting visits anew: a flow that is retried gets the same answers again."""
        self._visits.clear()

    def barrier(self, name: str) -> None:
        """Wait until every replica has come to the same visit of this barrier.

        Raises:
            ReplicaError: One has gone silent, or has left without coming.
        """
        place = self._next_visit("barrier", name)
        self._folder.put_once(f"{place}/{self._member.rank}", b"")
        self._wait_for_all(place, f"barrier {name!r}")

    def gather(self, value: Any, name: str) -> list[Any] | None:
        """Leave a value for the leader; on the leader, wait for all and return them by rank."""
        import cloudpickle

        place = self._next_visit("gather", name)
        self._folder.put_once(f"{place}/{self._member.rank}", cloudpickle.dumps(value))
        if not self._member.is_leader:
            return None
        self._wait_for_all(place, f"gather {name!r}")
        # Also one's own: a retry returns what was said the first time.
        return [
            cloudpickle.loads(self._folder.get(f"{place}/{rank}"))
            for rank in range(self._member.world_size)
        ]

    def say_alive(self, *, done: float = 0, total: float = 0, left: str | None = None) -> None:
        """Give a sign of life; `left` says how this replica ended."""
        said = json.dumps(
            {
                "state": "running" if left is None else "left",
                "why": (left or "")[:2000],
                "progress": [done, total],
            }
        )
        self._folder.put(f"alive/{self._member.rank}", said.encode(), {_NOTE: said})

    def signs_of_life(self) -> dict[int, SignOfLife]:
        """What each replica last said, by rank; one that has not begun is missing."""
        entries = self._folder.entries("alive/")
        # Our own launcher writes here too, so the newest sign is at most one beat old.
        newest = max((entry.updated for entry in entries.values()), default=None)
        return {
            int(name): _sign(entry, (newest - entry.updated).total_seconds())
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

    def _next_visit(self, kind: str, name: str) -> str:
        if not name:
            raise ValueError(f"A {kind} needs a name.")
        place = f"{kind}/{quote(name, safe='')}"
        visit = self._visits[place]
        self._visits[place] += 1
        return f"{place}/{visit}"

    def _wait_for_all(self, place: str, what: str) -> None:
        pause = _FIRST_POLL_SECONDS
        while missing := self._missing(place):
            self._check_alive(missing, place, what)
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_POLL_SECONDS)

    def _missing(self, place: str) -> set[int]:
        come = {int(name) for name in self._folder.entries(f"{place}/")}
        return set(range(self._member.world_size)) - come

    def _check_alive(self, missing: set[int], place: str, what: str) -> None:
        signs = self.signs_of_life()
        for rank in sorted(missing & signs.keys()):
            sign = signs[rank]
            if self.is_silent(sign):
                raise ReplicaError(
                    f"Replica {rank} of {self._member.world_size} did not come to {what}:"
                    f" no sign of life for {sign.silent_seconds:.0f} s."
                )
            # It may have come and left between our two looks.
            if sign.has_left and rank in self._missing(place):
                raise ReplicaError(
                    f"Replica {rank} of {self._member.world_size} left without coming to"
                    f" {what}: {sign.why}"
                )


def _sign(entry: Entry, silent_seconds: float) -> SignOfLife:
    said = json.loads(entry.notes.get(_NOTE) or "{}")
    done, total = said.get("progress", (0, 0))
    return SignOfLife(
        has_left=said.get("state") == "left",
        why=said.get("why", ""),
        done=done,
        total=total,
        silent_seconds=silent_seconds,
    )
