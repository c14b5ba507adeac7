"""The job variable `capacity`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_vertex.capacity.policy import CapacityPolicy, parse_capacity
from prefect_vertex.capacity.refusals import RefusalReason
from prefect_vertex.capacity.walk import Trail, Try, next_try, with_try
from prefect_vertex.errors import PlanError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.durations import MAX_SECONDS


def test_the_defaults_are_those_of_the_contract() -> None:
    assert asdict(CapacityPolicy()) == {
        "max_attempts": 6,
        "max_wall_seconds": 3600.0,
        "backoff_seconds": 60.0,
        "backoff_max_seconds": 600.0,
        "max_passes": 0,
        "max_restarts": 6,
    }
    assert CapacityPolicy().max_restarts == RunPolicy().max_restarts


@pytest.mark.parametrize("given", [None, {}, {"max_attempts": None}])
def test_what_is_left_out_or_null_has_its_default(given: Any) -> None:
    assert parse_capacity(given) == CapacityPolicy()


def test_each_key_is_taken_and_nothing_is_changed() -> None:
    given = {
        "max_attempts": 12.0,
        "max_wall_seconds": 7200,
        "backoff_seconds": 0.5,
        "backoff_max_seconds": 0,
        "max_passes": 2,
        "max_restarts": 0,
    }
    policy = parse_capacity(given)
    assert asdict(policy) == given
    assert isinstance(policy.max_attempts, int)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (6, "capacity is 6, expected a mapping"),
        ([], "capacity is [], expected a mapping"),
        ({"max_atempts": 1}, "no key 'max_atempts'; the closest is 'max_attempts'"),
        ({1: 1}, "no key '1'"),
        ({"max_attempts": -1}, "max_attempts is -1, expected a whole number from 0 to 1000000"),
        ({"max_attempts": 10**7}, "capacity.max_attempts is 10000000, expected"),
        ({"max_restarts": 10**400}, "capacity.max_restarts is 1000"),
        ({"max_passes": 10**5000}, "capacity.max_passes is a number without end"),
        ({"max_wall_seconds": 1e12}, "seconds from 0 to 315360000 (ten years)"),
        ({"max_wall_seconds": 1e300}, "capacity.max_wall_seconds is 1e+300"),
        ({"backoff_seconds": 1e12}, "capacity.backoff_seconds is 1000000000000.0"),
        ({"backoff_max_seconds": 10**400}, "capacity.backoff_max_seconds is 1000"),
        ({"max_attempts": 1.5}, "capacity.max_attempts is 1.5"),
        ({"max_attempts": "6"}, "capacity.max_attempts is '6'"),
        ({"max_passes": True}, "capacity.max_passes is True"),
        ({"backoff_seconds": -0.1}, "capacity.backoff_seconds is -0.1, expected a number of"),
        ({"max_wall_seconds": float("inf")}, "capacity.max_wall_seconds is inf"),
        ({"max_wall_seconds": float("nan")}, "capacity.max_wall_seconds is nan"),
        ({"max_wall_seconds": "1h"}, "capacity.max_wall_seconds is '1h'"),
    ],
)
def test_what_is_wrong_is_named(given: Any, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_capacity(given)
    assert words in caught.value.message
    assert caught.value.variable == "capacity"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(list(asdict(CapacityPolicy()))), st.floats() | st.text()))
def test_any_mapping_is_a_policy_or_a_plan_error(given: dict[str, Any]) -> None:
    try:
        policy = parse_capacity(given)
    except PlanError:
        return
    assert all(0 <= value <= MAX_SECONDS for value in asdict(policy).values())


@given(st.dictionaries(st.sampled_from(list(asdict(CapacityPolicy()))), st.integers(), max_size=2))
def test_any_policy_leads_to_dates(given: dict[str, Any]) -> None:
    """Whatever is added to a time of the walk is a time too."""
    try:
        policy = parse_capacity({key: abs(value) for key, value in given.items()})
    except PlanError:
        return
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    tried = Try(attempt=1, candidate=0, begun_at=noon, ended_at=noon, reason=RefusalReason.NO_ROOM)
    next_try(with_try(Trail(), tried, 1), 1, policy, noon)
