"""What the reconciler decides, in words: what `--settle` would do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from prefect_vertex.cli.jobs.pairing import policy_of
from prefect_vertex.lifecycle.case import CONFIRM_SECONDS, Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Create,
    Decision,
    Describe,
    HandBack,
    Hop,
    Look,
    MarkCancelled,
    Requeue,
    Reschedule,
    Settle,
    Show,
    Wait,
    Withdraw,
)
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot


def next_step(run: RunView | None, jobs: Sequence[JobSnapshot], now: datetime) -> str:
    """What would be done for a run now, as a phrase.

    Args:
        run: As read after its jobs; None: deleted, which is made sure of before anything is done.
        jobs: Its jobs, described.
        now: Aware.
    """
    sure = (now - timedelta(seconds=CONFIRM_SECONDS), now) if run is None else ()
    phrase = said(decide(run, jobs, policy_of(run), now, Notes(gone=sure)))
    return " ".join(phrase.split())


def said(decision: Decision) -> str:  # noqa: C901, PLR0911, PLR0912 - a dispatch
    """A decision as a phrase, such as `cancel CustomJob 12: its flow run is Completed`."""
    match decision:
        case CancelJob(job, _, because, _):
            return f"cancel CustomJob {job.job_id}: {because}"
        case Withdraw(job, _):
            return f"forget why CustomJob {job.job_id} was to be cancelled: it goes on"
        case Crash(_, message):
            return f"say Crashed: {message}"
        case MarkCancelled(_, message):
            return f"say Cancelled: {message}"
        case Reschedule(message=message) | Requeue(message=message):
            return f"put back to Scheduled: {message}"
        case Hop(_, _, otherwise):
            return f"leave it to its worker, which tries the next candidate; else {said(otherwise)}"
        case HandBack():
            return "offer it to the workers again"
        case Show(name, _):
            return f"say {name}"
        case Describe(job):
            return f"read CustomJob {job.job_id} again"
        case Look():
            return "look for its job once more"
        case Wait(until) if until is not None:
            return f"wait until {until:%H:%M:%S} UTC"
        case Wait() | Create():
            return "leave it to its worker"
        case Settle():
            return "nothing"
