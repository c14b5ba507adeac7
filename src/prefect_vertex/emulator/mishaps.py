"""When the script's faults happen to one job, and what they make of it."""

from __future__ import annotations

import math
from typing import Final

from google.rpc import code_pb2

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.crew import Crew
from prefect_vertex.emulator.faults import (
    ErrorDelay,
    InternalError,
    JobFault,
    OutOfMemory,
    Preemption,
    Restart,
    Stockout,
)
from prefect_vertex.emulator.quotas import strategy_of
from prefect_vertex.emulator.record import JobRecord
from prefect_vertex.emulator.script import JobFacts
from prefect_vertex.emulator.surroundings import Surroundings
from prefect_vertex.emulator.verdicts import Verdict, failed

# Documented: an internal error is retried, three attempts in all; a preemption up to six times.
_MAX_ATTEMPTS: Final = 3
_MAX_PREEMPTIONS: Final = 6


class Mishaps:
    """The script, as far as it concerns one job.

    Args:
        record: The job's.
        surroundings: The emulator's.
    """

    def __init__(self, record: JobRecord, surroundings: Surroundings) -> None:
        scheduling = record.spec.scheduling
        self._faults = surroundings.faults
        self._may_restart_preempted = surroundings.behaviour.restart_preempted
        self._may_retry = not scheduling.disable_retries
        self._restarts_all = scheduling.restart_job_on_worker_restart and self._may_retry
        self._internal_errors = 0
        self._preemptions = 0
        self._facts = JobFacts(
            name=str(record.name),
            location=record.name.place.location,
            machine_types=frozenset(
                pool.machine_spec.machine_type for pool in record.spec.worker_pool_specs
            ),
            strategy=strategy_of(record.spec),
            labels=record.row.labels,
        )

    def take_stockout(self) -> Stockout | None:
        """Whether there are machines for the attempt that begins."""
        return self._faults.take(Stockout, self._facts)

    def error_delay(self, usual: float) -> float:
        """How long after the job's end its error is set."""
        late = self._faults.take(ErrorDelay, self._facts)
        if late is None:
            return usual
        return math.inf if late.seconds is None else late.seconds

    def next(self, crew: Crew | None, running_since: float | None) -> tuple[float, JobFault | None]:
        """The fault that comes first, by the loop's time; infinity and None without any."""
        first: tuple[float, JobFault | None] = (math.inf, None)
        for fault in self._faults.of_job(self._facts):
            moment = _moment(fault, crew, running_since)
            if moment < first[0]:
                first = (moment, fault)
        return first

    def use(self, fault: JobFault) -> None:
        """It happens now."""
        self._faults.use(fault)

    def concerned(self, restart: Restart) -> str:
        """Which replica is started again; empty for all."""
        return "" if self._restarts_all else restart.replica

    def verdict(self, fault: JobFault) -> Verdict:
        """How the job ends by it, or only this attempt."""
        if isinstance(fault, OutOfMemory):
            return failed(code_pb2.INVALID_ARGUMENT, wordings.out_of_memory(fault.replica))
        if isinstance(fault, InternalError):
            self._internal_errors += 1
            is_retried = self._may_retry and self._internal_errors < _MAX_ATTEMPTS
            return failed(code_pb2.INTERNAL, wordings.INTERNAL, is_retried=is_retried)
        sentence = wordings.stockout(self._facts.location)
        if isinstance(fault, Stockout):
            return failed(fault.code, sentence)
        if isinstance(fault, Preemption):
            self._preemptions += 1
            return failed(
                fault.code,
                sentence,
                is_retried=self._may_restart_preempted and self._preemptions <= _MAX_PREEMPTIONS,
                grace_seconds=fault.grace_seconds,
            )
        raise TypeError(f"{fault!r} ends no job")


def _moment(fault: JobFault, crew: Crew | None, running_since: float | None) -> float:
    since: float | None = None
    after = 0.0
    if isinstance(fault, Restart | OutOfMemory) and crew is not None:
        if isinstance(fault, Restart) and fault.on_exit_status is not None:
            is_due = crew.has_ended(fault.replica, fault.on_exit_status)
            return -math.inf if is_due else math.inf
        replica = crew.alive(fault.replica)
        since = replica.up_since if replica else None
        after = fault.after_seconds or 0.0
    elif isinstance(fault, InternalError | Preemption):
        since, after = running_since, fault.after_seconds
    return math.inf if since is None else since + after
