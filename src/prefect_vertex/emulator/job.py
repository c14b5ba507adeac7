"""One emulated job: its life from QUEUED to its end, and the replicas that it runs.

The life is a single coroutine that nobody cancels: a client's cancel and the emulator's stop are
events that it looks at wherever it waits, so that no replica is ever left behind.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.cloud.aiplatform_v1.types import CustomJob, JobState
from google.rpc import code_pb2

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.environment import plan_replicas
from prefect_vertex.emulator.names import JobName
from prefect_vertex.emulator.output import ReplicaOutput, error_tail, read_output
from prefect_vertex.emulator.record import JobRecord
from prefect_vertex.emulator.replica import Replica
from prefect_vertex.emulator.surroundings import Surroundings

logger = logging.getLogger(__name__)

PRIMARY: Final = "workerpool0-0"
# What a job without `scheduling.timeout` may take.
_DEFAULT_TIMEOUT_SECONDS: Final = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job ends, as a JobState; decided before its replicas are down."""

    state: int
    code: int = code_pb2.OK
    message: str = ""


_SUCCEEDED: Final = Verdict(JobState.JOB_STATE_SUCCEEDED)
_CANCELLED: Final = Verdict(
    JobState.JOB_STATE_CANCELLED, code_pb2.CANCELLED, wordings.CANCELLED_INFERRED
)


class EmulatedJob:
    """One job; `record` is what clients see of it.

    Args:
        request: The CustomJob as the client sent it, already checked.
        name: Its new name.
        surroundings: The emulator's.
    """

    def __init__(self, request: CustomJob, name: JobName, surroundings: Surroundings) -> None:
        first = (
            JobState.JOB_STATE_QUEUED
            if surroundings.timings.queued_seconds
            else JobState.JOB_STATE_PENDING
        )
        self.record = JobRecord(request, name, first)
        self.directory: Path = surroundings.scratch / name.job_id
        self._surroundings = surroundings
        self._timings = surroundings.timings
        self._replicas: list[Replica] = []
        self._ends: list[Replica] = []
        self._news = asyncio.Event()
        self._is_cancelled = False
        self._stopped = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

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
    def replicas(self) -> list[str]:
        """Names of the replicas, the primary first; empty before provisioning is over."""
        return [replica.name for replica in self._replicas]

    def output(self, replica: str = PRIMARY) -> ReplicaOutput:
        """What a replica has written so far; empty when there is no such replica yet."""
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
        """Wait until the job is terminal and, unless it succeeded, its error is set."""
        return await self.wait_until(
            lambda job: job.state == JobState.JOB_STATE_SUCCEEDED or "error" in job, seconds
        )

    def begin(self) -> None:
        """Start the job's life."""
        self._show_state()
        self._life = asyncio.create_task(self._live(), name=self.name)

    def cancel(self) -> None:
        """Ask the job to end; harmless when that was asked before, or when it is ending anyway."""
        if self.record.is_terminal or self._is_cancelled:
            return
        self._is_cancelled = True
        self._enter(JobState.JOB_STATE_CANCELLING)
        self._news.set()

    async def stop(self) -> None:
        """End the job because the emulator ends: no waiting but for the shutdown grace.

        Returns when no process of it is left.
        """
        self._stopped.set()
        self._news.set()
        if self._life is None:
            return
        grace = min(self._timings.shutdown_grace_seconds, self._timings.termination_grace_seconds)
        await asyncio.wait([self._life], timeout=grace)
        for replica in self._replicas:
            replica.kill()
        await self._life

    async def discard(self) -> None:
        """Remove what the job has left on disk, once its life is over."""
        if self._life is not None:
            await asyncio.wait([self._life])
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)

    async def _live(self) -> None:
        try:
            verdict = await self._play()
        except OSError as error:
            # This machine has no disk, ports or processes left: to a client, an internal error.
            logger.exception("%s could not go on", self.name)
            verdict = _failed(code_pb2.INTERNAL, f"{wordings.INTERNAL_INFERRED} {error}")
        await self._wind_down(verdict)
        self._enter(verdict.state)
        if verdict is not _SUCCEEDED:
            await self._rest(self._timings.error_delay_seconds)
            self.record.set_error(verdict.code, verdict.message)

    async def _play(self) -> Verdict:
        """From QUEUED to the moment when it is decided how the job ends."""
        timings = self._timings
        if timings.queued_seconds:
            verdict = await self._observe(timings.queued_seconds, _undecided)
            if verdict:
                return verdict
            self._enter(JobState.JOB_STATE_PENDING)
        verdict = (
            await self._observe(timings.provisioning_seconds, _undecided)
            or await self._start_replicas()
            or await self._observe(timings.starting_seconds, _undecided)
        )
        if verdict:
            return verdict
        self._enter(JobState.JOB_STATE_RUNNING)
        seconds = self.record.timeout_seconds or _DEFAULT_TIMEOUT_SECONDS
        return await self._observe(seconds, self._success_or_failure) or self._timed_out(seconds)

    async def _start_replicas(self) -> Verdict | None:
        """Start one after the other; user code runs in the first while the last is missing."""
        resource = self.record.live_resource
        plans = plan_replicas(
            resource.job_spec,
            self.record.name,
            platform_variables=self._surroundings.variables,
            single_replica_pool=self._surroundings.behaviour.single_replica_pool,
        )
        self._replicas = [
            Replica(
                plan,
                job_id=self.record.name.job_id,
                directory=self.directory / plan.name,
                surroundings=self._surroundings,
                on_end=self._note_end,
            )
            for plan in plans
        ]
        # Without a stagger all are taken to start at once, and how one ends is seen in RUNNING.
        decide = self._failure if self._timings.replica_stagger_seconds else self._start_failure
        for position, replica in enumerate(self._replicas):
            stagger = self._timings.replica_stagger_seconds if position else 0.0
            verdict = await self._observe(stagger, decide)
            if verdict:
                return verdict
            await replica.start()
        return await self._observe(0, self._start_failure)

    def _note_end(self, replica: Replica) -> None:
        self._ends.append(replica)
        self._news.set()

    async def _observe(
        self, seconds: float, decide: Callable[[], Verdict | None]
    ) -> Verdict | None:
        """Wait for a decision, a cancel or a stop; None when there was none in `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            if self._is_cancelled or self._stopped.is_set():
                return _CANCELLED
            verdict = decide()
            if verdict or loop.time() >= deadline:
                return verdict
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                continue  # the deadline is looked at above

    def _success_or_failure(self) -> Verdict | None:
        for replica in self._ends:
            if replica.ended.result().status:
                return self._replica_failed(replica)
            if replica.name == PRIMARY:
                return _SUCCEEDED
        return None

    def _failure(self) -> Verdict | None:
        failed = (replica for replica in self._ends if replica.ended.result().status)
        return next(map(self._replica_failed, failed), None)

    def _start_failure(self) -> Verdict | None:
        failed = (replica for replica in self._ends if replica.ended.result().start_error)
        return next(map(self._replica_failed, failed), None)

    def _replica_failed(self, replica: Replica) -> Verdict:
        end = replica.ended.result()
        url = wordings.logs_url(self.record.name.place.project_number, self.record.name.job_id)
        if end.start_error:
            message = wordings.replica_not_started(replica.name, end.status, end.start_error, url)
        else:
            tail = error_tail(replica.output().stderr)
            message = wordings.replica_exited(replica.name, end.status, tail, url)
        return _failed(code_pb2.INVALID_ARGUMENT, message)

    def _timed_out(self, seconds: float) -> Verdict:
        if self._surroundings.behaviour.at_timeout == "cancelled":
            return _CANCELLED
        return _failed(code_pb2.DEADLINE_EXCEEDED, wordings.timed_out_inferred(seconds))

    async def _wind_down(self, verdict: Verdict) -> None:
        """End what still runs; a cancelled job stays CANCELLING for the time it should."""
        is_visible = self._is_cancelled and verdict is _CANCELLED
        grace = self._timings.termination_grace_seconds
        await asyncio.gather(
            self._rest(self._timings.cancelling_seconds if is_visible else 0),
            *(replica.end(grace) for replica in self._replicas),
        )

    async def _rest(self, seconds: float) -> None:
        """Wait, but not when the emulator stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return

    def _enter(self, state: int) -> None:
        self.record.enter(state)
        self._show_state()

    def _show_state(self) -> None:
        if self._surroundings.echo:
            display_name = self.record.live_resource.display_name
            self._surroundings.echo(
                self.record.name.job_id[-6:], f"{self.state.name} {display_name}"
            )


def _undecided() -> Verdict | None:
    return None


def _failed(code: int, message: str) -> Verdict:
    return Verdict(JobState.JOB_STATE_FAILED, code, message)
