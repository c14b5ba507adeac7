"""A policy travels with its run as one label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.lifecycle.policy import RunPolicy, format_policy, parse_policy
from prefect_vertex.planning.durations import MAX_SECONDS

SECONDS = st.floats(0, MAX_SECONDS, allow_nan=False)
POLICIES = st.builds(
    RunPolicy,
    provisioning_timeout_seconds=st.none() | SECONDS,
    start_grace_seconds=SECONDS,
    cancel_grace_seconds=SECONDS,
    max_restarts=st.integers(0, 100),
    timeout_seconds=st.none() | SECONDS,
    poll_interval_seconds=st.none() | SECONDS,
    spot=st.booleans(),
    create_budget_seconds=SECONDS,
)


@given(POLICIES)
def test_what_is_written_is_what_is_read(policy: RunPolicy) -> None:
    assert parse_policy(format_policy(policy)) == policy


def test_the_defaults_take_no_room() -> None:
    assert format_policy(RunPolicy()) == "{}"


def test_only_what_differs_is_written() -> None:
    assert format_policy(RunPolicy(spot=True, max_restarts=2)) == '{"max_restarts":2,"spot":true}'


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "7", '{"max_restarts":"many"}', '{"patience":1}', '{"spot":{}}']
)
def test_what_cannot_be_read_keeps_its_default(text: str) -> None:
    """A label of a newer or an older version, or of a person."""
    assert parse_policy(text) == RunPolicy()


@pytest.mark.parametrize(
    "text",
    [
        '{"max_restarts":null}',
        '{"start_grace_seconds":null}',
        '{"start_grace_seconds":true}',
        '{"max_restarts":1.5}',
        '{"start_grace_seconds":-1}',
        '{"start_grace_seconds":NaN}',
        '{"start_grace_seconds":Infinity}',
        '{"spot":1}',
        '{"start_grace_seconds":1e12}',
        '{"provisioning_timeout_seconds":1e300}',
        f'{{"cancel_grace_seconds":1{"0" * 400}}}',
        f'{{"max_restarts":1{"0" * 400}}}',
        '{"create_settle_looks":10000000}',
    ],
)
def test_a_value_of_the_wrong_kind_keeps_its_default(text: str) -> None:
    assert parse_policy(text) == RunPolicy()
