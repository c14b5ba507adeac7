"""What a run asks for, cut to what its projects' quotas can hold (`preflight_quota`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from prefect_vertex.capacity.meters import demand_of
from prefect_vertex.capacity.quota import Readings, Standing, judged, preflight
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.vertex.quotas import QuotaReader


async def within_quotas(
    assignment: Assignment,
    plans: Sequence[JobPlan],
    quotas: QuotaReader,
    *,
    judges: Collection[int],
) -> Assignment:
    """Skip the candidates that cannot fit, and leave out replicas that cannot.

    What cannot be read changes nothing.

    Args:
        assignment: The run's.
        plans: One for each of its candidates.
        quotas: Where limits are read.
        judges: Places of the candidates that are to be judged; without any nothing is read.
    """
    wanted = [each.candidate for each in plans if each.candidate.index in judges]
    if not wanted:
        return assignment
    readings = await quotas.read((each.project, each.credentials_key) for each in wanted)
    found = preflight(
        [
            demand_of(each)
            if each.candidate.index in judges
            else replace(demand_of(each), exempt="its preflight_quota is off")
            for each in plans
        ],
        readings,
    )
    smaller: dict[int, Candidate] = {}
    warnings = [*assignment.warnings, *found.lines]
    for candidate in assignment.spec.candidates:
        count = found.worker_counts.get(candidate.index, candidate.worker_count)
        if count == candidate.worker_count:
            continue
        fewer = replace(candidate, worker_count=count)
        if _fits(assignment, fewer, readings):
            smaller[candidate.index] = fewer
        else:
            warnings.append(
                f"Candidate {candidate.index + 1} keeps its {candidate.worker_count} replicas: its "
                "worker_pools or job_spec_patch leave no way to fewer."
            )
    spec = assignment.spec
    candidates = tuple(smaller.get(each.index, each) for each in spec.candidates)
    return replace(
        assignment,
        spec=replace(spec, candidates=candidates),
        warnings=tuple(warnings),
        skipped=found.refusals,
    )


def _fits(assignment: Assignment, candidate: Candidate, readings: Readings) -> bool:
    """Whether the smaller job can be written, and is smaller: pools may have their own numbers."""
    try:
        demand = demand_of(assignment.plan(candidate, 1))
    except PlanError:
        return False
    return judged(demand, readings).standing not in {Standing.BLOCKED, Standing.CLAMPED}
