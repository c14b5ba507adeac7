"""How far a clock is ahead of another is learned from what has passed there, and forgotten."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from prefect_vertex.lifecycle.clocks import KNOWN_FOR, MAX_SKEW, Lead, Leads
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot

SECOND = timedelta(seconds=1)


def test_the_least_that_was_seen_counts(now: datetime) -> None:
    lead = Lead()
    for ago, ahead in ((90, 90), (20, 20), (50, 20), (-30, -30)):
        lead.learn(now, [now - 8000 * SECOND, None, now - ago * SECOND])
        assert lead.here(now) == now + ahead * SECOND
        assert lead.there(lead.here(now)) == now


@pytest.mark.parametrize("ago", [timedelta(days=3), -timedelta(days=3)])
def test_no_clock_is_taken_to_be_further_off_than_clocks_may_be(
    ago: timedelta, now: datetime
) -> None:
    lead = Lead()
    lead.learn(now, [now - ago])
    assert abs(lead.ahead) == MAX_SKEW


def test_a_clock_that_nothing_is_known_of_may_be_ahead(now: datetime) -> None:
    lead = Lead()
    lead.learn(now, [])
    assert lead.here(now) == now + MAX_SKEW


def test_no_less_is_taken_than_is_allowed(now: datetime) -> None:
    lead = Lead(most=SECOND, least=timedelta())
    assert lead.ahead == SECOND
    lead.learn(now, [now + SECOND])
    assert lead.ahead == timedelta()


def test_a_clock_that_was_set_is_found_out_by_the_next_news(now: datetime) -> None:
    lead = Lead()
    lead.learn(now, [now])
    later = now + KNOWN_FOR + SECOND
    lead.learn(later, [now])
    assert lead.ahead == timedelta()
    lead.learn(later, [later - 90 * SECOND])
    assert lead.ahead == 90 * SECOND


def test_a_clock_that_was_set_back_is_found_out_at_once(now: datetime) -> None:
    lead = Lead()
    lead.learn(now, [now - 20 * SECOND])
    lead.learn(now - 100 * SECOND, [now - 20 * SECOND])
    assert lead.ahead == -80 * SECOND


def test_a_run_and_its_jobs_are_dated_by_this_machines_clock(
    now: datetime, a_run: Callable[..., RunView], an_ended_job: Callable[..., JobSnapshot]
) -> None:
    leads = Leads()
    run, job = a_run(ago=40), an_ended_job("FAILED", created=100, started=60, ended=10)
    leads.learn(now, run, [job])

    assert leads.run(run).state_time == now
    dated = leads.job(job)
    assert (dated.create_time, dated.start_time) == (now - 90 * SECOND, now - 50 * SECOND)
    assert dated.end_time == now
    assert leads.job(an_ended_job("CANCELLED", started=-1, ended=-1)).end_time is None
