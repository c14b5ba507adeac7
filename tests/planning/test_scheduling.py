"""Strategy, timeout, waiting and restarts."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.errors import SchedulingError
from prefect_vertex.planning.scheduling import (
    STRATEGIES,
    check_patience,
    check_scheduling,
    parse_duration,
    parse_strategy,
    resolve_scheduling,
)


def resolved(given: Any = None, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "strategy": None,
        "maximum_run_time_hours": 24.0,
        "disable_retries": True,
        **changes,
    }
    return resolve_scheduling(given, **values)


def test_the_strategies_are_those_of_the_installed_client() -> None:
    client = {name: item.value for name, item in types.Scheduling.Strategy.__members__.items()}
    assert client == STRATEGIES


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1800s", 1800),
        ("1800", 1800),
        (" 0.5s ", 0.5),
        (1800, 1800),
        (90.5, 90.5),
        ("PT30M", 1800),
        ("P1DT2H3M4.5S", 86400 + 7200 + 180 + 4.5),
        ("p2w", 14 * 86400),
        ("PT0S", 0),
        (timedelta(hours=1), 3600),
    ],
)
def test_a_duration_is_seconds_or_iso_8601(written: object, seconds: float) -> None:
    assert parse_duration(written, "timeout").total_seconds() == seconds


@pytest.mark.parametrize(
    "written",
    ["", "soon", "P", "PT", "1h30", "-5s", -1, True, None, [], float("nan"), float("inf"), 1e300],
)
def test_what_is_no_duration_is_refused_by_name(written: object) -> None:
    with pytest.raises(SchedulingError, match=r"scheduling\.timeout is .*expected a duration"):
        parse_duration(written, "scheduling.timeout")


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans()))
def test_any_value_is_a_duration_or_a_scheduling_error(written: object) -> None:
    with suppress(SchedulingError):
        assert parse_duration(written, "timeout") >= timedelta(0)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("spot", "SPOT"),
        ("Flex-Start", "FLEX_START"),
        ("flex start", "FLEX_START"),
        (4, "SPOT"),
        ("4", "SPOT"),
        (17, "17"),
    ],
)
def test_a_strategy_is_taken_in_any_case_or_by_number(written: object, name: str) -> None:
    assert parse_strategy(written) == name


def test_an_unknown_strategy_lists_those_there_are() -> None:
    with pytest.raises(SchedulingError) as caught:
        parse_strategy("SPOTT")
    assert "closest is SPOT" in str(caught.value)
    assert "STANDARD, SPOT, FLEX_START" in caught.value.hint
    assert caught.value.variable == "strategy"


def test_the_run_time_becomes_the_timeout_and_retries_are_off() -> None:
    assert resolved(maximum_run_time_hours=1.5) == {
        "timeout": timedelta(minutes=90),
        "disable_retries": True,
    }


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": "60s"},
        {"disable_retries": False},
        {"strategy": "spot"},
        {"max_wait_duration": "1800s", "strategy": "FLEX_START"},
        {"restart_job_on_worker_restart": True, "disable_retries": False},
    ],
    ids="+".join,
)
def test_each_scheduling_option_takes_effect_alone(given: dict[str, Any]) -> None:
    assert resolved(given) | check_scheduling(given) == resolved(given)


def test_an_explicit_timeout_wins_over_the_run_time() -> None:
    assert resolved({"timeout": "PT1M"})["timeout"] == timedelta(minutes=1)


def test_null_options_are_unset() -> None:
    assert resolved({"timeout": None, "strategy": None}) == resolved()


def test_the_strategy_variable_is_short_for_the_option() -> None:
    assert resolved(strategy="spot")["strategy"] == STRATEGIES["SPOT"]
    assert resolved({"strategy": "SPOT"}, strategy="spot") == resolved(strategy="SPOT")


@pytest.mark.parametrize(
    ("given", "changes", "variable"),
    [
        ({"strategy": "SPOT"}, {"strategy": "STANDARD"}, "strategy"),
        ({"max_wait_duration": "60s"}, {}, "scheduling"),
        ({"max_wait_duration": "60s"}, {"strategy": "SPOT"}, "scheduling"),
        ({"restart_job_on_worker_restart": True}, {}, "disable_retries"),
        ({"restart_job_on_worker_restart": "true"}, {}, "disable_retries"),
        ({"timeout": 0}, {}, "scheduling"),
        ({}, {"maximum_run_time_hours": 0.0}, "maximum_run_time_hours"),
        ({}, {"maximum_run_time_hours": float("nan")}, "maximum_run_time_hours"),
        ({}, {"maximum_run_time_hours": 1e300}, "maximum_run_time_hours"),
        ({}, {"maximum_run_time_hours": 200.0, "strategy": "FLEX_START"}, "maximum_run_time_hours"),
        ("SPOT", {}, "scheduling"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    given: Any,
    changes: dict[str, Any],
    variable: str,
) -> None:
    with pytest.raises(SchedulingError) as caught:
        resolved(given, **changes)
    assert caught.value.variable == variable


def test_a_run_time_of_thirty_days_passes() -> None:
    """The service's own limits are the service's."""
    assert resolved(maximum_run_time_hours=720.0)["timeout"] == timedelta(days=30)


def test_resolving_changes_nothing_that_it_is_given() -> None:
    given = {"strategy": "spot", "timeout": "60s"}
    resolved(given)
    assert given == {"strategy": "spot", "timeout": "60s"}


FLEX_START = STRATEGIES["FLEX_START"]


@pytest.mark.parametrize(
    ("scheduling", "timeout"),
    [
        ({}, 60.0),
        ({"strategy": STRATEGIES["SPOT"]}, 60.0),
        ({"strategy": FLEX_START}, None),
        ({"strategy": FLEX_START}, 86_400 + 900),
        ({"strategy": FLEX_START, "max_wait_duration": timedelta(minutes=30)}, 2_700.0),
    ],
)
def test_a_provisioning_timeout_after_the_wait_passes(
    scheduling: dict[str, Any], timeout: float | None
) -> None:
    check_patience(scheduling, timeout)


@pytest.mark.parametrize(
    ("wait", "timeout", "words"),
    [
        ({}, 3_600.0, "max_wait_duration (by default 1 day, 0:00:00)"),
        ({"max_wait_duration": timedelta(minutes=30)}, 2_000.0, "max_wait_duration (0:30:00)"),
        ({"max_wait_duration": "0s"}, 1e9, "max_wait_duration (0, which is no limit)"),
    ],
)
def test_a_provisioning_timeout_within_the_wait_is_refused(
    wait: dict[str, Any], timeout: float, words: str
) -> None:
    """The job would be given up while it still waits as it was told to."""
    with pytest.raises(SchedulingError) as caught:
        check_patience({"strategy": FLEX_START, **wait}, timeout)
    assert caught.value.variable == "provisioning_timeout_seconds"
    # A list of strategies has one for all: the way out is named.
    assert "write candidates" in caught.value.hint
    assert words in caught.value.message


def test_a_list_of_strategies_is_none_for_one_job() -> None:
    with pytest.raises(SchedulingError, match=r"strategy is \['SPOT', 'STANDARD'\]"):
        resolved(strategy=["SPOT", "STANDARD"])


@pytest.mark.parametrize("hours", [10**400, 10**5000], ids=["400 digits", "5000 digits"])
def test_hours_without_end_are_refused_in_words(hours: int) -> None:
    with pytest.raises(SchedulingError, match="maximum_run_time_hours is"):
        resolve_scheduling(None, strategy=None, maximum_run_time_hours=hours, disable_retries=True)
