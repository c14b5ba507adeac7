"""What a caller may choose: how long things take, and what to do where the service is unknown.

Every wait of the emulator is a field of `Timings`, and every point on which documentation and
reports are silent or disagree is a field of `Behaviour`.  Nothing here reads a clock.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How long a job spends where; all in seconds.

    Attributes:
        queued_seconds: In QUEUED, before machines are looked for.
        provisioning_seconds: In PENDING, before the first container starts.
        stockout_seconds: In PENDING after that, before a stockout fails the job.
        replica_stagger_seconds: Between the starts of one replica and the next.
        starting_seconds: From the last container's start to RUNNING: user code runs before the
            state says so.
        cancelling_seconds: CANCELLING is visible at least this long.
        error_delay_seconds: From the end of a job to the moment its `error` is set; infinite for
            never.
        log_delay_seconds: From a line to the moment when it can be read in the log, at the longest;
            each line draws its own.
        termination_grace_seconds: From SIGTERM to SIGKILL.
        shutdown_grace_seconds: The same when the emulator itself is stopped; never longer than
            `termination_grace_seconds`.
        spread: By which share the time in QUEUED, in PENDING and until the error is set may be
            longer or shorter, from 0 to 1; each job draws its own.
    """

    queued_seconds: float = 0.1
    provisioning_seconds: float = 0.2
    stockout_seconds: float = 0.3
    replica_stagger_seconds: float = 0.0
    starting_seconds: float = 0.1
    cancelling_seconds: float = 0.2
    error_delay_seconds: float = 0.2
    log_delay_seconds: float = 0.2
    termination_grace_seconds: float = 5.0
    shutdown_grace_seconds: float = 2.0
    spread: float = 0.0

    def drawn(self, source: random.Random) -> Timings:
        """The durations of one job."""
        drawn = {
            name: getattr(self, name) * source.uniform(1 - self.spread, 1 + self.spread)
            for name in _SPREAD
        }
        return dataclasses.replace(self, **drawn)


_SPREAD: Final = (
    "queued_seconds",
    "provisioning_seconds",
    "replica_stagger_seconds",
    "starting_seconds",
    "error_delay_seconds",
)
FAST: Final = Timings()
# Seen: three and a half to five minutes from create to RUNNING, stockouts after twenty minutes.
LIFELIKE: Final = Timings(
    queued_seconds=5,
    provisioning_seconds=235,
    stockout_seconds=1200,
    replica_stagger_seconds=5,
    starting_seconds=10,
    cancelling_seconds=30,
    error_delay_seconds=60,
    log_delay_seconds=30,
    termination_grace_seconds=30,
    spread=0.15,
)
CLOCKS: Final[Mapping[str, Timings]] = {"fast": FAST, "lifelike": LIFELIKE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What to do where the real service is not known; each default is the likelier reading.

    Attributes:
        at_timeout: How a job ends that outlives `scheduling.timeout`: CANCELLED with code 1, or
            FAILED with code 4.
        delete_live_job: Refuse with FAILED_PRECONDITION, or cancel the job and forget it.
        honour_read_mask: Whether ListCustomJobs leaves out what the mask does not name.
        default_page_size: What a list without `page_size` gets.
        max_page_size: A larger `page_size` is taken as this.
        restart_preempted: Whether Vertex AI itself starts a preempted Spot job again, up to six
            times, as the documentation says, or fails it at once.
        single_replica_pool: The pool's name in the CLUSTER_SPEC of a job with one replica.
        project_numbers: Project id to number; an id that is missing gets a number made from it.
    """

    at_timeout: Literal["cancelled", "failed"] = "cancelled"
    delete_live_job: Literal["refuse", "cancel"] = "refuse"
    honour_read_mask: bool = True
    default_page_size: int = 20
    max_page_size: int = 100
    restart_preempted: bool = False
    single_replica_pool: Literal["workerpool0", "chief"] = "workerpool0"
    project_numbers: Mapping[str, str] = field(default_factory=dict)
