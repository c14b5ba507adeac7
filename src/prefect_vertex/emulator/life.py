"""The life of one job, from QUEUED to its end, with everything that the script does to it.

It is a single coroutine that nobody cancels: a client's cancel and the emulator's stop are facts
that it looks at wherever it waits, so that no replica is ever left behind.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

from google.cloud.aiplatform_v1.types import CustomJobSpec, JobState
from google.rpc import code_pb2

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.crew import Crew
from prefect_vertex.emulator.environment import plan_replicas
from prefect_vertex.emulator.faults import JobFault, OutOfMemory, Restart, Stockout
from prefect_vertex.emulator.mishaps import Mishaps
from prefect_vertex.emulator.quotas import demand_of
from prefect_vertex.emulator.record import WITH_ERROR, JobRecord
from prefect_vertex.emulator.replica import Replica
from prefect_vertex.emulator.surroundings import Surroundings
from prefect_vertex.emulator.verdicts import CANCELLED, Verdict, failed

logger = logging.getLogger(__name__)

# What a job without `scheduling.timeout` may take.
_DEFAULT_TIMEOUT_SECONDS: Final = 7 * 24 * 3600.0
# The wait for quota is over; no end.
_GRANTED: Final = Verdict(state=JobState.JOB_STATE_PENDING)


class Life:
    """What a job does by itself.

    Args:
        record: What clients see of it.
        directory: Where its replicas keep their files.
        surroundings: The emulator's.
    """

    def __init__(self, record: JobRecord, directory: Path, surroundings: Surroundings) -> None:
        self.crew: Crew | None = None
        self.starts: list[Replica] = []
        """Every container that was started, restarted ones each time, oldest first."""
        self._record = record
        self._directory = directory
        self._surroundings = surroundings
        self._source = surroundings.chance.of_job(record.name.job_id)
        self._timings = surroundings.timings.drawn(self._source)
        self._mishaps = Mishaps(record, surroundings)
        self._news = asyncio.Event()
        self._stopped = asyncio.Event()
        self._wanted: Verdict | None = None
        self._is_cancelled = False
        self._running_since: float | None = None
        self._seconds_run = 0.0

    def end_with(self, verdict: Verdict) -> None:
        """Let the job end so at once; the first wish counts."""
        self._wanted = self._wanted or verdict
        self._news.set()

    def cancel(self) -> None:
        """Let the job end as a cancelled one does."""
        self._is_cancelled = True
        self.end_with(CANCELLED)

    def stop(self) -> None:
        """Let the job end without any waiting but for its replicas' grace."""
        self._stopped.set()
        self.end_with(CANCELLED)

    async def run(self) -> None:
        """From QUEUED to the moment when the error is set."""
        self._surroundings.bell.listen(self, self._news.set)
        try:
            verdict = await self._play()
        except OSError as error:
            # This machine has no disk, ports or processes left: to a client, an internal error.
            logger.exception("%s could not go on", self._record.name)
            verdict = failed(code_pb2.INTERNAL, f"{wordings.INTERNAL}. {error}")
        finally:
            self._surroundings.bell.ignore(self)
        await self._wind_down(verdict)
        self._surroundings.quotas.release(self._record.name)
        if verdict.state == JobState.JOB_STATE_FAILED:
            self._surroundings.logs.add_message(
                self._record.name, verdict.message, state=verdict.state, severity="ERROR"
            )
        self._enter(verdict.state)
        if verdict.state in WITH_ERROR:
            await self._rest(self._mishaps.error_delay(self._timings.error_delay_seconds))
            self._record.set_error(verdict.code, verdict.message)

    async def _play(self) -> Verdict:
        """To the moment when it is decided how the job ends."""
        verdict = await self._queue() or await self._attempt()
        while verdict.is_retried:
            await self._wind_down(verdict)
            self.crew = None
            if not self._wanted:
                self._enter(JobState.JOB_STATE_PENDING)
            verdict = await self._attempt()
        return verdict

    async def _queue(self) -> Verdict | None:
        if self._record.state == JobState.JOB_STATE_QUEUED:
            verdict = await self._observe(self._timings.queued_seconds, _undecided)
            verdict = verdict or await self._observe(math.inf, self._quota)
            if verdict is not _GRANTED:
                return verdict
            self._enter(JobState.JOB_STATE_PENDING)
        return None

    def _quota(self) -> Verdict | None:
        demand = demand_of(self._record.spec)
        return _GRANTED if self._surroundings.quotas.hold(self._record.name, demand) else None

    async def _attempt(self) -> Verdict:
        if self._wanted:
            return self._wanted
        stockout = self._mishaps.take_stockout()
        verdict = await self._observe(self._timings.provisioning_seconds, _undecided)
        if verdict:
            return verdict
        self.crew = crew = self._new_crew()
        verdict = await self._start_replicas(crew, stockout) or await self._observe(
            self._timings.starting_seconds, _undecided
        )
        return verdict or await self._run_replicas(crew)

    async def _run_replicas(self, crew: Crew) -> Verdict:
        self._enter(JobState.JOB_STATE_RUNNING)
        loop = asyncio.get_running_loop()
        self._running_since = loop.time()
        limit = self._record.timeout_seconds or _DEFAULT_TIMEOUT_SECONDS
        left = max(limit - self._seconds_run, 0)
        verdict = await self._observe(left, crew.success_or_failure)
        self._seconds_run += loop.time() - self._running_since
        self._running_since = None
        return verdict or self._timed_out(limit)

    def _new_crew(self) -> Crew:
        plans = plan_replicas(
            CustomJobSpec.wrap(self._record.spec),
            self._record.name,
            platform_variables=self._surroundings.variables,
            single_replica_pool=self._surroundings.behaviour.single_replica_pool,
            source=self._source,
        )
        return Crew(
            plans,
            job=self._record.name,
            directory=self._directory,
            surroundings=self._surroundings,
            on_end=self._news.set,
        )

    async def _start_replicas(self, crew: Crew, stockout: Stockout | None) -> Verdict | None:
        """Start one after the other; user code runs in the first while the last is missing."""
        stagger = self._timings.replica_stagger_seconds
        # Without a stagger all are taken to start at once, and how one ends is seen in RUNNING.
        decide = crew.failure if stagger else crew.start_failure
        for position in range(len(crew.replicas)):
            verdict = await self._observe(stagger if position else 0.0, decide)
            if verdict:
                return verdict
            if stockout and position == min(stockout.started_replicas, len(crew.replicas) - 1):
                return await self._run_out_of_stock(stockout, crew)
            await self._start_replica(crew, position)
        return await self._observe(0, crew.start_failure)

    async def _start_replica(self, crew: Crew, position: int) -> None:
        self.starts.append(crew.replicas[position])
        await crew.replicas[position].start()

    async def _run_out_of_stock(self, stockout: Stockout, crew: Crew) -> Verdict:
        seconds = stockout.after_seconds
        if seconds is None:
            seconds = self._timings.stockout_seconds
        return await self._observe(seconds, crew.failure) or self._mishaps.verdict(stockout)

    async def _observe(
        self, seconds: float, decide: Callable[[], Verdict | None]
    ) -> Verdict | None:
        """Wait for a decision, a wish or a fault that ends it; None if none came in `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self._wanted:
            moment, fault = self._mishaps.next(self.crew, self._running_since)
            if fault and moment <= loop.time():
                verdict = await self._strike(fault)
                if verdict:
                    return verdict
                continue
            verdict = decide()
            if verdict or loop.time() >= deadline:
                return verdict
            self._news.clear()
            until = min(deadline, moment)
            try:
                async with asyncio.timeout_at(None if until == math.inf else until):
                    await self._news.wait()
            except TimeoutError:
                continue  # what the time was waited for is looked at above
        return self._wanted

    async def _strike(self, fault: JobFault) -> Verdict | None:
        """Let a fault happen; the verdict if it ends the attempt."""
        self._mishaps.use(fault)
        if isinstance(fault, Restart) and self.crew:
            await self._restart(fault, self.crew)
            return None
        if isinstance(fault, OutOfMemory) and self.crew:
            replica = self.crew.alive(fault.replica)
            if replica:
                await replica.end(0)
        return self._mishaps.verdict(fault)

    async def _restart(self, fault: Restart, crew: Crew) -> None:
        """End the container, if it has not ended itself, and start it again."""
        positions = await crew.renew(self._mishaps.concerned(fault), fault.grace_seconds)
        await self._rest(fault.pause_seconds)
        for position in positions:
            if not self._wanted:
                await self._start_replica(crew, position)

    def _timed_out(self, seconds: float) -> Verdict:
        if self._surroundings.behaviour.at_timeout == "cancelled":
            return CANCELLED
        return failed(code_pb2.DEADLINE_EXCEEDED, wordings.timed_out_inferred(seconds))

    async def _wind_down(self, verdict: Verdict) -> None:
        """End what still runs; a cancelled job stays CANCELLING for the time it should."""
        is_visible = self._is_cancelled and verdict is CANCELLED
        grace = verdict.grace_seconds
        if grace is None:
            grace = self._timings.termination_grace_seconds
        ends = [self.crew.end(grace)] if self.crew else []
        await asyncio.gather(
            self._rest(self._timings.cancelling_seconds if is_visible else 0), *ends
        )

    async def _rest(self, seconds: float) -> None:
        """Wait, but not when the emulator stops."""
        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._stopped.wait()
        except TimeoutError:
            return

    def _enter(self, state: int) -> None:
        self._record.enter(state)
        self._surroundings.show_state(self._record)


def _undecided() -> Verdict | None:
    return None
