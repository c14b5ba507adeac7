"""What Cloud Logging knows of the jobs: the replicas' lines and the service's own messages.

An entry is known from its arrival, some seconds after its timestamp, and each draws its own delay:
a later one may arrive first.  Form and messages: public dumps of `ml_job` entries.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.cloud.aiplatform_v1.types import JobState
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.struct_pb2 import Struct

from prefect_vertex.emulator.names import JobName

SERVICE_TASK: Final = "service"
SEVERITIES: Final = (
    "DEFAULT",
    "DEBUG",
    "INFO",
    "NOTICE",
    "WARNING",
    "ERROR",
    "CRITICAL",
    "ALERT",
    "EMERGENCY",
)
"""From the least to the worst, as filters compare them."""

_STATE_MESSAGES: Final[Mapping[int, tuple[str, ...]]] = {
    JobState.JOB_STATE_QUEUED: ("Waiting for job to be provisioned.",),
    JobState.JOB_STATE_PENDING: (
        (
            "Vertex AI is provisioning job running framework. First time usage might take couple "
            "of minutes, and subsequent runs can be much faster."
        ),
        "Vertex AI is setting up this job.",
        "Waiting for training program to start.",
        "Job is preparing.",
    ),
    JobState.JOB_STATE_RUNNING: ("Job is running.",),
    JobState.JOB_STATE_SUCCEEDED: (
        "Finished tearing down training program.",
        "Job completed successfully.",
    ),
    JobState.JOB_STATE_FAILED: ("Finished tearing down training program.", "Job failed."),
    # Inferred: nobody has published what a cancelled job says.
    JobState.JOB_STATE_CANCELLED: ("Finished tearing down training program.", "Job cancelled."),
}
# More than any test writes; a server that stands for days does not grow for ever.
_MAX_ENTRIES: Final = 100_000
_NO_PAYLOAD: Final = (
    *(ValueError, OverflowError, RecursionError),
    *(ParseError, EncodeError, DecodeError),
)
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_COUNTER_LENGTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry.

    Attributes:
        job: Whose.
        task_name: The replica's name, or `service`.
        timestamp: When it was written; no two entries of one book have the same.
        arrival: From when it can be read.
        insert_id: Grows from one entry to the next.
        text: Of a service's message, which has no payload.
        payload: Of a replica's line.
        labels: The entry's own.
    """

    job: JobName
    task_name: str
    timestamp: datetime
    arrival: datetime
    insert_id: str
    severity: str
    text: str = ""
    payload: Mapping[str, Any] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def log_name(self) -> str:
        """`projects/*/logs/*`: one log for each replica name, and one for each job's service."""
        log = self.task_name
        if log == SERVICE_TASK:
            log = f"ml.googleapis.com%2F{self.job.job_id}"
        return f"projects/{self.job.place.project_number}/logs/{log}"


class LogBook:
    """The entries of all jobs, for as long as the emulator stands.

    Args:
        delay_seconds: The longest time from a timestamp to the arrival.
        seed: Where delays and ids are drawn from.

    Attributes:
        delay_seconds: May be changed at any time, for the entries that follow.
    """

    def __init__(self, delay_seconds: float, seed: int) -> None:
        self.delay_seconds = delay_seconds
        self._source = random.Random(f"{seed}/log")  # noqa: S311 - nothing here is a secret
        self._prefix = _in_letters(self._source.getrandbits(40), _COUNTER_LENGTH)
        self._count = 0
        self._last = datetime.now(UTC)
        self._entries: deque[Entry] = deque(maxlen=_MAX_ENTRIES)

    def add_line(self, job: JobName, replica: str, line: str, *, is_error: bool) -> None:
        """A line that a replica wrote; a JSON object is taken apart, as the log agent does.

        What a payload cannot hold is text: numbers that are none, half a character, too deep.
        """
        severity = "ERROR" if is_error else "INFO"
        attributes = {"tag": replica}
        parsed = _json_object(line)
        if parsed is None:
            payload = {"message": line, "levelname": severity, "attrs": attributes}
        else:
            severity = _severity(parsed.pop("severity", None)) or severity
            payload = {**parsed, "attrs": attributes}
        labels = {"ml.googleapis.com/job_id/log_area": "root", "ml.googleapis.com/trial_id": ""}
        self._add(job, replica, severity, payload=payload, labels=labels)

    def add_state(self, job: JobName, state: int) -> None:
        """What the service says when a job enters a state."""
        for message in _STATE_MESSAGES.get(state, ()):
            self.add_message(job, message, state=state)

    def add_message(
        self, job: JobName, message: str, *, state: int, severity: str = "INFO"
    ) -> None:
        """One message of the service's."""
        name = JobState(state).name.removeprefix("JOB_STATE_")
        labels = {"ml.googleapis.com/endpoint": "", "ml.googleapis.com/job_state": name}
        self._add(job, SERVICE_TASK, severity, text=message, labels=labels)

    def arrived(self) -> list[Entry]:
        """What can be read now, by timestamp."""
        now = datetime.now(UTC)
        return [entry for entry in self._entries if entry.arrival <= now]

    def _add(self, job: JobName, task_name: str, severity: str, **content: Any) -> None:
        # Two lines of one moment keep their order.
        self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
        self._count += 1
        delay = self._source.uniform(0, self.delay_seconds)
        self._entries.append(
            Entry(
                job=job,
                task_name=task_name,
                severity=severity,
                timestamp=self._last,
                arrival=self._last + timedelta(seconds=delay),
                insert_id=self._prefix + _in_letters(self._count, _COUNTER_LENGTH),
                **content,
            )
        )


def _json_object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        parsed: dict[str, Any] = json.loads(line)
        json.dumps(parsed, allow_nan=False)
        # In another object, because an answer is of some levels more than the payload in it.
        whole = ParseDict({"payload": parsed}, Struct())
        Struct.FromString(whole.SerializeToString())
    except _NO_PAYLOAD:
        return None
    return parsed


def _severity(value: object) -> str:
    name = str(value).upper()
    return name if name in SEVERITIES else ""


def _in_letters(number: int, length: int) -> str:
    """Such that ids sort as their numbers do."""
    letters = ""
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        letters = _DIGITS[digit] + letters
    return letters
