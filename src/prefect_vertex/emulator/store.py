"""The jobs of all projects and locations, in the order of their creation."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from heapq import merge
from typing import Final

import grpc
from google.cloud.aiplatform_v1.types import JobState

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.grammar import Filter
from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.names import JobName, Place
from prefect_vertex.emulator.record import TERMINAL

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TERMINAL_NAMES: Final = frozenset(JobState(state).name for state in TERMINAL)
_LIVE_NAMES: Final = frozenset(JobState.__members__) - _TERMINAL_NAMES


class _Index:
    """Positions of jobs, ascending: all of them, and those that carry a label."""

    def __init__(self) -> None:
        self._all: list[int] = []
        self._by_label: dict[tuple[str, str], list[int]] = {}

    def add(self, position: int, labels: Mapping[str, str]) -> None:
        insort(self._all, position)
        for label in labels.items():
            insort(self._by_label.setdefault(label, []), position)

    def remove(self, position: int, labels: Mapping[str, str]) -> None:
        _remove(self._all, position)
        for label in labels.items():
            _remove(self._by_label[label], position)
            if not self._by_label[label]:
                del self._by_label[label]

    def descending(self, labels: Mapping[str, str], before: int | None) -> Iterator[int]:
        """At least the jobs with all these labels, perhaps others too."""
        candidates = [self._by_label.get(label, []) for label in labels.items()]
        positions = min(candidates, key=len, default=self._all)
        end = len(positions) if before is None else bisect_left(positions, before)
        return (positions[number] for number in range(end - 1, -1, -1))


class JobStore:
    """Jobs by name, and by place in the order of creation.

    Each has a position, the microsecond of its creation, which no other job has and which is what
    page tokens name.  Ended jobs and live ones are indexed apart: a place may hold thousands of
    the ones and few of the others.
    """

    def __init__(self) -> None:
        self._jobs: dict[JobName, tuple[int, EmulatedJob]] = {}
        self._at: dict[int, EmulatedJob] = {}
        self._live: dict[Place, _Index] = {}
        self._ended: dict[Place, _Index] = {}
        self._discarding: dict[EmulatedJob, asyncio.Task[None]] = {}
        self.removed: list[EmulatedJob] = []
        """Jobs that were deleted, oldest deletion first."""

    def add(self, job: EmulatedJob) -> None:
        """Keep a job."""
        position = (job.record.created - _EPOCH) // _MICROSECOND
        while position in self._at:
            position += 1
        self._jobs[job.record.name] = (position, job)
        self._at[position] = job
        self._index(job).add(position, job.record.row.labels)
        if not job.record.is_terminal:
            job.record.on_end = lambda: self._note_end(job)

    def get(self, name: JobName) -> EmulatedJob:
        """The job of that name.

        Raises:
            ApiError: NOT_FOUND.
        """
        if name not in self._jobs:
            raise ApiError(grpc.StatusCode.NOT_FOUND, wordings.job_not_found_inferred(str(name)))
        return self._jobs[name][1]

    def remove(self, name: JobName) -> None:
        """Forget a job, which must be there; its files go when its life is over."""
        position, job = self._jobs.pop(name)
        del self._at[position]
        self._index(job).remove(position, job.record.row.labels)
        job.record.on_end = None
        self.removed.append(job)
        task = asyncio.create_task(job.discard())
        self._discarding[job] = task
        task.add_done_callback(lambda _task: self._discarding.pop(job))

    def newest_first(
        self, place: Place, wanted: Filter, *, before: int | None = None, by_state: bool = True
    ) -> Iterator[tuple[int, EmulatedJob]]:
        """The jobs of one place that may pass the filter, with their positions.

        Args:
            place: Where.
            wanted: Only what it excludes by label or state is left out.
            before: Only jobs created before that position.
            by_state: Whether the state now is what the filter will be asked about.
        """
        parts = []
        for index, states in ((self._live, _LIVE_NAMES), (self._ended, _TERMINAL_NAMES)):
            if place in index and not (by_state and states <= wanted.excluded):
                parts.append(index[place].descending(wanted.labels, before))
        return ((position, self._at[position]) for position in merge(*parts, reverse=True))

    def all_newest_first(self) -> list[EmulatedJob]:
        """The jobs of every place."""
        return [self._at[position] for position in sorted(self._at, reverse=True)]

    async def stop_all(self) -> None:
        """Stop every job, deleted ones included; returns when none of their processes is left."""
        jobs = [job for job in (*self._at.values(), *self._discarding) if job.has_life]
        discarding = list(self._discarding.values())
        ends = await asyncio.gather(
            *(job.stop() for job in jobs), *discarding, return_exceptions=True
        )
        # Every job is stopped before the first bug in one of them is heard of.
        for end in ends:
            if end is not None:
                raise end

    def _index(self, job: EmulatedJob) -> _Index:
        index = self._ended if job.record.is_terminal else self._live
        return index.setdefault(job.record.name.place, _Index())

    def _note_end(self, job: EmulatedJob) -> None:
        position, _ = self._jobs[job.record.name]
        labels = job.record.row.labels
        self._live[job.record.name.place].remove(position, labels)
        self._index(job).add(position, labels)


def _remove(positions: list[int], position: int) -> None:
    del positions[bisect_left(positions, position)]
