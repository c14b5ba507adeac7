"""Which replica of which attempt this process belongs to, as the environment says."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.gang import HEARTBEAT_SECONDS, LOSS_SECONDS, SECONDS_BOUNDS
from prefect_vertex.replica.topology import read_place

RUN_ID = "PREFECT__FLOW_RUN_ID"
ATTEMPT = "PREFECT_VERTEX_ATTEMPT"
STAGING = "PREFECT_VERTEX_STAGING"
GUARD = "PREFECT_VERTEX_GUARD"

# The launcher sets these two for the engine's process.
LEADER_RUN_ID = "PREFECT_VERTEX_LEADER_RUN_ID"
PROGRESS_FILE = "PREFECT_VERTEX_PROGRESS_FILE"

_DEFAULT_HEARTBEAT_SECONDS = 10.0
_DEFAULT_LOSS_SECONDS = 55.0  # a barrier fails within a minute of a replica that died
_MISSED_BEATS = 4.5
_LONGEST_NUMBER = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A replica's place in one attempt of one leader's run.

    Attributes:
        rank: From 0; 0 is the leader.
        world_size: Replicas in all.
        leader_id: The leader's flow run; empty outside a flow run.
        attempt: From 1.
        staging: `gs://bucket` or `gs://bucket/prefix`; empty without a staging bucket.
        heartbeat_seconds: Between two signs of life.
        loss_seconds: How long a replica that was lost with its machine fails nobody; see `losses`.
        restarts: Vertex AI may start a replica again within the attempt.
    """

    rank: int = 0
    world_size: int = 1
    leader_id: str = ""
    attempt: int = 1
    staging: str = ""
    heartbeat_seconds: float = _DEFAULT_HEARTBEAT_SECONDS
    loss_seconds: float = _DEFAULT_LOSS_SECONDS
    restarts: bool = False

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read it from the variables that worker, bootstrap and launcher set.

        Raises:
            SetupError: One of them cannot be read.
        """
        place = read_place(environment)
        return cls(
            rank=place.rank,
            world_size=place.world_size,
            leader_id=environment.get(LEADER_RUN_ID) or environment.get(RUN_ID) or "",
            attempt=_attempt(environment.get(ATTEMPT, "")),
            staging=environment.get(STAGING, "").rstrip("/"),
            heartbeat_seconds=_seconds(environment, HEARTBEAT_SECONDS, _DEFAULT_HEARTBEAT_SECONDS),
            loss_seconds=_seconds(environment, LOSS_SECONDS, _DEFAULT_LOSS_SECONDS),
            restarts=environment.get(GUARD) == "0",
        )

    @property
    def is_leader(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @property
    def silence_seconds(self) -> float:
        """How long a replica may give no sign of life until it counts as dead."""
        return _MISSED_BEATS * self.heartbeat_seconds

    def __str__(self) -> str:
        return f"replica {self.rank} of {self.world_size}"


def _attempt(text: str) -> int:
    text = text.strip() or "1"
    if not (text.isascii() and text.isdecimal() and text.strip("0")) or len(text) > _LONGEST_NUMBER:
        raise SetupError(f"{ATTEMPT} is {text[:40]!r}, expected a number of 1 or more.")
    return int(text)


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    least, most = SECONDS_BOUNDS[name]
    text = environment.get(name, "")
    try:
        seconds = float(text.strip() or default)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= most:
        raise SetupError(
            f"{name} is {text[:40]!r}, expected seconds from {least:g} to {most:g}.",
            hint=f"Leave it out for {default:g}.",
        )
    return seconds
