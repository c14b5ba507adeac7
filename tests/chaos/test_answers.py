"""Answers that are errors, and answers that never come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest
from tests.chaos.ledger import Expected
from tests.chaos.rules import Action, Rule, When

if TYPE_CHECKING:
    from tests.chaos.pool import Pool

CODES = [code.name for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
REFUSALS = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
}
SHORT_CODES = ["UNAVAILABLE", "PERMISSION_DENIED"]
WHENS: list[When] = ["before", "after"]
REFUSED = Expected(states=("CRASHED",), ran=(0,))
REFUSED_YET_DONE = Expected(states=("CRASHED", "COMPLETED"), ran=(0, 1))
# Less than the looks by label take in all: a list that is behind longer than that cannot be right.
LAG_SECONDS = 4.0


def _expected(code: str, when: When) -> Expected:
    if code not in REFUSALS:
        return Expected()
    return REFUSED if when == "before" else REFUSED_YET_DONE


@pytest.mark.beside(seconds=60)
def test_creates_that_fail_or_whose_answer_is_lost(pool: Pool, *, is_long: bool) -> None:
    """Each run gets its one job, or one refusal; also where lists are behind."""
    pool.worker().wait_ready()
    for code in CODES if is_long else SHORT_CODES:
        for when in WHENS:
            rule = Rule(api="jobs", kind="CreateCustomJob", action="answer", code=code, when=when)
            pool.start(rules=[rule], expected=_expected(code, when))
    assert pool.wait_fired(120)
    about = pool.mark("ListCustomJobs pool")
    lists = [
        Rule(
            api="jobs",
            kind="ListCustomJobs pool",
            about=about,
            action="answer",
            code=code,
            when=when,
        )
        for code in (CODES if is_long else SHORT_CODES)
        for when in WHENS
    ]
    pool.arm(*lists)
    pool.site.cloud.control.call("set_lag", created_seconds=LAG_SECONDS)
    try:
        for action in ("drop", "answer"):
            for when in WHENS:
                pool.start(rules=[_create(action, when)])
        pool.settle(240)
    finally:
        pool.site.cloud.control.call("set_lag")


def _create(action: Action, when: When) -> Rule:
    code = "UNAVAILABLE" if action == "answer" else ""
    return Rule(api="jobs", kind="CreateCustomJob", action=action, code=code, when=when)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["GetCustomJob", "ListCustomJobs find", "CancelCustomJob"])
def test_other_calls_that_fail(pool: Pool, kind: str) -> None:
    """Reads and cancels that fail, in any way, change the end of no run."""
    pool.worker().wait_ready()
    pool.arm(
        *(
            Rule(api="jobs", kind=kind, action="answer", code=code, when=when)
            for code in CODES
            for when in WHENS
        ),
        *(Rule(api="jobs", kind=kind, action="drop", when=when) for when in WHENS),
    )
    for _ in range(10):
        pool.start()
        pool.start(rules=[_create("drop", "after")])
        run = pool.start("--work", "60", expected=pool.cancelled(ran=(0, 1)))
        pool.wait_job(run, "RUNNING")
        pool.cancel(run)
    pool.settle(600)


READ = "GET /deployments/ID"
KINDS = [
    "POST /flow_runs/ID/set_state Pending",
    "PATCH /flow_runs/ID/labels id,name,name,type",
    "POST /flow_runs/ID/set_state Submitting",
    "GET /flow_runs/ID",
    "PATCH /flow_runs/ID/labels instance*",
    "POST /flow_runs/ID/input prefect-vertex-create-a1",
    "PATCH /flow_runs/ID/labels attempt*",
    "PATCH /flow_runs/ID infrastructure_pid",
    "POST /flow_runs/ID/set_state InfrastructurePending",
]
TROUBLES: list[tuple[Action, str, When]] = [
    ("drop", "", "before"),
    ("drop", "", "after"),
    ("answer", "500", "before"),
    ("answer", "500", "after"),
    ("answer", "429", "before"),
    ("answer", "403", "before"),
]
SHORT_KINDS = [KINDS[0], KINDS[5], KINDS[6], KINDS[8]]
SHORT_TROUBLES = [TROUBLES[1]]


@pytest.mark.beside(seconds=30)
def test_the_prefect_api_fails_for_one_call_of_a_run(pool: Pool, *, is_long: bool) -> None:
    """One run's bad call touches no other run, and not even that run's end."""
    worker = pool.worker()
    worker.wait_ready()
    for kind in KINDS if is_long else SHORT_KINDS:
        for action, code, when in TROUBLES if is_long else SHORT_TROUBLES:
            rule = Rule(api="prefect", kind=kind, action=action, code=code, when=when)
            pool.start(rules=[rule])
    pool.settle(900 if is_long else 180)

    assert worker.is_alive()


@pytest.mark.long
def test_the_prefect_api_fails_for_one_read_of_a_deployment(pool: Pool) -> None:
    """A run outlives a bad answer to what is read for it before it is submitted."""
    worker = pool.worker()
    worker.wait_ready()
    for number in range(3):
        deployment = pool.deploy(f"unreadable-{number}")
        rule = Rule(api="prefect", kind=READ, action="answer", code="500", skip=number)
        pool.arm(replace(rule, about=str(deployment)))
        pool.start(deployment=deployment)
    pool.settle(60)

    assert worker.is_alive()


@pytest.mark.long
def test_a_submission_that_breaks_off_between_pending_and_its_announcement(pool: Pool) -> None:
    """The run goes on within seconds: its own worker lives and knows that it holds it."""
    worker = pool.worker()
    worker.wait_ready()
    for kind in (KINDS[1], KINDS[2]):
        for _ in range(2):
            pool.start(rules=[Rule(api="prefect", kind=kind, action="answer", code="500")])
    pool.settle(45)

    assert worker.is_alive()


@pytest.mark.beside(seconds=15)
def test_a_waiting_state_that_arrives_late_takes_no_end_away(pool: Pool, *, is_long: bool) -> None:
    """A proposal is held on its way until its run has long ended: the run stays Completed."""
    kind = "POST /flow_runs/ID/set_state InfrastructurePending"
    worker = pool.worker()
    worker.wait_ready()
    late = Rule(api="prefect", kind=kind, action="delay", seconds=20 if is_long else 8)
    run = pool.start("--work", "0", rules=[late])
    pool.wait_state(run, "COMPLETED", "CRASHED", seconds=60)
    pool.wait_arrived(kind)
    pool.settle(30)
