"""How far a clock is ahead of Google's is learned from what has passed there, and forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prefect_vertex.lifecycle.streaming import WINDOW
from prefect_vertex.reconciler.pace import AHEAD_FOR, MAX_AHEAD, Lead

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_the_least_that_was_seen_counts_and_never_less_than_nothing() -> None:
    lead = Lead()
    for ago, ahead in ((90, 90), (20, 20), (50, 20), (-30, 0)):
        lead.learn(NOON, [NOON - 8000 * SECOND, NOON - ago * SECOND])
        assert lead.arrived(NOON) == NOON - ahead * SECOND - WINDOW


def test_nothing_is_read_from_longer_ago_than_a_clock_may_be_wrong() -> None:
    lead = Lead()
    lead.learn(NOON, [NOON - timedelta(days=3)])
    assert lead.arrived(NOON) == NOON - MAX_AHEAD - WINDOW


def test_a_clock_that_was_set_is_found_out() -> None:
    lead = Lead()
    lead.learn(NOON, [NOON])
    later = NOON + AHEAD_FOR + SECOND
    lead.learn(later, [later - 90 * SECOND])
    assert lead.arrived(later) == later - 90 * SECOND - WINDOW
