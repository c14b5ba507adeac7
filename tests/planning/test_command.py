"""Commands and environments of containers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.command import argument_list, wrapped_command
from prefect_vertex.planning.environment import (
    literal,
    merged_environment,
    platform_environment,
)
from prefect_vertex.planning.limits import MAX_STRING_BYTES


def as_the_platform_reads(text: str, variables: dict[str, str]) -> str:
    """Kubernetes' expansion (third_party/forked/golang/expansion), written down once more here."""
    pattern = re.compile(r"\$\$|\$\((?P<name>[^)]*)\)")
    return pattern.sub(
        lambda match: "$" if match[0] == "$$" else variables.get(match["name"], match[0]),
        text,
    )


def merged(
    own: Any = None,
    common: dict[str, str] | None = None,
    platform: dict[str, str] | None = None,
) -> dict[str, str]:
    made = merged_environment(own, common=common or {}, platform=platform or {}, path="env")
    return {entry["name"]: entry["value"] for entry in made.entries}


@given(st.text(alphabet="$()A b", max_size=12))
def test_a_literal_value_arrives_as_it_was_written(text: str) -> None:
    assert as_the_platform_reads(literal(text), {"A": "expanded"}) == text


@given(st.text())
def test_a_value_without_dollar_signs_is_left_alone(text: str) -> None:
    plain = text.replace("$", "")
    assert literal(plain) == plain


def test_a_lone_dollar_sign_is_left_alone() -> None:
    assert literal("pa$word costs 5$") == "pa$word costs 5$"


def test_common_and_platform_values_are_literal_and_the_pools_own_expand() -> None:
    values = merged([{"name": "OWN", "value": "$(A)"}], {"A": "$(HOME)"}, {"P": "$$"})
    assert values == {"A": "$$(HOME)", "P": "$$$$", "OWN": "$(A)"}


def test_the_pools_own_entries_come_last_so_that_they_can_refer_to_the_others() -> None:
    assert list(merged([{"name": "A0", "value": "x"}], {"Z": "1", "B": "2"}, {"P": "3"})) == [
        "B",
        "Z",
        "P",
        "A0",
    ]


def test_a_pools_own_entry_wins_over_a_common_one() -> None:
    assert merged([{"name": "A", "value": "pool"}], {"A": "job"}) == {"A": "pool"}


def test_a_null_in_a_pool_unsets_a_common_value() -> None:
    assert merged([{"name": "A", "value": None}], {"A": "job", "B": "1"}) == {"B": "1"}


def test_an_env_may_be_a_mapping_and_its_values_numbers() -> None:
    assert merged({"A": 1, "B": True, "C": ""}) == {"A": "1", "B": "True", "C": ""}


def test_names_stay_unique_and_the_last_one_counts() -> None:
    own = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert merged(own) == {"A": "2"}


def test_nothing_overrides_the_platforms_values_and_the_user_hears_of_it() -> None:
    made = merged_environment(
        [{"name": "P", "value": "own"}],
        common={"Q": "job", "R": "same"},
        platform={"P": "1", "Q": "2", "R": "same"},
        path="env",
    )
    assert {entry["name"]: entry["value"] for entry in made.entries} == {
        "P": "1",
        "Q": "2",
        "R": "same",
    }
    assert [line.split()[1] for line in made.warnings] == ["P", "Q"]


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "Ä"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match="letters, digits and underscores"):
        merged({name: "x"})


@pytest.mark.parametrize("own", ["A=1", 3, [1], [{"value": "x"}], [{"name": 3}]])
def test_an_env_of_another_shape_is_refused_without_its_values(own: object) -> None:
    with pytest.raises(PlanError) as caught:
        merged(own)
    assert caught.value.variable == "env"


def test_a_value_longer_than_the_kernel_takes_is_refused_by_name() -> None:
    fits = "x" * (MAX_STRING_BYTES - len("BIG="))
    assert merged(common={"BIG": fits})["BIG"] == fits
    with pytest.raises(PlanError, match=r"env BIG has 131072 bytes"):
        merged(common={"BIG": fits + "x"})


def test_the_limit_counts_the_value_that_arrives_not_its_escape() -> None:
    fits = "$$" * 65_000
    assert len(merged(common={"BIG": fits})["BIG"]) == 2 * len(fits)


def test_a_hundred_entries_fit_and_one_more_does_not() -> None:
    common = {f"V{number}": "x" for number in range(100)}
    assert len(merged(common=common)) == 100
    with pytest.raises(PlanError, match="env has 101 entries; Vertex AI takes 100"):
        merged(common={**common, "MORE": "x"})


def test_a_command_is_split_as_a_shell_would() -> None:
    assert argument_list("python -m 'my flow' --x=$(A)", "command") == [
        "python",
        "-m",
        "my flow",
        "--x=$(A)",
    ]
    assert argument_list(["a b"], "command") == ["a b"]
    assert argument_list(None, "command") == []


@pytest.mark.parametrize("value", ["echo 'x", 3, [1], {"a": 1}])
def test_what_is_no_command_is_refused(value: object) -> None:
    with pytest.raises(PlanError) as caught:
        argument_list(value, "command")
    assert caught.value.variable == "command"


def test_the_command_stands_behind_interpreter_and_bootstrap() -> None:
    assert wrapped_command(
        ["prefect", "flow-run", "execute"],
        python_command=["/opt/venv/bin/python", "-I"],
        bootstrap="pass",
    ) == ["/opt/venv/bin/python", "-I", "-c", "pass", "prefect", "flow-run", "execute"]


def test_an_argument_longer_than_the_kernel_takes_is_refused() -> None:
    with pytest.raises(PlanError, match="command has an argument of 131072 bytes"):
        wrapped_command(["x" * 131_072], python_command=["python3"], bootstrap="pass")


def test_only_what_there_is_becomes_a_platform_variable() -> None:
    assert platform_environment(
        flow_run_id="r",
        attempt=2,
        code=None,
        checkpoint_dir="",
        setup_command=(),
        vertex_retries=False,
    ) == {"PREFECT__FLOW_RUN_ID": "r", "PREFECT_VERTEX_ATTEMPT": "2"}


def test_all_there_is_becomes_one_and_the_setup_lines_travel_as_json() -> None:
    environment = platform_environment(
        flow_run_id="r",
        attempt=1,
        code=CodeReference("gs://b/o.zip", "a" * 64),
        checkpoint_dir="gs://b/checkpoints/r",
        setup_command=['export A="$HOME"', "echo ä"],
        vertex_retries=True,
    )
    assert environment["PREFECT_VERTEX_SETUP_COMMAND"] == '["export A=\\"$HOME\\"", "echo ä"]'
    assert environment["PREFECT_VERTEX_GUARD"] == "0"
    assert environment["PREFECT_VERTEX_CODE_URI"] == "gs://b/o.zip"
    assert environment["PREFECT_VERTEX_CODE_SHA256"] == "a" * 64
    assert environment["PREFECT_VERTEX_CHECKPOINT_DIR"] == "gs://b/checkpoints/r"
