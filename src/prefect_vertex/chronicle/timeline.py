"""The lanes of a drawn timeline: one for each attempt, with a row for each replica or group.

The number of rows is bounded: of many attempts the first and the last are drawn, of many replicas
one row for each worker pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from prefect_vertex.chronicle.chronicle import AttemptRecord, Chronicle
from prefect_vertex.lifecycle.snapshot import PoolMachines

MAX_ATTEMPTS = 12
FIRST_ATTEMPTS = 3
"""Of more attempts than that, so many of the first are drawn, and the last ones."""

MAX_ROWS = 32
"""Rows of all attempts together, where there are fewer attempts than rows."""

MIN_ROWS = 2


class Stage(Enum):
    """What a bar stands for."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    STARTING = "some replicas running"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time."""

    stage: Stage
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Row:
    """A replica, or several that are drawn as one."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One attempt.

    Attributes:
        failed_at: When it ended as nobody wanted, None if it did not.
    """

    title: str
    rows: tuple[Row, ...] = ()
    failed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What is drawn."""

    begin: datetime
    end: datetime
    lanes: tuple[Lane, ...] = field(default=())


def lay_out(chronicle: Chronicle) -> Timeline:
    """The timeline of a chronicle."""
    drawn = _drawn(chronicle.attempts)
    shown = sum(1 for each in drawn if each is not None)
    room = max(MIN_ROWS, MAX_ROWS // max(1, shown))
    left_out = len(chronicle.attempts) - shown
    lanes = tuple(
        Lane(title=f"… {left_out} more attempts …")
        if each is None
        else _lane(each, chronicle.at, room)
        for each in drawn
    )
    begin = min((each.began_at for each in chronicle.attempts), default=chronicle.at)
    ends = [each.ended_at for each in chronicle.attempts if each.ended_at is not None]
    return Timeline(begin=begin, end=max([chronicle.at, begin, *ends]), lanes=lanes)


def _drawn(attempts: Sequence[AttemptRecord]) -> list[AttemptRecord | None]:
    if len(attempts) <= MAX_ATTEMPTS:
        return list(attempts)
    last = MAX_ATTEMPTS - FIRST_ATTEMPTS
    return [*attempts[:FIRST_ATTEMPTS], None, *attempts[-last:]]


def _lane(record: AttemptRecord, at: datetime, room: int) -> Lane:
    number = f"Attempt {record.attempt}" if record.attempt else "Not tried"
    return Lane(
        title=f"{number} · {record.place} · {record.reason}",
        rows=tuple(_rows(record, at, room)),
        failed_at=record.ended_at if record.failed else None,
    )


def _rows(record: AttemptRecord, at: datetime, room: int) -> list[Row]:
    if record.job is None:
        return [Row("no job", ())] if record.attempt else []
    pools = record.job.machines
    if not pools:
        return [Row("job", _bars(record, at, list(record.starts)))]
    alone = sum(pool.replicas for pool in pools) <= room
    rows: list[Row] = []
    for pool in pools:
        if alone or pool.replicas == 1:
            rows += [
                Row(f"workerpool{pool.pool}-{place}", _bars(record, at, _ranks(pool, place)))
                for place in range(pool.replicas)
            ]
            continue
        label = f"workerpool{pool.pool}, all {pool.replicas}"
        rows.append(Row(label, _bars(record, at, _known_ranks(record, pool))))
    return rows


def _ranks(pool: PoolMachines, place: int) -> list[int]:
    """A replica's rank: pool 0 has rank 0, pool 1 the ranks after it, others have none."""
    if pool.pool == 0:
        return [0]
    return [place + 1] if pool.pool == 1 else []


def _known_ranks(record: AttemptRecord, pool: PoolMachines) -> list[int]:
    """The ranks of a group that have claimed their start."""
    return [rank for rank in record.starts if rank > 0] if pool.pool == 1 else []


def _bars(record: AttemptRecord, at: datetime, ranks: Sequence[int]) -> tuple[Bar, ...]:
    """One row's bars, each later than the one before."""
    end = record.ended_at or at
    starts = [record.starts[rank] for rank in ranks if rank in record.starts]
    usual = record.started_at
    first = min(starts) if starts else usual
    last = max(starts) if starts else usual
    moments: list[tuple[Stage, datetime | None]] = [
        (Stage.QUEUED, record.began_at),
        (Stage.PROVISIONING, record.provisioning_at),
        (Stage.STARTING, first if first != last else None),
        (Stage.RUNNING, last),
    ]
    known = [(stage, moment) for stage, moment in moments if moment is not None]
    # Clocks differ, and a replica may begin before its job is called running: the later stage wins.
    nexts = [
        min([moment for _, moment in known[place + 1 :]], default=end)
        for place in range(len(known))
    ]
    bars = [
        Bar(stage, max(begin, record.began_at), min(until, end))
        for (stage, begin), until in zip(known, nexts, strict=True)
    ]
    return tuple(bar for bar in bars if bar.begin < bar.end)
