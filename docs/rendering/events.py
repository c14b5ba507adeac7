"""The events: when each is told, what its payload holds, and every reason of an end."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from prefect_vertex.capacity.ledger import table as ledger_rows
from prefect_vertex.capacity.refusals import SCOPE_OF, RefusalReason, Scope
from prefect_vertex.capacity.walk import Trail, Try, with_try
from prefect_vertex.chronicle.events import CRASHED_EVENT, crash_event, phase_event
from prefect_vertex.lifecycle import outcomes
from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.outcomes import JobOutcome, TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.runs.telling import LABELLED
from rendering.markdown import code, page, table

CAPACITY = {
    "refused": (
        "an attempt came to nothing before its container started, and another follows",
        ("next_candidate", "next_at"),
    ),
    "lost": (
        "a run that had started lost its machines, and begins anew elsewhere",
        ("next_candidate", "next_at"),
    ),
    "found": (
        "a walk over several candidates has led to a running job",
        ("message", "attempt", "ledger"),
    ),
    "exhausted": ("it has led nowhere", ("message", "reason", "ledger")),
}
"""Kinds of capacity events: when, and what is in the payload; of the first two the try as well."""

WITH_THE_TRY = frozenset({"refused", "lost"})

_PHASES = {
    JobPhase.QUEUED: "the job is created and queued",
    JobPhase.PROVISIONING: "its machines are being prepared",
    JobPhase.RUNNING: "all its replicas have machines",
    JobPhase.CANCELLING: "it was asked to end",
    JobPhase.PAUSED: "never seen for a CustomJob",
    JobPhase.SUCCEEDED: "its primary replica has exited with 0",
    JobPhase.FAILED: "it has failed",
    JobPhase.CANCELLED: "it has been cancelled, by whomever",
    JobPhase.EXPIRED: "it has expired",
    JobPhase.UNKNOWN: "it is in a state newer than this version",
}

_FOLLOWS = {
    Scope.HOP_COME_BACK: "the next candidate; this one again in a later pass",
    Scope.HOP_NEVER_BACK: "the next candidate, and never this one again",
    Scope.HOP: "the next candidate; after a whole pass of nothing else, the end",
    Scope.OTHER_PROJECT: "the next candidate of another project or other credentials, else the end",
    Scope.STOP: "the end: it would be so everywhere, or the flow has begun",
    Scope.SAME_LATER: "the same candidate a little later; it is no attempt",
    Scope.AGAIN_THEN_HOP: "the same candidate once more, then the next one",
    Scope.NEXT_AS_RESTART: "the next candidate, as one of `capacity.max_restarts`",
}

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_FAILED = JobSnapshot(
    resource_name=ResourceName(project="1", location="us-central1", job_id="2"),
    display_name="sample",
    phase=JobPhase.FAILED,
    state="JOB_STATE_FAILED",
    observed_at=_NOON,
    create_time=_NOON,
    error=JobError(
        code=3, message="The replica workerpool0-0 exited with a non-zero status of 137."
    ),
)
"""A job whose end says all that an end can say."""


def events_page() -> str:
    """Every event, from the functions that make their payloads."""
    return page(
        "# Events",
        "The worker tells of every job and run by Prefect's events; "
        "[automations](automations.md) act on them. Each has an id that follows from what "
        "happened, so an event that two workers tell is one event, and the job's own time where "
        "the job keeps one.",
        table(("event", "when", "payload"), _rows()),
        "A value that is not known is left out.",
        "## What a trigger matches",
        "A trigger sees resources, not payloads. The resource is the job, "
        "`prefect-vertex.job.<resource name>` (`prefect-vertex.job.<flow run id>` where there is "
        f"none); labels of it are {_names(f'prefect-vertex.{each}' for each in LABELLED)}, as far "
        "as the payload has them. Related are the flow run, its flow, deployment and tags, the "
        "work pool and the worker, with the ids and roles that Prefect's own events give them.",
        "## Reasons",
        "Of a job's end, in its events, in `prefect-vertex.run.crashed` and in the flow run's "
        "artifact `vertex-job`:",
        table(("reason", "meaning"), _reasons()),
        "## Reasons of a try",
        "Of an attempt that came to nothing, in the capacity events, in AwaitingCapacity and in "
        "the artifact `vertex-capacity-…`:",
        table(("reason", "what follows"), _tries()),
    )


def payload_of_phase(phase: JobPhase) -> tuple[str, ...]:
    """Keys of a job event's payload; only an end has reasons."""
    job = _FAILED if phase.is_terminal else replace(_FAILED, phase=phase)
    return tuple(phase_event(job, RunPolicy()))


def payload_of_crash() -> tuple[str, ...]:
    """Keys of a crash event's payload."""
    diagnosis = diagnose(_FAILED, RunPolicy())
    outcome = JobOutcome(reason=diagnosis.reason, diagnosis=diagnosis)
    return tuple(crash_event(outcome, _FAILED, diagnosis.message))


def payload_of_try() -> tuple[str, ...]:
    """Keys of what a capacity event says of one try."""
    tried = Try(attempt=1, candidate=0, begun_at=_NOON, ended_at=_NOON, reason=RefusalReason.QUOTA)
    (row,) = ledger_rows(with_try(Trail(), tried, 1), ["us-central1"])
    return tuple(row)


def _rows() -> Iterator[tuple[str, str, str]]:
    for phase, when in _PHASES.items():
        yield code(f"prefect-vertex.job.{phase.value}"), when, _names(payload_of_phase(phase))
    for what, (when, keys) in CAPACITY.items():
        tried = payload_of_try() if what in WITH_THE_TRY else ()
        yield code(f"prefect-vertex.capacity.{what}"), when, _names([*tried, *keys])
    yield code(CRASHED_EVENT), "the worker has ended a run as Crashed", _names(payload_of_crash())


def _reasons() -> Iterator[tuple[str, str]]:
    told = _docstrings(TerminationReason)
    for reason in TerminationReason:
        yield code(reason.value), told[reason.name]


def _tries() -> Iterator[tuple[str, str]]:
    for reason, scope in SCOPE_OF.items():
        yield reason.value, _FOLLOWS[scope]


def _docstrings(enum: type[TerminationReason]) -> dict[str, str]:
    """The text below each member; one without is its own value in words."""
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(outcomes)).body
        if isinstance(node, ast.ClassDef) and node.name == enum.__name__
    )
    found = {each.name: f"{each.value.replace('-', ' ').capitalize()}." for each in enum}
    for member, text in pairwise(body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            (target,) = member.targets
            if isinstance(target, ast.Name) and isinstance(text.value, ast.Constant):
                found[target.id] = str(text.value.value)
    return found


def _names(names: Iterable[str]) -> str:
    return ", ".join(code(name) for name in names)
