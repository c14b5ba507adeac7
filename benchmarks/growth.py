"""How the cost of watching grows with the number of live jobs.

Our worker adopts what lives, so jobs and Running runs are simply put there.  prefect-gcp's watches
only what it has itself created: its jobs are created by it, and wait for machines for ever, so that
no container takes part.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from benchmarks.figures import Figures
from benchmarks.sides import OURS, WORKER_NAME, Side
from benchmarks.trial import REGION, Containers, Cost, Stage, Trial
from prefect_vertex.cli.local import PROJECT
from prefect_vertex.emulator.seeds import Seed
from prefect_vertex.lifecycle.run import DRAWN_LABEL, RunState
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import parse_resource_name
from prefect_vertex.reconciler.story import digest_of

TARGETS: Final = {
    "pages of live jobs: middle to small": "what is listed",
    "pages of live jobs: large to small": "what is listed",
    "CPU s a minute: middle to small": "less than the pages'",
    "CPU s a minute: large to small": "less than the pages'",
}
_PAGE: Final = 100
# The worker's own sweep of all runs comes once a minute; a change by it shows within this.
_QUIET_SECONDS: Final = 20.0
_START_SECONDS: Final = 1800.0
_LABELS: Final = {"prefect-vertex.instance": f"{WORKER_NAME}/earlier"}


def growth(stage: Stage, side: Side, scale: Mapping[str, float]) -> Figures:
    """Measure one size after the other, each with a fresh worker."""
    figures: Figures = {}
    costs: dict[str, Cost] = {}
    for size in ("small", "middle", "large"):
        count = int(scale[size])
        if not count or (side.name != OURS and count > scale["theirs"]):
            continue
        with Trial(stage, side, Containers(seconds=0)) as trial:
            taken = _put_there(trial, count) if side.name == OURS else _let_create(trial, count)
            trial.begin_counting()
            time.sleep(scale["seconds"])
            costs[size] = cost = trial.cost()
            figures[f"{count} jobs: seconds until all in its care"] = taken
            figures[f"{count} jobs: reads a minute"] = cost.per_minute(cost.reads)
            figures[f"{count} jobs: calls to Prefect a minute"] = cost.per_minute(
                cost.prefect_calls
            )
            figures[f"{count} jobs: CPU s a minute"] = cost.per_minute(cost.cpu_seconds)
            figures[f"{count} jobs: peak RSS, MB"] = trial.meter.peak_megabytes
    return figures | _compared(costs, scale)


def _compared(costs: Mapping[str, Cost], scale: Mapping[str, float]) -> Figures:
    figures: Figures = {}
    for size in ("middle", "large"):
        if not {size, "small"} <= costs.keys():
            continue
        pages = [-(-int(scale[each]) // _PAGE) for each in (size, "small")]
        figures[f"pages of live jobs: {size} to small"] = pages[0] / pages[1]
        more, less = (costs[each].per_minute(costs[each].cpu_seconds) for each in (size, "small"))
        figures[f"CPU s a minute: {size} to small"] = more / less
    return figures


def _put_there(trial: Trial, count: int) -> float:
    runs = trial.create_running(count, _LABELS)
    names = trial.cloud.seed(
        [
            Seed(
                parent=f"projects/{PROJECT}/locations/{REGION}",
                display_name=f"run-{number}-{run[:8]}-a1",
                labels={
                    "prefect-io_flow-run-id": run,
                    "prefect-io_work-pool-id": trial.pool_id,
                    "prefect-vertex_attempt": "1",
                },
            )
            for number, run in enumerate(runs)
        ],
    )
    identifiers = dict(zip(runs, names, strict=True))
    trial.name_infrastructure(identifiers)
    # As the worker that was there before has left them.
    trial.label({run: {DRAWN_LABEL: _digest(name)} for run, name in identifiers.items()})
    trial.start_worker()
    return trial.wait_until_settled(_QUIET_SECONDS, seconds=_START_SECONDS)


def _digest(name: str) -> str:
    now = datetime.now(UTC)
    job = JobSnapshot(
        resource_name=parse_resource_name(name),
        display_name="",
        phase=JobPhase.RUNNING,
        state="JOB_STATE_RUNNING",
        observed_at=now,
        create_time=now,
    )
    jobs = {job.resource_name.key: job}
    return digest_of(jobs, serial=0, state=RunState.RUNNING, is_over=False)


def _let_create(trial: Trial, count: int) -> float:
    trial.cloud.keep_pending()
    trial.start_worker()
    begun = time.monotonic()
    trial.schedule_gently(count)

    def created() -> bool:
        # A run that was lost is not waited for.
        lost = sum(run.is_final for run in trial.runs())
        return trial.cloud.live() + lost >= count

    trial.wait_for(created, seconds=_START_SECONDS, what=f"{count} jobs")
    taken = time.monotonic() - begun
    # Its last change may have been the last create.
    trial.wait_until_settled(_QUIET_SECONDS, seconds=_START_SECONDS, begun=begun)
    return taken
