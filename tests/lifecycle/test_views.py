"""What a run and a job say of themselves by their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from prefect_vertex.lifecycle.outcomes import (
    EXIT_STATUS,
    Diagnosis,
    JobOutcome,
    TerminationReason,
)
from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    HELD_LABEL,
    LOCATION_LABEL,
    PROJECT_LABEL,
    SETTLED_LABEL,
    VERDICT_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning import naming


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("1", 1), ("12", 12), ("", 0), ("x", 0), ("-1", 0), ("1.0", 0), ("²", 0)),
        ("9" * 20, 0),
        ("9" * 5000, 0),
    ],
)
def test_an_attempt_is_a_plain_number_or_none(
    text: str, number: int, a_run: Callable[..., RunView], a_job: Callable[..., JobSnapshot]
) -> None:
    run = a_run(labels={ATTEMPT_LABEL: text, SETTLED_LABEL: text})
    job = replace(a_job(), labels={naming.ATTEMPT_LABEL: text})

    assert run.attempt == run.settled_attempt == job.attempt == number


def test_a_run_says_where_it_was_announced(a_run: Callable[..., RunView]) -> None:
    run = a_run(labels={PROJECT_LABEL: "p", LOCATION_LABEL: "europe-west4"})

    assert run.place == ("p", "europe-west4")
    assert a_run().place == ("", "")


def test_a_verdict_is_for_one_attempt(a_run: Callable[..., RunView]) -> None:
    run = a_run(labels={VERDICT_LABEL: "2:start-timeout"})

    assert [run.verdict(attempt) for attempt in (1, 2, 22)] == ["", "start-timeout", ""]
    assert not run.is_verdict_sent(2)


def test_a_verdict_says_whether_its_cancel_was_taken(a_run: Callable[..., RunView]) -> None:
    run = a_run(labels={VERDICT_LABEL: "2:start-timeout:sent"})

    assert run.verdict(2) == "start-timeout"
    assert [run.is_verdict_sent(attempt) for attempt in (1, 2)] == [False, True]


@pytest.mark.parametrize(
    ("state", "name", "state_id", "expected"),
    [
        (RunState.PENDING, "Pending", "state-1", False),
        (RunState.PENDING, "Pending", "state-2", True),
        (RunState.PENDING, "AwaitingCapacity", "state-2", True),
        (RunState.PENDING, "InfrastructurePending", "state-2", False),
        (RunState.PENDING, "Provisioning", "state-2", False),
        (RunState.RUNNING, "Running", "state-2", False),
        (RunState.SCHEDULED, "AwaitingRetry", "state-2", False),
    ],
)
def test_a_run_that_is_pending_anew_waits_for_its_next_attempt(
    state: RunState, name: str, state_id: str, *, expected: bool, a_run: Callable[..., RunView]
) -> None:
    run = a_run(state, state_name=name, state_id=state_id)

    assert run.waits_for_next is expected


@pytest.mark.parametrize(
    ("state", "name", "held", "expected"),
    [
        (RunState.PENDING, "Submitting", "state-2", True),
        (RunState.PENDING, "Submitting", "state-1", False),
        (RunState.PENDING, "Submitting", "", False),
        (RunState.PENDING, "InfrastructurePending", "state-1", True),
        (RunState.RUNNING, "Running", "state-1", True),
    ],
)
def test_a_holder_that_spoke_in_an_earlier_wait_may_have_been_followed_by_another(
    state: RunState, name: str, held: str, *, expected: bool, a_run: Callable[..., RunView]
) -> None:
    run = a_run(state, state_name=name, state_id="state-2", labels={HELD_LABEL: held})

    assert run.holder_is_current is expected


def test_a_run_that_announced_nothing_waits_for_no_next(a_run: Callable[..., RunView]) -> None:
    assert not a_run(attempt=0, state_id="state-2").waits_for_next


def test_jobs_are_told_apart_whichever_way_their_project_is_written() -> None:
    by_id = naming.parse_resource_name("projects/my-project/locations/r1/customJobs/7")
    by_number = naming.parse_resource_name("projects/42/locations/r1/customJobs/7")

    assert by_id.key == by_number.key != naming.ResourceName("42", "r2", "7").key


def test_every_reason_has_an_exit_status() -> None:
    assert set(EXIT_STATUS) == set(TerminationReason)


def test_an_outcome_reports_the_replicas_own_status_before_the_reasons() -> None:
    diagnosis = Diagnosis(
        reason=TerminationReason.CONTAINER_FAILED, summary="It failed.", exit_status=42
    )
    reason = TerminationReason.CONTAINER_FAILED

    assert JobOutcome(reason=reason, diagnosis=diagnosis).exit_status == 42
    assert JobOutcome(reason=reason).exit_status == 1
    assert JobOutcome(reason=TerminationReason.COMPLETED).exit_status == 0


def test_a_message_says_what_happened_what_to_do_and_then_the_services_own_words() -> None:
    diagnosis = Diagnosis(
        reason=TerminationReason.QUOTA, summary="No.", resolution="Ask.", detail="details\nmore"
    )

    assert diagnosis.message == "No. Ask.\ndetails\nmore"
