"""Jobs that are just there: thousands of old ones, or live ones that run nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from google.cloud.aiplatform_v1.types import CustomJob, JobState
from google.protobuf import json_format

from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.names import JobName, Place
from prefect_vertex.emulator.record import TERMINAL, JobRecord
from prefect_vertex.emulator.surroundings import Surroundings

_STRICT: Final[Mapping[str, Any]] = {"extra": "forbid"}
_NUMBER: Final = "{n}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """Some jobs that are alike.

    `{n}` in the display name and in the values of labels becomes the number of the job, from 0.

    Attributes:
        parent: `projects/*/locations/*`.
        count: How many.
        state: The name of a JobState.
        display_name: Theirs.
        labels: Theirs.
        age_seconds: They were created so long ago, each a microsecond before the one before it,
            and started at once; those that have ended did so half way between then and now.
        error_code: The code of `error`, where the state has one.
        error_message: Its message; empty for a job without error.
        job_spec: A CustomJobSpec as JSON; by default one n1-standard-4 that would sleep.
    """

    __pydantic_config__: ClassVar = _STRICT

    parent: str
    count: int = 1
    state: str = "JOB_STATE_RUNNING"
    display_name: str = "seed-{n}"
    labels: Mapping[str, str] = field(default_factory=dict)
    age_seconds: float = 0.0
    error_code: int = 3
    error_message: str = ""
    job_spec: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.state not in JobState.__members__:
            raise ValueError(f"state {self.state!r} is no JobState")


_SLEEPER: Final[Mapping[str, Any]] = {
    "worker_pool_specs": [
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "container_spec": {"image_uri": "image", "command": ["sleep", "infinity"]},
        }
    ]
}


def seeded(seed: Seed, place: Place, surroundings: Surroundings) -> Iterator[EmulatedJob]:
    """The jobs of one seed, newest first.

    Raises:
        ValueError: `job_spec` is none.
    """
    template = CustomJob.pb(CustomJob())
    try:
        json_format.ParseDict({"job_spec": dict(seed.job_spec or _SLEEPER)}, template)
    except json_format.ParseError as error:
        raise ValueError(f"job_spec is no CustomJobSpec: {error}") from error
    now = datetime.now(UTC)
    for number in range(seed.count):
        message = type(template)()
        message.display_name = seed.display_name.replace(_NUMBER, str(number))
        for key, value in seed.labels.items():
            message.labels[key] = value.replace(_NUMBER, str(number))
        created = now - timedelta(seconds=seed.age_seconds, microseconds=number)
        name = JobName(place, surroundings.chance.job_id())
        record = JobRecord(
            message, template.job_spec, name, state=JobState.JOB_STATE_PENDING, created=created
        )
        _age(record, seed, created, created + (now - created) / 2)
        yield EmulatedJob(record, surroundings)


def _age(record: JobRecord, seed: Seed, created: datetime, ended: datetime) -> None:
    state: int = JobState.__members__[seed.state]
    if state not in {JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_PENDING}:
        record.enter(JobState.JOB_STATE_RUNNING, created)
    if state != record.state:
        record.enter(state, ended if state in TERMINAL else created)
    if seed.error_message:
        record.set_error(seed.error_code, seed.error_message, ended)
