"""Which attempt is due, and the trail that it goes on with: the last one's, or a new one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from prefect_vertex.capacity.ledger import parse_names
from prefect_vertex.capacity.refusals import Scope
from prefect_vertex.capacity.walk import Trail, Try, begun_anew, restarted
from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.run import NAMES_LABEL, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.reconciler.answers import Answer, try_of_started
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.care import Care

_NO_ROOM_THERE = frozenset(
    {
        TerminationReason.PREEMPTED,
        TerminationReason.RESTARTED,
        TerminationReason.NO_CAPACITY,
    },
)
"""Ends after whose restart another candidate comes first."""


def due_trail(care: Care, view: RunView, assignment: Assignment, now: datetime) -> Trail:
    """The trail that the due attempt goes on with, or begins."""
    trail = _with_skipped(_due_trail(care, view, assignment), assignment, now)
    return with_projects(trail, assignment)


def _due_trail(care: Care, view: RunView, assignment: Assignment) -> Trail:
    trail, digest = care.trail, assignment.digest
    if care.anew:
        return begun_anew(trail, digest)
    last = view.attempt
    if 0 < last < care.due_attempt and last > trail.answered and last not in care.unstarted:
        job = care.newest if care.newest_attempt == last else None
        began = job is not None and (job.start_time is not None or last in care.started)
        if began or care.rescheduled:
            if not care.trail_text:
                # From before there were trails: each attempt but the first was a restart.
                trail = replace(trail, restarts=last - 1)
            known = view.candidate(last)
            lost = try_of_started(job, known[0]) if job is not None and known is not None else None
            first = _first_after(care, view, assignment, job)
            return restarted(trail, digest, first=first, lost=lost)
    return trail if trail.of == digest else begun_anew(trail, digest)


def _with_skipped(trail: Trail, assignment: Assignment, now: datetime) -> Trail:
    """Rule out what is known beforehand not to fit; it is no attempt."""
    known = {each.candidate for each in trail.ruled_out}
    more = [
        Try(
            attempt=0,
            candidate=place,
            begun_at=now,
            ended_at=now,
            reason=refusal.reason,
            message=refusal.message,
        )
        for place, refusal in sorted(assignment.skipped.items())
        if place not in known
    ]
    return replace(trail, ruled_out=(*trail.ruled_out, *more)) if more else trail


def with_projects(trail: Trail, assignment: Assignment) -> Trail:
    """Rule out what a project has refused elsewhere already, for a right that is missing there.

    It is no attempt either.
    """
    candidates = assignment.spec.candidates
    every = (*trail.ruled_out, *trail.tries)
    out = {each.candidate for each in every if each.rules_out}
    more: list[Try] = []
    for tried in every:
        if tried.scope is not Scope.OTHER_PROJECT or tried.candidate >= len(candidates):
            continue
        refused = candidates[tried.candidate]
        for place, candidate in enumerate(candidates):
            if place not in out and _asks_as(candidate) == _asks_as(refused):
                out.add(place)
                moment = tried.ended_at
                more.append(
                    replace(tried, attempt=0, candidate=place, begun_at=moment, ended_at=moment)
                )
    return replace(trail, ruled_out=(*trail.ruled_out, *more)) if more else trail


def holds_everywhere(scope: Scope, care: Care, view: RunView) -> bool:
    """Whether every candidate would get that answer."""
    if scope is not Scope.OTHER_PROJECT:
        return scope is Scope.STOP
    if care.assignment is None:
        # Where the others are, whoever claims the run knows.
        return len(parse_names(view.labels.get(NAMES_LABEL, ""))) <= 1
    return len({_asks_as(each) for each in care.assignment.spec.candidates}) == 1


def _asks_as(candidate: Candidate) -> tuple[str, str]:
    """Whose rights its job needs, and where: the same for all regions of a project."""
    return candidate.project, candidate.credentials_key


def _first_after(care: Care, view: RunView, assignment: Assignment, job: JobSnapshot | None) -> int:
    """Where a restarted run's passes begin: where there was no room any more is tried last."""
    known = view.candidate(view.attempt)
    if job is None or known is None or care.trail.of != assignment.digest:
        return 0
    reason = diagnose(job, care.policy, started=True).reason
    if reason not in _NO_ROOM_THERE:
        return 0
    return (known[0] + 1) % len(assignment.spec.candidates)


def place_of(care: Care, view: RunView, answer: Answer) -> int:
    """The attempt's candidate: the announced one, unless its job is somewhere else."""
    known = view.candidate(answer.attempt)
    index = known[0] if known is not None else 0
    if care.assignment is None or not answer.location:
        return index
    locations = [each.location for each in care.assignment.spec.candidates]
    if index < len(locations) and locations[index] == answer.location:
        return index
    return locations.index(answer.location) if answer.location in locations else index


def due_after(found: int, labelled: int, *, settled: bool) -> int:
    """The attempt that is due for a run that had attempts before.

    Args:
        found: The highest attempt of which a job was found, or its end is on record.
        labelled: The highest attempt that was announced.
        settled: Whether it is sure that the announced one has no job.
    """
    if found >= labelled:
        return found + 1
    return labelled if settled else 0
