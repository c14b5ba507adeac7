"""Jobs beside their runs: what a person sees of each pair, and where the two disagree. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from prefect_vertex.lifecycle.policy import RunPolicy, parse_policy
from prefect_vertex.lifecycle.run import (
    AWAITING_STATE,
    POLICY_LABEL,
    WITH_JOB_STATES,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase

SLOW_CANCEL: Final = timedelta(minutes=5)
"""How long a job may take to end once it was asked to."""


class Standing(Enum):
    """How a job and its run stand to each other, in the words that are printed."""

    IN_STEP = "in step"
    LIVE_JOB_ENDED_RUN = "live job, ended run"
    ENDED_JOB_LIVE_RUN = "ended job, live run"
    LIVE_JOB_NO_RUN = "live job, run deleted"
    ENDED_JOB_NO_RUN = "ended, run deleted"
    LIVE_RUN_NO_JOB = "live run, no job"
    TWO_LIVE_JOBS = "two live jobs"
    SLOW_CANCEL = "long in cancelling"

    @property
    def disagrees(self) -> bool:
        """Whether something is left to be done."""
        return self not in {Standing.IN_STEP, Standing.ENDED_JOB_NO_RUN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One job and its run; either may be missing.

    Attributes:
        run_id: The flow run's, also where it was deleted.
    """

    run_id: str
    standing: Standing
    job: JobSnapshot | None = None
    run: RunView | None = None


def pairs_of(runs: Mapping[str, RunView], jobs: Iterable[JobSnapshot], now: datetime) -> list[Pair]:
    """Put each job beside its run; oldest first, runs without a job last.

    Args:
        runs: By id; a job's run that is missing was deleted. Runs that have a job nowhere are
            told as such, so only those belong here whose jobs were looked for.
        jobs: Of this product, in any order and state.
        now: Aware.
    """
    of_run: defaultdict[str, list[JobSnapshot]] = defaultdict(list)
    for job in jobs:
        of_run[job.flow_run_id].append(job)
    found = [
        Pair(run_id=run_id, run=runs.get(run_id), job=job, standing=standing)
        for run_id, group in of_run.items()
        for job, standing in _judged(runs.get(run_id), group, now)
    ]
    found.sort(key=lambda pair: pair.job.create_time if pair.job is not None else now)
    return found + [
        Pair(run_id=run_id, run=run, standing=Standing.LIVE_RUN_NO_JOB)
        for run_id, run in sorted(runs.items())
        if run_id not in of_run and needs_job(run)
    ]


def needs_job(run: RunView) -> bool:
    """Whether a run is in a state that only a job can have brought it to."""
    if run.state in {RunState.RUNNING, RunState.CANCELLING}:
        return bool(run.attempt or run.identifier)
    return run.state is RunState.PENDING and run.state_name in WITH_JOB_STATES


def policy_of(run: RunView | None) -> RunPolicy:
    """How patient the worker is with a run, as the run's own label says."""
    text = run.labels.get(POLICY_LABEL) if run is not None else None
    return RunPolicy() if text is None else parse_policy(text)


def _judged(
    run: RunView | None, jobs: Sequence[JobSnapshot], now: datetime
) -> list[tuple[JobSnapshot, Standing]]:
    """Of several jobs the one of the highest attempt speaks for the run, of two the older."""
    ordered = sorted(jobs, key=lambda job: (job.attempt, -job.create_time.timestamp()))
    live = [job for job in ordered if not job.is_terminal]
    found = [
        (job, Standing.IN_STEP if job.is_terminal else Standing.TWO_LIVE_JOBS)
        for job in ordered[:-1]
    ]
    speaker = ordered[-1]
    standing = _standing(run, speaker, now)
    if len(live) > 1 and live[-1] is speaker and standing is Standing.IN_STEP:
        rivals = [job for job in live if job.attempt == speaker.attempt]
        standing = Standing.TWO_LIVE_JOBS if len(rivals) > 1 else standing
    if run is None:
        found = [(job, _without_run(job)) for job, _ in found]
    return [*found, (speaker, standing)]


def _standing(run: RunView | None, job: JobSnapshot, now: datetime) -> Standing:
    if run is None:
        return _without_run(job)
    if job.is_terminal:
        late = _is_left_over(run, job, now)
        return Standing.ENDED_JOB_LIVE_RUN if late else Standing.IN_STEP
    grace = timedelta(seconds=policy_of(run).cancel_grace_seconds)
    if run.is_final and now >= run.state_time + grace:
        return Standing.LIVE_JOB_ENDED_RUN
    ending = run.is_final or run.state is RunState.CANCELLING
    if job.phase is JobPhase.CANCELLING and ending and now >= run.state_time + SLOW_CANCEL:
        return Standing.SLOW_CANCEL
    return Standing.IN_STEP


def _is_left_over(run: RunView, job: JobSnapshot, now: datetime) -> bool:
    """Whether a run goes on though its job has ended, and is not merely about to be told so."""
    if run.is_final or run.suspended or job.attempt < run.attempt or run.waits_for_next:
        return False
    if run.state is RunState.SCHEDULED or run.state_name == AWAITING_STATE:
        return False
    # Its error may come minutes after its end; before that nothing is decided.
    ended = job.end_time or job.observed_at
    return now >= ended + timedelta(seconds=policy_of(run).error_settle_seconds)


def _without_run(job: JobSnapshot) -> Standing:
    return Standing.ENDED_JOB_NO_RUN if job.is_terminal else Standing.LIVE_JOB_NO_RUN
