"""The cases: what each lets a worker do, and which figures come of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks import growth
from benchmarks.api import Run
from benchmarks.figures import Figures
from benchmarks.meter import quantile
from benchmarks.sides import Side
from benchmarks.trial import Containers, Cost, Stage, Trial

# Documented (https://cloud.google.com/vertex-ai/docs/quotas, read 2026-11).
SUBMISSION_QUOTA: Final = 60
CALL_QUOTA: Final = 600
# So that a hundred runs are not a matter of minutes where submitting is not what is measured.
QUOTAS_LIFTED: Final = {"PREFECT_INTEGRATIONS_VERTEX_SUBMISSIONS_PER_MINUTE": "6000"}
BUDGETS_AT_QUOTA: Final = {
    "PREFECT_INTEGRATIONS_VERTEX_SUBMISSIONS_PER_MINUTE": str(SUBMISSION_QUOTA),
    "PREFECT_INTEGRATIONS_VERTEX_READS_PER_MINUTE": str(CALL_QUOTA),
}
_FOREVER: Final = 86_400.0
_SETTLE_SECONDS: Final = 15.0
_START_SECONDS: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question to both workers.

    Attributes:
        name: For `--case`.
        title: What is done, in a line; `{…}` are the fields of the scale that is used.
        run: Does it on one side.
        full: The figures of the issue.
        quick: Small enough for a look in under two minutes.
        targets: What our figures should be, by figure.
    """

    name: str
    title: str
    run: Callable[[Stage, Side, Mapping[str, float]], Figures]
    full: Mapping[str, float]
    quick: Mapping[str, float]
    targets: Mapping[str, str] = field(default_factory=dict)


def watching(stage: Stage, side: Side, scale: Mapping[str, float]) -> Figures:
    """Runs that run, and nothing else."""
    count = int(scale["runs"])
    with Trial(stage, side, Containers(seconds=_FOREVER), QUOTAS_LIFTED) as trial:
        trial.start_worker()
        idle = _steady(trial, scale["idle_seconds"])
        trial.schedule_gently(count)
        _wait_until_begun(trial, count)
        cost = _steady(trial, scale["seconds"])
        running = sum(run.state == "RUNNING" for run in trial.runs())
        return {
            "runs watched": float(running),
            **_rates(cost),
            "  before, without any run": idle.per_minute(idle.cpu_seconds),
            "  of these for the runs": (
                cost.per_minute(cost.cpu_seconds) - idle.per_minute(idle.cpu_seconds)
            ),
            "peak RSS of the worker, MB": trial.meter.peak_megabytes,
        }


def quotas(stage: Stage, side: Side, scale: Mapping[str, float]) -> Figures:
    """Runs that are due at once, under the documented quotas."""
    containers = Containers(
        seconds=scale["seconds"], spread_seconds=scale["seconds"] / 2, vanish_one_in=10
    )
    with Trial(stage, side, containers) as trial:
        return _submit_all(trial, int(scale["runs"]), scale)


def burst(stage: Stage, side: Side, scale: Mapping[str, float]) -> Figures:
    """The same with more runs than minutes of quota, our budgets set to the quotas."""
    with Trial(stage, side, Containers(seconds=scale["seconds"]), BUDGETS_AT_QUOTA) as trial:
        figures = _submit_all(trial, int(scale["runs"]), scale)
        calls = trial.cloud.calls()
        created = calls.created_at()
        span = created[-1] - created[0] if created else math.nan
        figures["creates a minute, first to last"] = (
            60 * (len(created) - 1) / span if span else math.nan
        )
        minutes = calls.reads_by_minute()
        figures["reads in a minute, least to most"] = (
            f"{min(minutes)} to {max(minutes)}" if minutes else "-"
        )
        empty = trial.empty_seconds()
        # Of the time from the first create to the last: before and after there is none to wait.
        figures["submission budget empty, % of that time"] = (
            None if empty is None else 100 * min(1.0, empty / span)
        )
        return figures


def detection(stage: Stage, side: Side, scale: Mapping[str, float]) -> Figures:
    """Containers that die without telling Prefect."""
    count = int(scale["runs"])
    containers = Containers(
        seconds=scale["seconds"], spread_seconds=scale["spread_seconds"], vanish_one_in=1
    )
    with Trial(stage, side, containers, QUOTAS_LIFTED) as trial:
        trial.start_worker()
        trial.schedule_gently(count)
        _wait_until_begun(trial, count)
        runs = trial.wait_for_ends()
        ended = {
            job["labels"].get("prefect-io_flow-run-id"): job["end_time"]
            for job in trial.cloud.jobs()
        }
        # A run that was lost before it had a job has none to be late for.
        waits = [run.changed_at - ended[run.id] for run in runs if run.is_final and run.id in ended]
        return {
            "runs settled": float(len(waits)),
            "from a job's end to the run's, median s": quantile(waits, 0.5),
            "from a job's end to the run's, p95 s": quantile(waits, 0.95),
            "from a job's end to the run's, most s": max(waits, default=math.nan),
        }


# --- parts ----------------------------------------------------------------------------------------


def _steady(trial: Trial, seconds: float) -> Cost:
    time.sleep(_SETTLE_SECONDS)
    trial.begin_counting()
    time.sleep(seconds)
    return trial.cost()


def _wait_until_begun(trial: Trial, count: int) -> None:
    """Wait until every run runs, or has ended: a run that was lost is not waited for."""

    def begun() -> bool:
        runs = trial.runs()
        return count == sum(run.state == "RUNNING" or run.is_final for run in runs)

    trial.wait_for(begun, seconds=_START_SECONDS, what=f"{count} Running runs")


def _rates(cost: Cost) -> Figures:
    by_method = {
        f"  {method} a minute": cost.per_minute(cost.by_method.get(method, 0))
        for method in ("GetCustomJob", "ListCustomJobs")
    }
    return {
        "reads of the JobService a minute": cost.per_minute(cost.reads),
        **by_method,
        "calls to Prefect a minute": cost.per_minute(cost.prefect_calls),
        "CPU seconds of the worker a minute": cost.per_minute(cost.cpu_seconds),
    }


def _submit_all(trial: Trial, count: int, scale: Mapping[str, float]) -> Figures:
    trial.cloud.limit(int(scale["submissions"]), int(scale["calls"]))
    trial.schedule(count)
    trial.start_worker()
    runs = trial.wait_for_ends()
    cost, calls = trial.cost(), trial.cloud.calls()
    starts = trial.starts()
    return {
        "runs lost": float(sum(not _is_right(run, trial, starts) for run in runs)),
        "  crashed before they had run": float(
            sum(run.state == "CRASHED" and not starts[run.id] for run in runs)
        ),
        "  never settled": float(sum(not run.is_final for run in runs)),
        "containers started twice": float(sum(times > 1 for times in starts.values())),
        "submissions denied": float(calls.denied(submissions=True)),
        "other calls denied": float(calls.denied(submissions=False)),
        "jobs created": float(len(calls.created_at())),
        "reads of the JobService a minute": cost.per_minute(cost.reads),
        "calls to Prefect a minute": cost.per_minute(cost.prefect_calls),
        "CPU seconds of the worker": cost.cpu_seconds,
        "peak RSS of the worker, MB": trial.meter.peak_megabytes,
    }


def _is_right(run: Run, trial: Trial, starts: Mapping[str, int]) -> bool:
    """Whether a run has ended as its container has: run once; Crashed if it had just died."""
    right = "CRASHED" if trial.containers.vanishes(run.id) else "COMPLETED"
    return run.state == right and starts[run.id] == 1


CASES: Final = (
    Case(
        name="watching",
        title="{runs:.0f} Running runs, no quotas, steady for {seconds:.0f} s",
        run=watching,
        full={"runs": 100, "seconds": 120, "idle_seconds": 60},
        quick={"runs": 10, "seconds": 10, "idle_seconds": 5},
        targets={
            "reads of the JobService a minute": "at most 30",
            "  of these for the runs": "ratio at least 5",
        },
    ),
    Case(
        name="quotas",
        title=(
            "{runs:.0f} runs at once, {submissions:.0f} submissions and {calls:.0f} other calls "
            "a minute enforced, our budgets at their defaults; one container in ten just dies"
        ),
        run=quotas,
        full={"runs": 100, "seconds": 60, "submissions": 60, "calls": 600},
        quick={"runs": 15, "seconds": 5, "submissions": 10, "calls": 100},
        targets={"runs lost": "0", "containers started twice": "0"},
    ),
    Case(
        name="burst",
        title=(
            "{runs:.0f} runs at once, {submissions:.0f} submissions and {calls:.0f} other calls "
            "a minute enforced, our budgets set to the documented quotas"
        ),
        run=burst,
        full={
            "runs": 500,
            "seconds": 2,
            "submissions": SUBMISSION_QUOTA,
            "calls": CALL_QUOTA,
        },
        quick={"runs": 40, "seconds": 1, "submissions": SUBMISSION_QUOTA, "calls": CALL_QUOTA},
        targets={
            "runs lost": "0",
            "  crashed before they had run": "0",
            "submissions denied": "a handful",
            "creates a minute, first to last": "at least 52 (60 less 15 %)",
            "reads in a minute, least to most": "flat",
        },
    ),
    Case(
        name="detection",
        title="{runs:.0f} containers die unreported within {spread_seconds:.0f} s, 5 s poll",
        run=detection,
        full={"runs": 100, "seconds": 45, "spread_seconds": 45},
        quick={"runs": 10, "seconds": 5, "spread_seconds": 10},
        targets={"from a job's end to the run's, p95 s": "at most 6 (interval + 1)"},
    ),
    Case(
        name="growth",
        title="{small:.0f}, {middle:.0f} and {large:.0f} live jobs, steady for {seconds:.0f} s",
        run=growth.growth,
        full={"small": 100, "middle": 1000, "large": 5000, "theirs": 100, "seconds": 120},
        quick={"small": 10, "middle": 110, "large": 0, "theirs": 10, "seconds": 10},
        targets=growth.TARGETS,
    ),
)
