"""Launch: what a create has brought into being, as much of it as its record needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.launches import LaunchFacts
from prefect_vertex.planning.plan import JobPlan


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
