"""What holds for every decision, whatever the world looks like."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_vertex.lifecycle.case import Absence, Notes
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Create,
    Decision,
    HandBack,
    Hop,
    MarkCancelled,
    Requeue,
    Reschedule,
    Show,
)
from prefect_vertex.lifecycle.diagnosis import is_incomplete
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    INSTANCE_LABEL,
    STRAY_LABEL,
    VERDICT_LABEL,
    WAIT_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import PHASE_OF, phase_of
from prefect_vertex.planning import naming
from prefect_vertex.planning.naming import ResourceName

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGES = st.sampled_from([0, 1, 3, 14, 15, 30, 59, 60, 61, 119, 120, 121, 600, 899, 900, 5000, -40])
MOMENTS = AGES.map(lambda seconds: NOW - timedelta(seconds=seconds))
MAYBE_MOMENTS = st.none() | MOMENTS
TIMES = st.lists(MOMENTS, max_size=4).map(sorted).map(tuple)
NAMES = st.builds(
    ResourceName, st.just("42"), st.sampled_from(["r1", "r2"]), st.sampled_from(["1", "2", "3"])
)
ATTEMPTS = st.integers(0, 8)
ERRORS = st.none() | st.builds(
    JobError,
    code=st.integers(0, 16),
    message=st.sampled_from(
        [
            "",
            "The replica workerpool0-0 exited with a non-zero status of 137.",
            "Resources are insufficient in region: r1.",
            "The following quota metrics exceed quota limits: x",
            "The replica workerpool1-0 exited with a non-zero status of 79.",
            "status of nothing",
        ]
    ),
)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        ATTEMPT_LABEL: st.sampled_from(["0", "1", "2", "7", "x", "٣", ""]),
        WAIT_LABEL: st.sampled_from(["s1", "s2", ""]),
        INSTANCE_LABEL: st.sampled_from(["w/1", "w/2", ""]),
        VERDICT_LABEL: st.sampled_from(
            [f"{n}:{reason.value}" for n in (1, 2) for reason in TerminationReason]
            + ["", ":", "1", "1:stalled:sent", "2:start-timeout:sent"]
        ),
        STRAY_LABEL: st.sampled_from(["", "1", "1 2"]),
    },
)
IDENTIFIERS = st.sampled_from(["", "pod:1", "projects/42/locations/r1"]) | NAMES.map(str)


@st.composite
def snapshots(draw: Any) -> JobSnapshot:
    state = draw(st.sampled_from([*PHASE_OF, "JOB_STATE_OF_2030"]))
    attempt = draw(ATTEMPTS)
    return JobSnapshot(
        resource_name=draw(NAMES),
        display_name="a-job",
        phase=phase_of(state),
        state=state,
        observed_at=draw(MOMENTS),
        create_time=draw(MOMENTS),
        labels={naming.ATTEMPT_LABEL: str(attempt)} if attempt else {},
        start_time=draw(MAYBE_MOMENTS),
        end_time=draw(MAYBE_MOMENTS),
        error=draw(ERRORS),
        described=draw(st.booleans()),
    )


JOBS = st.lists(snapshots(), max_size=3, unique_by=lambda job: job.resource_name.key)
RUNS = st.builds(
    RunView,
    id=st.just("run"),
    name=st.just("a-run"),
    state=st.sampled_from(RunState),
    state_name=st.sampled_from(
        [
            "Pending",
            "Submitting",
            "InfrastructurePending",
            "Provisioning",
            "AwaitingCapacity",
            "AwaitingRetry",
            "",
        ]
    ),
    state_id=st.sampled_from(["s1", "s2", "s3"]),
    state_time=MOMENTS,
    observed_at=st.just(NOW),
    previous=st.none() | st.sampled_from(RunState),
    suspended=st.booleans(),
    retries_in_process=st.booleans(),
    identifier=IDENTIFIERS,
    deployment_id=st.sampled_from(["", "d"]),
    labels=LABELS,
)
ABSENCES = st.lists(st.builds(Absence, name=NAMES, attempt=ATTEMPTS, times=TIMES), max_size=2).map(
    lambda found: {absence.name.key: absence for absence in found}
)
KEYS = NAMES.map(lambda name: name.key)
NOTES = st.builds(
    Notes,
    due_attempt=st.integers(-1, 8),
    rescheduled=st.booleans(),
    continues=st.booleans(),
    nothing_sent=st.booleans(),
    holder_gone=st.booleans(),
    cancels=st.dictionaries(KEYS, MOMENTS, max_size=3),
    looks=TIMES,
    absences=ABSENCES,
    ended=st.dictionaries(KEYS, MOMENTS, max_size=3),
    gone=TIMES,
    claimed_job_id=st.sampled_from(["", "1", "2"]),
    unstarted=st.frozensets(st.integers(1, 8)),
    answered=st.integers(0, 8),
    restarts=st.none() | st.integers(0, 8),
    last_sign=MAYBE_MOMENTS,
)
POLICIES = st.builds(
    RunPolicy,
    provisioning_timeout_seconds=st.none() | st.sampled_from([0.0, 60.0, 600.0]),
    start_grace_seconds=st.sampled_from([0.0, 900.0]),
    cancel_grace_seconds=st.sampled_from([0.0, 60.0]),
    max_restarts=st.integers(0, 6),
    timeout_seconds=st.none() | st.sampled_from([30.0, 3600.0]),
    stall_timeout_seconds=st.none() | st.sampled_from([0.0, 60.0]),
    spot=st.booleans(),
    create_settle_looks=st.integers(0, 4),
)
EXAMPLES = settings(max_examples=200, deadline=None)


def ours(run: RunView | None, jobs: list[JobSnapshot]) -> list[JobSnapshot]:
    """Jobs of this product and the one that the run names."""
    named = run.identifier if run is not None else ""
    return [job for job in jobs if job.attempt or named == str(job.resource_name)]


@EXAMPLES
@given(st.none() | RUNS, JOBS, POLICIES, NOTES)
def test_every_decision_is_sound(
    run: RunView | None, jobs: list[JobSnapshot], policy: RunPolicy, notes: Notes
) -> None:
    """It never ends a run whose job lives, nor begins an attempt that is not due here.

    It is one of the known kinds, and the same in whatever order the jobs come.
    """
    decision = decide(run, jobs, policy, NOW, notes)

    assert isinstance(decision, get_args(Decision))
    assert decide(run, list(reversed(jobs)), policy, NOW, notes) == decision
    live = [job for job in ours(run, jobs) if not job.is_terminal]
    if isinstance(decision, Crash | Hop | MarkCancelled | Create | HandBack | Requeue | Reschedule):
        assert run is not None
        if isinstance(decision, Requeue):
            # Its live job would be an earlier attempt's; the next holder sees it off.
            live = [job for job in live if job.attempt > run.attempt]
        assert not live
    if isinstance(decision, Create):
        assert decision.attempt == notes.due_attempt
        assert notes.due_attempt > max((job.attempt for job in ours(run, jobs)), default=0)


@EXAMPLES
@given(RUNS, JOBS, POLICIES, NOTES)
def test_what_is_proposed_fits_the_state_that_the_run_is_in(
    run: RunView, jobs: list[JobSnapshot], policy: RunPolicy, notes: Notes
) -> None:
    """The server would accept a Pending state over a finished run, or Crashed over a suspended."""
    decision = decide(run, jobs, policy, NOW, notes)

    if isinstance(decision, Show | Create | Requeue | Hop):
        assert run.state is RunState.PENDING
    if isinstance(decision, HandBack):
        assert run.state is RunState.SCHEDULED
        assert run.retries_in_process
    if isinstance(decision, Crash | Reschedule | MarkCancelled):
        assert not run.is_final
        assert not run.suspended or run.state is not RunState.PAUSED
    if isinstance(decision, Crash | Reschedule):
        assert run.state is not RunState.CANCELLING


@EXAMPLES
@given(RUNS, JOBS, POLICIES, NOTES)
def test_only_what_never_began_is_tried_elsewhere(
    run: RunView, jobs: list[JobSnapshot], policy: RunPolicy, notes: Notes
) -> None:
    decision = decide(run, jobs, policy, NOW, notes)

    if isinstance(decision, Hop):
        job = next(job for job in jobs if job.resource_name == decision.job)
        assert job.is_terminal
        assert job.described
        assert job.start_time is None or is_incomplete(job)
        assert job.attempt in notes.unstarted


@EXAMPLES
@given(RUNS, JOBS, POLICIES)
def test_without_memory_no_attempt_is_created_and_no_run_taken_from_its_holder(
    run: RunView, jobs: list[JobSnapshot], policy: RunPolicy
) -> None:
    assert not isinstance(decide(run, jobs, policy, NOW), Create | Requeue | Hop)


@EXAMPLES
@given(st.none() | RUNS, JOBS, POLICIES, NOTES)
def test_only_a_job_that_lives_is_cancelled(
    run: RunView | None, jobs: list[JobSnapshot], policy: RunPolicy, notes: Notes
) -> None:
    decision = decide(run, jobs, policy, NOW, notes)

    if isinstance(decision, CancelJob):
        job = next(job for job in jobs if job.resource_name == decision.job)
        assert not job.is_terminal
        assert decision.verdict is None or job.described
