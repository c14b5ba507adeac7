"""JobSnapshot: a small frozen copy of a CustomJob, as one look at the service showed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.durations import whole_number
from prefect_vertex.planning.naming import ATTEMPT_LABEL, FLOW_RUN_LABEL, ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """`CustomJob.error`: a gRPC status number and Vertex AI's own text."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMachines:
    """What one worker pool of a job asks for.

    Attributes:
        pool: Its position in the job.
        replicas: Machines of this kind.
        machine_type: Empty where the job names none.
        accelerator_type: Empty for none.
        accelerator_count: On each machine.
    """

    pool: int
    replicas: int
    machine_type: str = ""
    accelerator_type: str = ""
    accelerator_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """One observation of one CustomJob.

    Attributes:
        resource_name: As the service returns it, with the project's number.
        state: Vertex AI's own word, kept for messages and for states newer than the table.
        start_time: First entry into RUNNING; stays set if the job falls back to PENDING.
        error: Set up to two minutes after a terminal state, and only for FAILED and CANCELLED.
        described: Whether it comes from a describe. A list row is a hint: it may be stale and,
            under a read mask, incomplete; nothing irreversible is done on its word.
        web_access_uris: By replica, without scheme; only with `enable_web_access`.
        machines: What it asks for; empty in a list row, whose read mask leaves it out.
        strategy: Vertex AI's word for how machines are found, such as SPOT; as `machines`.
        timeout_seconds: Its maximum run time, None without one; as `machines`.
    """

    resource_name: ResourceName
    display_name: str
    phase: JobPhase
    state: str
    observed_at: datetime
    create_time: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    start_time: datetime | None = None
    end_time: datetime | None = None
    error: JobError | None = None
    described: bool = False
    web_access_uris: Mapping[str, str] = field(default_factory=dict)
    machines: tuple[PoolMachines, ...] = ()
    strategy: str = ""
    timeout_seconds: float | None = None

    def with_shape_of(self, before: JobSnapshot | None) -> JobSnapshot:
        """With what an earlier look at the same job showed of its machines, which never change."""
        if self.machines or before is None or not before.machines:
            return self
        return replace(
            self,
            machines=before.machines,
            strategy=before.strategy,
            timeout_seconds=before.timeout_seconds,
        )

    @property
    def is_terminal(self) -> bool:
        """Whether the job can change no more."""
        return self.phase.is_terminal

    @property
    def flow_run_id(self) -> str:
        """The flow run that the job was created for, from its label; empty for a foreign job."""
        return self.labels.get(FLOW_RUN_LABEL, "")

    @property
    def attempt(self) -> int:
        """The attempt that the job was created for, from its label; 0 for a foreign job."""
        return whole_number(self.labels.get(ATTEMPT_LABEL, "")) or 0
