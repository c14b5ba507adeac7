"""What a replica says of itself in its signs of life, as the meeting place keeps it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from prefect_vertex.replica.store import Entry

NOTE = "heartbeat"
_LONGEST_REASON = 2000
_LONGEST_WORD = 4096
"""Bytes that a value of an object's metadata may have (MAX_CUSTOM_METADATA_FIELD_VALUE_BYTES in
https://docs.cloud.google.com/storage/docs/reference/rpc/google.storage.v1, read 2026-12)."""
_LONGEST_ESCAPE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOfLife:
    """What a replica last said of itself.

    Attributes:
        has_left: Its flow has ended, and it will come to no further barrier.
        why: How it, or the process that gave the signs, ended; empty while it runs.
        has_told: It has told its progress, be it of no work at all.
        done, total: Its progress; zeros where it has told none.
        silent_seconds: By the store's clock: since its last sign, at the newest sign of all.
        told: It has left because of SIGTERM.
    """

    has_left: bool
    why: str
    has_told: bool
    done: float
    total: float
    silent_seconds: float
    told: bool = False


def sign_word(
    progress: tuple[float, float] | None,
    *,
    left: str | None = None,
    told: bool = False,
    ended_because: str = "",
) -> str:
    """A sign as it is written, in ASCII; `Meeting.say_alive` has the arguments."""
    said = {
        "state": "running" if left is None else "left",
        "why": (left or ended_because)[:_LONGEST_REASON],
        "told": told,
        "progress": progress,
    }
    while (excess := len(word := json.dumps(said)) - _LONGEST_WORD) > 0:
        # A character has more bytes where it is escaped.
        said["why"] = str(said["why"])[: -math.ceil(excess / _LONGEST_ESCAPE)]
    return word


def read_sign(entry: Entry, silent_seconds: float) -> SignOfLife:
    """The sign that is there, given so long ago."""
    said = json.loads(entry.notes.get(NOTE) or "{}")
    progress = said.get("progress")
    done, total = progress or (0, 0)
    return SignOfLife(
        has_left=said.get("state") == "left",
        why=said.get("why", ""),
        has_told=progress is not None,
        done=done,
        total=total,
        silent_seconds=silent_seconds,
        told=said.get("told", False),
    )


def after(sign: SignOfLife) -> str:
    """What the sign was given after, for a message."""
    return f", since {sign.why}" if sign.why else ""
