"""The environment that says which replica of which attempt a process belongs to."""

from __future__ import annotations

import pytest

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.gang import HEARTBEAT_SECONDS, LOSS_SECONDS
from prefect_vertex.replica.membership import ATTEMPT, Membership


@pytest.mark.parametrize("text", ["abc", "0", "-1", "nan", "inf", "600", "0.5", "10.1", "1e400"])
def test_seconds_between_heartbeats_that_would_not_do_are_named(text: str) -> None:
    """Too seldom, and a death would not be noticed within a minute."""
    with pytest.raises(SetupError, match=rf"{HEARTBEAT_SECONDS} is '{text}', expected .* 1 to 10"):
        Membership.read({HEARTBEAT_SECONDS: text})


@pytest.mark.parametrize("text", ["abc", "-1", "nan", "inf", "3601"])
def test_a_wait_after_a_loss_that_would_not_do_is_named(text: str) -> None:
    with pytest.raises(SetupError, match=rf"{LOSS_SECONDS} is '{text}', expected .* 0 to 3600"):
        Membership.read({LOSS_SECONDS: text})


@pytest.mark.parametrize(("text", "seconds"), [("", 55), ("0", 0), (" 7.5 ", 7.5)])
def test_a_wait_after_a_loss_may_be_none_at_all(text: str, seconds: float) -> None:
    assert Membership.read({LOSS_SECONDS: text}).loss_seconds == seconds


@pytest.mark.parametrize("text", ["abc", "0", "-1", "1.5", "²", "9" * 5000])
def test_an_attempt_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(SetupError, match=f"{ATTEMPT} is "):
        Membership.read({ATTEMPT: text})


@pytest.mark.parametrize(("text", "seconds"), [("", 10), (" ", 10), ("1", 1), (" 2.5 ", 2.5)])
def test_seconds_within_the_bounds_are_taken(text: str, seconds: float) -> None:
    assert Membership.read({HEARTBEAT_SECONDS: text}).heartbeat_seconds == seconds


def test_replicas_are_started_again_only_where_starts_are_not_guarded() -> None:
    assert Membership.read({"PREFECT_VERTEX_GUARD": "0"}).restarts
    assert not Membership.read({"PREFECT_VERTEX_GUARD": "1"}).restarts


def test_a_bare_environment_is_the_first_attempt_of_one_replica() -> None:
    assert Membership.read({}) == Membership()
