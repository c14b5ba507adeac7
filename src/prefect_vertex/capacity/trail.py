"""A trail as text: how a walk travels with its run, in one label."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from prefect_vertex.capacity.refusals import RefusalReason
from prefect_vertex.capacity.walk import MAX_MESSAGE_LENGTH, Trail, Try

ROOM_FOR_WORDS = 16_000
"""Characters of services' words in a label, which every read of the run brings along: those of a
walk of six attempts in full, which are mostly far shorter, and equal."""

_SHORT = 80
_LATEST = 32_503_680_000.0
"""The year 3000: what is added to a time of a run must be a date too."""


def format_trail(trail: Trail) -> str:
    """Write a trail as compact JSON; equal words are written once, the newest in full."""
    words: dict[str, int] = {}
    rows = {
        key: [_row(each, words) for each in tries]
        for key, tries in (("e", trail.past), ("x", trail.ruled_out), ("t", trail.tries))
    }
    whole: dict[str, Any] = {
        "of": trail.of,
        "s": trail.serial,
        "n": trail.answered,
        "k": trail.restarts,
        "f": trail.first,
        "b": _seconds(trail.begun_at) if trail.begun_at else 0,
        "a": trail.earlier_attempts,
        "p": trail.earlier_passes,
        **rows,
        "m": _shortened(list(words)),
    }
    kept = {key: value for key, value in whole.items() if value}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def parse_trail(text: str) -> Trail:
    """Read a trail; one that cannot be read is an empty one."""
    try:
        whole = json.loads(text) if text else {}
        words = [str(each) for each in whole.get("m", [])]
        begun = whole.get("b", 0)
        return Trail(
            of=str(whole.get("of", "")),
            serial=int(whole.get("s", 0)),
            answered=int(whole.get("n", 0)),
            restarts=int(whole.get("k", 0)),
            first=int(whole.get("f", 0)),
            begun_at=_moment(begun) if begun else None,
            earlier_attempts=int(whole.get("a", 0)),
            earlier_passes=int(whole.get("p", 0)),
            ruled_out=_tries(whole, "x", words),
            tries=_tries(whole, "t", words),
            past=_tries(whole, "e", words),
        )
    except (AttributeError, IndexError, OSError, OverflowError, TypeError, ValueError):
        # Written by hand or by a version to come: the walk begins anew, which costs time alone.
        return Trail()


def _row(tried: Try, words: dict[str, int]) -> list[Any]:
    return [
        tried.attempt,
        tried.candidate,
        _seconds(tried.begun_at),
        _seconds(tried.ended_at),
        tried.reason.name,
        words.setdefault(tried.message, len(words)),
    ]


def _tries(whole: Mapping[str, Any], key: str, words: Sequence[str]) -> tuple[Try, ...]:
    return tuple(
        Try(
            attempt=int(attempt),
            candidate=int(candidate),
            begun_at=_moment(begun),
            ended_at=_moment(ended),
            reason=_reason(reason),
            message=words[place],
        )
        for attempt, candidate, begun, ended, reason, place in whole.get(key, [])
    )


def _reason(name: object) -> RefusalReason:
    return RefusalReason.__members__.get(str(name), RefusalReason.UNKNOWN)


def _shortened(words: list[str]) -> list[str]:
    """The newest in full while there is room, the others as long as still tells them apart."""
    room, kept = ROOM_FOR_WORDS, []
    for text in reversed(words):
        length = MAX_MESSAGE_LENGTH if room >= len(text) else _SHORT
        kept.append(text[:length])
        room -= len(kept[-1])
    return kept[::-1]


def _seconds(moment: datetime) -> float:
    return round(moment.timestamp(), 3)


def _moment(seconds: float) -> datetime:
    if not 0 <= seconds <= _LATEST:
        raise ValueError(f"{seconds} is no time of a run.")
    return datetime.fromtimestamp(float(seconds), UTC)
