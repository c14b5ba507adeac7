"""One emulated job, as the emulator and tests see it: what it is, and how to end it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator.crew import PRIMARY
from prefect_vertex.emulator.life import Life
from prefect_vertex.emulator.output import ReplicaOutput, read_output
from prefect_vertex.emulator.record import TERMINAL, WITH_ERROR, JobRecord
from prefect_vertex.emulator.replica import Replica
from prefect_vertex.emulator.surroundings import Surroundings
from prefect_vertex.emulator.verdicts import Verdict


class EmulatedJob:
    """One job; `record` is what clients see of it.

    A job that was not begun stays as it is until it is cancelled or ended: it has no life, takes
    no memory for one, and never runs a process.

    Args:
        record: Its resource.
        surroundings: The emulator's.
    """

    __slots__ = ("_life", "_surroundings", "_task", "record")

    def __init__(self, record: JobRecord, surroundings: Surroundings) -> None:
        self.record = record
        self._surroundings = surroundings
        self._life: Life | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The resource name, with the project's number."""
        return str(self.record.name)

    @property
    def state(self) -> JobState:
        """The state now."""
        return self.record.state

    @property
    def resource(self) -> CustomJob:
        """A copy of the resource as GetCustomJob answers it."""
        return self.record.resource

    @property
    def directory(self) -> Path:
        """Where its replicas keep their files."""
        return self._surroundings.scratch / self.record.name.job_id

    @property
    def replicas(self) -> list[str]:
        """Names of the replicas, the primary first; empty before provisioning is over."""
        crew = self._life.crew if self._life else None
        return [replica.name for replica in crew.replicas] if crew else []

    @property
    def starts(self) -> list[Replica]:
        """Every container that was started, restarted ones each time, oldest first."""
        return list(self._life.starts) if self._life else []

    @property
    def has_life(self) -> bool:
        """Whether it was begun, so that it has to be stopped."""
        return self._life is not None

    def output(self, replica: str = PRIMARY) -> ReplicaOutput:
        """What a replica has written in all its starts; empty when there is none yet."""
        return read_output(self.directory / replica)

    async def wait_until(
        self, holds: Callable[[CustomJob], bool], seconds: float = 30
    ) -> CustomJob:
        """Wait until the resource is as wanted and return a copy of it.

        Raises:
            TimeoutError: It was not so within `seconds`.
        """
        return await self.record.wait_until(holds, seconds)

    async def wait_for_end(self, seconds: float = 30) -> CustomJob:
        """Wait until the job is terminal and, where its end has an error, that is set."""
        return await self.wait_until(
            lambda job: job.state in TERMINAL - WITH_ERROR or "error" in job, seconds
        )

    def begin(self) -> Life:
        """Start the job's life, if it has none."""
        if self._life is None:
            self._surroundings.show_state(self.record)
            self._life = Life(self.record, self.directory, self._surroundings)
            self._task = asyncio.create_task(self._life.run(), name=self.name)
        return self._life

    def cancel(self) -> None:
        """Ask the job to end; harmless when that was asked before, or when it is ending anyway."""
        if self.record.is_terminal or self.state == JobState.JOB_STATE_CANCELLING:
            return
        # In this order: the life of a job that had none begins by looking at what is wanted.
        self.begin().cancel()
        self.record.enter(JobState.JOB_STATE_CANCELLING)
        self._surroundings.show_state(self.record)

    def end(self, verdict: Verdict) -> None:
        """End the job so, whatever its replicas do."""
        if not self.record.is_terminal:
            self.begin().end_with(verdict)

    async def stop(self) -> None:
        """End the job because the emulator ends: no waiting but for the shutdown grace.

        Returns when no process of it is left.
        """
        if self._life is None or self._task is None:
            return
        self._life.stop()
        timings = self._surroundings.timings
        grace = min(timings.shutdown_grace_seconds, timings.termination_grace_seconds)
        await asyncio.wait([self._task], timeout=grace)
        if self._life.crew:
            self._life.crew.kill()
        await self._task

    async def discard(self) -> None:
        """Remove what the job has left on disk, once its life is over."""
        if self._task is None:
            return
        await asyncio.wait([self._task])
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)
