"""The quotas of the pool's machines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from prefect_vertex.capacity.quota import CandidateQuota, Preflight, Standing
from prefect_vertex.cli.doctor.finding import Finding, failed, ok, unchecked, warning


def about_quotas(found: Preflight) -> Iterator[Finding]:
    """What the projects' quotas say about each candidate."""
    problems = " ".join(found.problems)
    for each in found.outcomes:
        yield _about_quota(each, problems)


def _about_quota(outcome: CandidateQuota, problems: str) -> Finding:
    demand = outcome.demand
    check = f"quota in {demand.location}"
    figures = "; ".join(
        f"{reading.meter.metric.rpartition('/')[2]}: "
        f"{'no limit' if (reading.limit or 0) < 0 else reading.limit} for {reading.meter.asked}"
        for reading in outcome.readings
        if reading.limit is not None
    )
    short = [each for each in outcome.readings if each.standing is outcome.standing]
    metric = next((each.meter.metric.rpartition("/")[2] for each in short), "")
    fix = (
        f"gcloud beta quotas info list --service aiplatform.googleapis.com "
        f"--project {demand.project} --filter {shlex.quote(f'metric:{metric}')}"
    )
    match outcome.standing:
        case Standing.OK:
            return ok(check, f"{demand.exempt or figures or 'fits'}.".replace("..", "."))
        case Standing.UNKNOWN:
            return unchecked(check, problems or "The quota of this machine is not known.")
        case Standing.BLOCKED:
            return failed(check, f"{figures}: no job fits. Ask for more.", fix)
        case Standing.CLAMPED | Standing.ADVISED:
            return warning(
                check,
                f"{figures}: room for fewer than {outcome.asked_worker_count} replicas. "
                "Ask for more.",
                fix,
            )
