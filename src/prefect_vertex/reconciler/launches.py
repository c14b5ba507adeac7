"""Launch: what a create has brought into being, as much of it as its record needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.launches import LaunchFacts
from prefect_vertex.planning.plan import JobPlan

if TYPE_CHECKING:
    from prefect_vertex.reconciler.care import Care


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt that has its job.

    Attributes:
        run: As last read before the job was there.
        plan: What was sent.
        job: What came of it.
        candidates: How messages name the run's candidates.
        bootstrap: The bootstrap's source in the plan.
    """

    run: RunView
    plan: JobPlan
    job: JobSnapshot
    facts: LaunchFacts
    candidates: Sequence[str]
    bootstrap: str = field(repr=False)


def launch_of(care: Care, view: RunView, job: JobSnapshot) -> Launch | None:
    """What a job was launched with; None where nobody here knows, or no record is wanted.

    Only what this very process has sent is told: a job that another one created may have been
    planned from something else.
    """
    plan, assignment = care.sent, care.assignment
    if plan is None or assignment is None or assignment.facts is None:
        return None
    if plan.attempt != job.attempt or plan.target.location != job.resource_name.location:
        return None
    if not plan.candidate.staging_folder:
        return None
    return Launch(
        run=view,
        plan=plan,
        job=job,
        facts=assignment.facts,
        candidates=assignment.names,
        bootstrap=assignment.bootstrap,
    )
