"""The chronicle: jobs, tries, states and starts become one story."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from prefect_vertex.capacity.reasons import RefusalReason
from prefect_vertex.capacity.walk import Trail, Try
from prefect_vertex.chronicle.chronicle import Chronicle, Start, Stay
from prefect_vertex.lifecycle.run import RunState, RunView

At = Callable[[float], datetime]
Build = Callable[..., Any]
STOCKOUT = (8, "Resources are insufficient in region: us-central1.")


@pytest.fixture
def a_try(at: At) -> Callable[..., Try]:
    """A try that came to nothing."""

    def build(
        attempt: int, candidate: int, begun: float, ended: float, reason: RefusalReason
    ) -> Try:
        return Try(
            attempt=attempt,
            candidate=candidate,
            begun_at=at(begun),
            ended_at=at(ended),
            reason=reason,
            message=f"Words about {candidate}.",
        )

    return build


@pytest.fixture
def walk(at: At, told: Build, a_job: Build, a_run: Build, a_try: Build) -> Callable[..., Chronicle]:
    """A stockout in A, a refused create in B, and the same attempt's job in C."""

    def build(*, shuffled: bool = False) -> Chronicle:
        jobs = [
            a_job("FAILED", ended=240, error=STOCKOUT),
            a_job("SUCCEEDED", attempt=2, created=300, started=500, ended=1500, location="c"),
        ]
        if shuffled:
            random.Random(7).shuffle(jobs)  # noqa: S311 - no secret
        tries = (
            a_try(1, 0, 0.0004, 240, RefusalReason.NO_ROOM),
            a_try(2, 1, 250, 252, RefusalReason.QUOTA),
        )
        chronicle: Chronicle = told(
            *jobs,
            run=a_run(RunState.COMPLETED, candidate="2:2:1"),
            trail=Trail(tries=tries, answered=1),
            names=("A", "B", "C"),
            states=[Stay(state=RunState.COMPLETED, name="Completed", entered_at=at(1490))],
        )
        return chronicle

    return build


def test_a_walk_is_told_try_by_try(walk: Build) -> None:
    """A try that had a job is one with it, a refused create stands alone."""
    assert [
        (each.attempt, each.place, each.reason, each.job is not None) for each in walk().attempts
    ] == [
        (1, "A", RefusalReason.NO_ROOM.value, True),
        (2, "B", RefusalReason.QUOTA.value, False),
        (2, "C", "completed", True),
    ]


def test_the_order_of_what_was_read_changes_nothing(walk: Build) -> None:
    assert walk(shuffled=True) == walk()


def test_a_story_that_is_over_does_not_age(walk: Build, at: At) -> None:
    """Whoever tells it later tells the same."""
    assert walk().at == at(1500)
    assert not walk().is_live


def test_a_job_whose_flow_died_alone_did_not_complete(told: Build, a_job: Build, at: At) -> None:
    """Its container exited 0; of an attempt that followed another's death nothing is said."""
    jobs = [
        a_job("SUCCEEDED", attempt=number, created=created, started=created + 9, ended=created + 90)
        for number, created in ((1, 0), (2, 300))
    ]
    message = "Process exited with status code: -9. Process exited due to a SIGKILL signal."
    crash = Stay(state=RunState.CRASHED, name="Crashed", entered_at=at(88), message=message)
    end = Stay(state=RunState.COMPLETED, name="Completed", entered_at=at(385))
    first, second = told(*jobs, states=[crash, end]).attempts

    assert first.reason == "ended by itself (exit code 0)"
    assert "machine_type" in first.message
    assert (first.failed, second.reason, second.failed) == (True, "completed", False)


@pytest.mark.parametrize("died", [-3, 100, 102], ids=["before the first job", "ended", "a retry"])
def test_a_death_is_told_of_one_attempt(told: Build, a_job: Build, at: At, died: float) -> None:
    """Prefect retries at once: the next job is created within the difference of two clocks."""
    jobs = [a_job("SUCCEEDED", ended=101), a_job("SUCCEEDED", attempt=2, created=103, ended=205)]
    message = "Process exited with status code: -9."
    crash = Stay(state=RunState.CRASHED, name="Crashed", entered_at=at(died), message=message)
    end = Stay(state=RunState.COMPLETED, name="Completed", entered_at=at(200))
    first, second = told(*jobs, states=[crash, end]).attempts

    assert first.reason == "ended by itself (exit code 0)"
    assert second.reason == "completed"


def test_a_live_story_is_told_until_now(told: Build, a_job: Build, at: At) -> None:
    chronicle = told(a_job(started=60))

    assert chronicle.is_live
    assert chronicle.at == at(3600)
    assert chronicle.attempts[0].reason == "running"


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "a replica's exit": (
        {"error": (3, "The replica workerpool1-0 exited with a non-zero status of 137.")},
        "out of memory",
    ),
    "a stockout": ({"error": STOCKOUT, "started": None}, "no capacity"),
    "a preemption": ({"error": STOCKOUT, "strategy": "SPOT"}, "preempted"),
    "one by the older name": ({"error": STOCKOUT, "strategy": "LOW_COST"}, "preempted"),
    "the time limit": ({"error": (1, "x"), "timeout_seconds": 440.0}, "timed out"),
    "no reason yet": ({}, "unknown"),
}


@pytest.mark.parametrize(("fields", "reason"), ENDS.values(), ids=ENDS)
def test_an_end_has_the_reason_that_the_job_itself_gives(
    told: Build, a_job: Build, fields: dict[str, Any], reason: str
) -> None:
    (record,) = told(a_job("FAILED", **{"started": 60, "ended": 500, **fields})).attempts

    assert record.reason == reason
    assert record.failed


def test_a_verdict_of_this_product_comes_before_the_jobs_words(
    told: Build, a_job: Build, a_run: Build
) -> None:
    """The job only says that it was cancelled."""
    run: RunView = a_run(verdict="1:provisioning-timeout")
    (record,) = told(a_job("CANCELLED", ended=600), run=run).attempts

    assert record.reason == "provisioning timeout"


@pytest.mark.parametrize(
    ("state", "reason"),
    [(RunState.CANCELLING, "cancelled"), (RunState.RUNNING, "cancelled outside")],
)
def test_who_cancelled_stands_in_the_runs_history(
    told: Build, a_job: Build, at: At, state: RunState, reason: str
) -> None:
    states = [Stay(state=state, name="x", entered_at=at(100))]
    (record,) = told(a_job("CANCELLED", ended=600), states=states).attempts

    assert record.reason == reason


def test_a_job_that_was_stopped_once_its_run_had_ended_is_no_failure(
    told: Build, a_job: Build, a_run: Build
) -> None:
    """By the worker, by `prefect-vertex jobs --cancel`, or by hand: it matters no more."""
    run: RunView = a_run(RunState.COMPLETED)
    (record,) = told(a_job("CANCELLED", started=60, ended=600), run=run).attempts

    assert record.reason == "stopped after its run had ended"
    assert not record.failed


def test_provisioning_began_when_it_was_shown_between_create_and_start(
    told: Build, a_job: Build, at: At
) -> None:
    """A state of an earlier attempt says nothing about this one."""
    states = [
        Stay(state=RunState.PENDING, name="Provisioning", entered_at=at(seconds))
        for seconds in (320, 10)
    ]
    first, second = told(
        a_job("FAILED", ended=200, error=STOCKOUT),
        a_job(attempt=2, created=300, started=400),
        states=states,
    ).attempts

    assert (first.provisioning_at, second.provisioning_at) == (at(10), at(320))


def test_an_attempt_starts_with_its_job_or_with_its_first_container(
    told: Build, a_job: Build, at: At
) -> None:
    starts = [Start(1, 1, at(90)), Start(1, 0, at(80)), Start(2, 0, at(5000))]

    assert told(a_job("PENDING"), starts=starts).attempts[0].started_at == at(80)
    assert told(a_job(started=70), starts=starts).attempts[0].started_at == at(70)


def test_a_run_without_a_try_has_no_story(told: Build) -> None:
    assert told().attempts == ()
