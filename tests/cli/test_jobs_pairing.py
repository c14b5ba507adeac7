"""Jobs beside their runs: what is a disagreement, and what would be done about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.cli.jobs.deeds import old_jobs
from prefect_vertex.cli.jobs.looking import Look
from prefect_vertex.cli.jobs.pairing import Standing, pairs_of
from prefect_vertex.cli.jobs.showing import age_of, steps_of
from prefect_vertex.cli.jobs.wording import next_step
from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import phase_of
from prefect_vertex.planning import naming
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN = "0f0e0d0c-0b0a-0908-0706-050403020100"
LONG_AGO = timedelta(hours=1)
JUST_NOW = timedelta(seconds=5)


def run(state: str, *, since: timedelta = LONG_AGO, name: str = "", **known: Any) -> RunView:
    kind = RunState(state)
    return RunView(
        id=known.pop("id", RUN),
        name="brave-otter",
        state=kind,
        state_name=name or state.title(),
        state_id="s",
        state_time=NOW - since,
        observed_at=NOW,
        labels={ATTEMPT_LABEL: str(known.pop("attempt", 1))},
        **known,
    )


def job(
    state: str, *, number: int = 1, attempt: int = 1, ended: timedelta = LONG_AGO, **known: Any
) -> JobSnapshot:
    phase = phase_of(f"JOB_STATE_{state}")
    return JobSnapshot(
        resource_name=ResourceName("42", "us-central1", str(number)),
        display_name="otter",
        phase=phase,
        state=f"JOB_STATE_{state}",
        observed_at=NOW,
        create_time=NOW - timedelta(hours=2) + timedelta(seconds=number),
        start_time=NOW - timedelta(hours=1.5),
        end_time=NOW - ended if phase.is_terminal else None,
        labels={naming.FLOW_RUN_LABEL: RUN, naming.ATTEMPT_LABEL: str(attempt)},
        described=True,
        **known,
    )


@pytest.mark.parametrize(
    ("view", "jobs", "expected"),
    [
        pytest.param(run("RUNNING"), [job("RUNNING")], ["in step"], id="both live"),
        pytest.param(run("COMPLETED"), [job("SUCCEEDED")], ["in step"], id="both ended"),
        pytest.param(
            run("COMPLETED", since=JUST_NOW), [job("RUNNING")], ["in step"], id="on its way out"
        ),
        pytest.param(
            run("COMPLETED"), [job("RUNNING")], ["live job, ended run"], id="job outlives"
        ),
        pytest.param(run("RUNNING"), [job("FAILED")], ["ended job, live run"], id="run outlives"),
        pytest.param(
            run("RUNNING"), [job("FAILED", ended=JUST_NOW)], ["in step"], id="its error may come"
        ),
        pytest.param(
            run("PENDING"), [job("CANCELLED")], ["ended job, live run"], id="never started"
        ),
        pytest.param(
            run("PENDING", name="AwaitingCapacity"), [job("FAILED")], ["in step"], id="between"
        ),
        pytest.param(
            run("PENDING", attempt=2), [job("FAILED")], ["in step"], id="the next is announced"
        ),
        pytest.param(
            run("SCHEDULED", name="AwaitingRetry"), [job("FAILED")], ["in step"], id="rescheduled"
        ),
        pytest.param(
            run("PAUSED", suspended=True), [job("SUCCEEDED")], ["in step"], id="suspended"
        ),
        pytest.param(None, [job("RUNNING")], ["live job, run deleted"], id="run deleted"),
        pytest.param(None, [job("FAILED")], ["ended, run deleted"], id="run deleted, job ended"),
        pytest.param(
            run("RUNNING"),
            [job("RUNNING", number=2), job("RUNNING")],
            ["two live jobs", "two live jobs"],
            id="two for one attempt",
        ),
        pytest.param(
            run("RUNNING", attempt=2),
            [job("RUNNING"), job("RUNNING", number=2, attempt=2)],
            ["two live jobs", "in step"],
            id="an earlier attempt's lives",
        ),
        pytest.param(
            run("RUNNING", attempt=2),
            [job("FAILED"), job("RUNNING", number=2, attempt=2)],
            ["in step", "in step"],
            id="an earlier attempt's ended",
        ),
        pytest.param(
            run("CANCELLING"), [job("CANCELLING")], ["long in cancelling"], id="slow cancel"
        ),
        pytest.param(
            run("CANCELLING", since=JUST_NOW), [job("CANCELLING")], ["in step"], id="cancelling"
        ),
        pytest.param(run("RUNNING"), [], ["live run, no job"], id="no job"),
        pytest.param(run("COMPLETED"), [], [], id="ended without job"),
        pytest.param(run("PENDING", name="Submitting"), [], [], id="job not created yet"),
    ],
)
def test_a_pair_is_in_step_or_says_how_it_is_not(
    view: RunView | None, jobs: list[JobSnapshot], expected: list[str]
) -> None:
    pairs = pairs_of({RUN: view} if view else {}, jobs, NOW)

    assert [pair.standing.value for pair in pairs] == expected


EXIT_1 = JobError(code=3, message="The replica workerpool0-0 exited with a non-zero status of 1.")


@pytest.mark.parametrize(
    ("view", "jobs", "starts"),
    [
        (run("COMPLETED"), [job("RUNNING")], "cancel CustomJob 1: its flow run is Completed"),
        (None, [job("RUNNING")], "cancel CustomJob 1: its flow run was deleted"),
        (run("RUNNING"), [job("FAILED", error=EXIT_1)], "say Crashed: "),
        (
            run("RUNNING"),
            [job("RUNNING"), job("RUNNING", number=2)],
            "cancel CustomJob 2: another job has its place",
        ),
        (run("CANCELLING"), [job("CANCELLED")], "say Cancelled: CustomJob 1 is gone."),
    ],
)
def test_the_step_is_the_reconciler_s_own_decision(
    view: RunView | None, jobs: list[JobSnapshot], starts: str
) -> None:
    step = next_step(view, jobs, NOW)

    assert step.startswith(starts)
    assert "\n" not in step


def look(view: RunView | None, *jobs: JobSnapshot) -> Look:
    seen = Look(now=NOW, runs={RUN: view} if view else {})
    seen.see(jobs, Target("p", "us-central1"))
    return seen


def test_only_disagreements_have_a_step() -> None:
    assert steps_of(look(run("RUNNING"), job("RUNNING"))) == {}
    assert list(steps_of(look(run("COMPLETED"), job("RUNNING")))) == [RUN]
    assert not Standing.ENDED_JOB_NO_RUN.disagrees


@pytest.mark.parametrize(
    ("view", "one", "is_old"),
    [
        (run("COMPLETED"), job("SUCCEEDED", ended=timedelta(days=31)), True),
        (run("COMPLETED"), job("SUCCEEDED", ended=timedelta(days=29)), False),
        (None, job("FAILED", ended=timedelta(days=31)), True),
        (run("COMPLETED"), job("RUNNING"), False),
        (run("RUNNING"), job("FAILED", ended=timedelta(days=31)), False),
    ],
)
def test_only_ended_jobs_of_ended_runs_are_old(
    view: RunView | None, one: JobSnapshot, *, is_old: bool
) -> None:
    """How a job ended decides what becomes of a run that has not."""
    assert bool(old_jobs(look(view, one), timedelta(days=30), NOW)) == is_old


def test_a_flow_s_own_jobs_are_not_the_pool_s() -> None:
    """A flow may start CustomJobs of its own under its labels; they have no attempt."""
    assert look(run("RUNNING"), job("RUNNING", attempt=0)).pairs == pairs_of(
        {RUN: run("RUNNING")}, [], NOW
    )


@pytest.mark.parametrize(
    ("seconds", "shown"), [(5, "5s"), (90, "1m"), (7200, "2h"), (200_000, "2d"), (-3, "0s")]
)
def test_an_age_is_shown_in_its_largest_unit(seconds: int, shown: str) -> None:
    assert age_of(timedelta(seconds=seconds)) == shown
