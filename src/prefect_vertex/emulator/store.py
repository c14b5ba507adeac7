"""The jobs of all projects and locations, in the order of their creation."""

from __future__ import annotations

import asyncio

import grpc

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.names import JobName, Place


class JobStore:
    """Jobs by place and id; each keeps the number of its creation for paging."""

    def __init__(self) -> None:
        self._jobs: dict[JobName, tuple[int, EmulatedJob]] = {}
        self._places: dict[Place, dict[int, EmulatedJob]] = {}
        self._created = 0
        self._removed: dict[EmulatedJob, asyncio.Task[None]] = {}

    def add(self, job: EmulatedJob) -> None:
        """Keep a job as the newest of its place."""
        self._created += 1
        self._jobs[job.record.name] = (self._created, job)
        self._places.setdefault(job.record.name.place, {})[self._created] = job

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
        number, job = self._jobs.pop(name)
        del self._places[name.place][number]
        task = asyncio.create_task(job.discard())
        self._removed[job] = task
        task.add_done_callback(lambda _task: self._removed.pop(job))

    def newest_first(self, place: Place) -> list[tuple[int, EmulatedJob]]:
        """The jobs of one place with the numbers of their creation."""
        return list(reversed(self._places.get(place, {}).items()))

    def all_newest_first(self) -> list[EmulatedJob]:
        """The jobs of every place."""
        return [job for _, job in reversed(self._jobs.values())]

    async def stop_all(self) -> None:
        """Stop every job, deleted ones included; returns when none of their processes is left."""
        jobs = [*self.all_newest_first(), *self._removed]
        discarding = list(self._removed.values())
        ends = await asyncio.gather(
            *(job.stop() for job in jobs), *discarding, return_exceptions=True
        )
        # Every job is stopped before the first bug in one of them is heard of.
        for end in ends:
            if end is not None:
                raise end
