"""Jobs that are not in sight: when to read, when to look, and when to believe that there is none.

Absence from a list says nothing.  A job is gone once a describe said so twice, a minute apart; an
attempt has no job once enough looks by label, over a long enough time, found none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from prefect_vertex.errors import NamingError
from prefect_vertex.lifecycle.case import CONFIRM_SECONDS, Absence, Case, outcome_of
from prefect_vertex.lifecycle.decisions import Crash, Decision, Describe, Look, Wait
from prefect_vertex.lifecycle.outcomes import Diagnosis, TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.naming import ResourceName, parse_resource_name


def identifier_of(run: RunView) -> ResourceName | None:
    """The job that the run names, None if it names none."""
    try:
        return parse_resource_name(run.identifier) if run.identifier else None
    except NamingError:
        # Another worker type's identifier, from before the pool changed: nothing of ours.
        return None


def unseen(case: Case, jobs: Sequence[JobSnapshot]) -> Decision | None:
    """Read the job that the run's attempt may have, if none was seen; None to go on without."""
    newest = case.job.attempt if case.job is not None else 0
    if case.notes.due_attempt > newest:
        return None
    if case.job is not None and newest >= case.run.attempt:
        return None
    absence = _absence(case)
    if absence is None or any(job.resource_name.key == absence.name.key for job in jobs):
        return None
    return None if absence.confirmed else confirm(absence, case.now)


def lost_before(due_attempt: int, newest: int, absences: Iterable[Absence]) -> Absence | None:
    """The job of the attempt before the due one, if it was seen and is no longer found.

    Args:
        due_attempt: The attempt to be created.
        newest: The highest attempt of which a job is known.
        absences: The jobs that were not found.
    """
    before = due_attempt - 1
    if before < 1 or newest >= before:
        return None
    return next((absence for absence in absences if absence.attempt == before), None)


def confirm(absence: Absence, now: datetime) -> Decision:
    """Ask for a job a second time, once that counts."""
    if not absence.times:
        return Describe(absence.name)
    again = absence.times[-1] + timedelta(seconds=CONFIRM_SECONDS)
    return Describe(absence.name) if now >= again else Wait(until=again)


def crash_if_gone(case: Case) -> Decision | None:
    """Crash the run if the job of its attempt is gone for certain; None if it is not."""
    absence = _absence(case)
    if absence is None or not absence.confirmed:
        return None
    looks = case.notes.looks
    if not looks or looks[-1] < absence.times[0]:
        # The name may be an earlier attempt's: this one's job would be found by its label.
        return Look()
    if not is_gone(case) and not settled_without_job(case):
        return look_again(case)
    diagnosis = Diagnosis(
        reason=TerminationReason.DISAPPEARED,
        summary=f"CustomJob {absence.name} no longer exists, and its flow run had not ended.",
    )
    outcome = outcome_of(TerminationReason.DISAPPEARED, None, diagnosis)
    return Crash(outcome, diagnosis.message)


def is_gone(case: Case) -> bool:
    """Whether it is the job of the run's own attempt that is gone, and not an earlier one's."""
    absence = _absence(case)
    if absence is None or not absence.confirmed:
        return False
    return absence.attempt > 0 or case.run.attempt <= 1


def was_seen(case: Case) -> bool:
    """Whether this process itself had seen the job that is gone."""
    absence = _absence(case)
    return absence is not None and absence.attempt > 0


def settled_without_job(case: Case) -> bool:
    """Whether enough empty looks, over a long enough time, say that there is no job."""
    return empty_long_enough(case.notes.looks, case.policy)


def empty_long_enough(looks: Sequence[datetime], policy: RunPolicy) -> bool:
    """Whether empty looks at these times settle that there is nothing to find."""
    if not looks or len(looks) < policy.create_settle_looks:
        return False
    return (looks[-1] - looks[0]).total_seconds() >= policy.create_settle_seconds


def look_again(case: Case) -> Decision:
    """Look by label now, or when the next look is due."""
    looks, policy = case.notes.looks, case.policy
    if not looks:
        return Look()
    pause = policy.create_settle_seconds / max(1, policy.create_settle_looks - 1)
    due = looks[-1] + timedelta(seconds=pause)
    return Look() if case.now >= due else Wait(until=due)


def _absence(case: Case) -> Absence | None:
    """What is known of the job that the run's attempt should have: seen before, or named."""
    for absence in case.notes.absences.values():
        if absence.attempt and absence.attempt >= case.run.attempt:
            return absence
    name = identifier_of(case.run)
    if name is None:
        return None
    known = case.notes.absences.get(name.key)
    if known is not None and known.attempt:
        # Seen, and an earlier attempt's.
        return None
    return known or Absence(name=name)
