"""From job variables to the candidates that are tried, in order."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.capacity.candidates import (
    VariableSet,
    Walk,
    expand,
    fill_region,
    naming,
    parse_walk,
)
from prefect_vertex.errors import MachineSpecError, PlanError


def overlay(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    return {**lower, **upper}


def sets_of(**variables: Any) -> tuple[VariableSet, ...]:
    """The candidates of variables that the template renders as they are."""
    names = ("region", "regions", "strategy", "candidates")
    walk = parse_walk(**{name: variables.get(name) for name in names})
    return expand(variables, walk, overlay)[0]


def places(**variables: Any) -> list[tuple[Any, Any]]:
    return [
        (each.variables.get("region"), each.variables.get("strategy"))
        for each in sets_of(**variables)
    ]


# --- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [(None, None)]),
        ({"region": "a"}, [("a", None)]),
        ({"region": "a", "strategy": "SPOT"}, [("a", "SPOT")]),
        ({"region": "a", "regions": ["b", "c"]}, [("a", None), ("b", None), ("c", None)]),
        ({"regions": ["b", "c"]}, [("b", None), ("c", None)]),
        ({"region": "a", "regions": []}, [("a", None)]),
        ({"region": "a", "strategy": ["SPOT"]}, [("a", "SPOT")]),
        ({"region": "a", "strategy": []}, [("a", [])]),
        (
            {"region": "a", "regions": ["b"], "strategy": ["SPOT", "STANDARD"]},
            [("a", "SPOT"), ("b", "SPOT"), ("a", "STANDARD"), ("b", "STANDARD")],
        ),
    ],
)
def test_each_strategy_in_turn_and_under_it_each_region(
    variables: dict[str, Any], expected: list[tuple[Any, Any]]
) -> None:
    assert places(**variables) == expected


def test_given_candidates_stand_alone_in_their_order() -> None:
    found = sets_of(
        region="a",
        strategy="STANDARD",
        machine_type="n1-standard-4",
        candidates=[
            {"region": "b", "strategy": "SPOT"},
            {"machine_type": "n2-standard-4"},
            {"strategy": None, "project": "q"},
        ],
    )
    names = ("region", "strategy", "machine_type", "project")
    assert [tuple(each.variables.get(name) for name in names) for each in found] == [
        ("b", "SPOT", "n1-standard-4", None),
        ("a", "STANDARD", "n2-standard-4", None),
        ("a", None, "n1-standard-4", "q"),
    ]


def test_blanks_around_a_region_count_for_nothing() -> None:
    (one, two) = sets_of(region=" a ", regions=["b", " a"], image="{region}")
    assert [each.variables["image"] for each in (one, two)] == ["a", "b"]
    (only,) = sets_of(
        candidates=[{"region": " a", "image": "{region}"}, {"region": "a", "image": "a"}]
    )
    assert (only.variables["region"], only.variables["image"]) == ("a", "a")


def test_titles_say_which_of_how_many_and_where() -> None:
    found = sets_of(region="us-east1", regions=["us-west1"], strategy=["flex-start", "SPOT"])
    assert [each.title for each in found] == [
        "candidate 1 of 4 (us-east1, FLEX_START)",
        "candidate 2 of 4 (us-west1, FLEX_START)",
        "candidate 3 of 4 (us-east1, SPOT)",
        "candidate 4 of 4 (us-west1, SPOT)",
    ]
    assert sets_of(candidates=[{}, {"worker_count": 2}])[0].title == "candidate 1 of 2 (no region)"


def test_the_only_candidate_has_no_title() -> None:
    assert sets_of(region="a")[0].title == ""
    assert sets_of(candidates=[{"region": "a"}])[0].title == ""


@given(
    st.lists(st.sampled_from("abcd"), max_size=5),
    st.lists(st.sampled_from(["SPOT", "STANDARD", "FLEX_START"]), max_size=4),
)
def test_every_pair_is_there_once_in_the_order_given(
    regions: list[str], strategies: list[str]
) -> None:
    pairs = [
        (region, strategy) for strategy in strategies or (None,) for region in regions or (None,)
    ]
    found = [
        (each.overrides.get("region"), each.overrides.get("strategy"))
        for each in sets_of(regions=regions, strategy=strategies)
    ]
    assert found == list(dict.fromkeys(pairs))


# --- the same twice -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {"region": "a", "regions": ["b", "a"]},
        {"region": "a", "regions": ["b", "b"]},
        {"region": "a", "strategy": ["SPOT", "spot"], "regions": ["b"]},
        {"region": "a", "candidates": [{"region": "a"}, {"region": "b"}, {}]},
        {"region": "a", "candidates": [{"strategy": None}, {"region": "b"}, {"strategy": " "}]},
    ],
)
def test_a_candidate_that_is_there_twice_is_tried_once_with_a_warning(
    variables: dict[str, Any],
) -> None:
    names = ("region", "regions", "strategy", "candidates")
    walk = parse_walk(**{name: variables.get(name) for name in names})
    found, warnings = expand(variables, walk, overlay)
    assert [each.variables["region"] for each in found] == ["a", "b"]
    assert "is there twice; it is tried once in a pass." in warnings[0]
    assert found[-1].title.startswith("candidate 2 of 2")


def test_candidates_that_differ_in_one_variable_are_two() -> None:
    entries = [{"machine_type": "n1-standard-4"}, {"machine_type": "n1-standard-8"}]
    assert len(sets_of(region="a", candidates=entries)) == 2


# --- {region} -------------------------------------------------------------------------------------


def test_the_region_is_filled_into_strings_at_any_depth() -> None:
    found = sets_of(
        region="europe-west4",
        regions=["us-east1"],
        image="{region}-docker.pkg.dev/p/r/i:1",
        psc_interface_config={"network_attachment": "projects/p/regions/{region}/x/{region}"},
        worker_pools=[{}, {"container_spec": {"image_uri": "{region}/i", "args": ["{region}"]}}],
        worker_count=2,
    )
    second = found[1].variables
    assert second["image"] == "us-east1-docker.pkg.dev/p/r/i:1"
    assert second["psc_interface_config"] == {
        "network_attachment": "projects/p/regions/us-east1/x/us-east1"
    }
    assert second["worker_pools"][1]["container_spec"] == {
        "image_uri": "us-east1/i",
        "args": ["us-east1"],
    }
    assert found[0].variables["image"].startswith("europe-west4-docker")


def test_a_candidates_own_region_is_filled_in() -> None:
    (one, two) = sets_of(
        region="a",
        staging_bucket="b-{region}",
        candidates=[{}, {"region": "b", "network": "{region}"}],
    )
    assert one.variables["staging_bucket"] == "b-a"
    assert (two.variables["staging_bucket"], two.variables["network"]) == ("b-b", "b")


@pytest.mark.parametrize(
    "variables",
    [
        {"env": {"A": "{region}"}},
        {"labels": {"a": "{region}"}},
        {"command": "echo {region}"},
        {"setup_command": ["echo {region}"]},
        {"worker_pools": [{"container_spec": {"env": {"A": "{region}"}, "command": ["{region}"]}}]},
        {
            "job_spec_patch": [
                {"op": "add", "path": f"/job_spec/worker_pool_specs/0/container_spec/{path}"}
                | {"value": {"name": "A", "value": "{region}"}}
                for path in ("env/-", "env", "command", "command/0")
            ]
        },
        {"job_spec_patch": [{"op": "add", "path": "/labels/a", "value": "{region}"}]},
        {"image": "{{ region }}"},
        {"image": "{{region}}"},
        {"image": "${region}"},
        {"image": "{Region}{regions}{zone}"},
        {"region": "{region}", "regions": ["{region}"], "candidates": [{"image": "{region}"}]},
        {"worker_count": 3, "credentials": None, "enable_web_access": True},
    ],
    ids=str,
)
def test_what_is_the_users_own_or_no_placeholder_is_left_alone(variables: dict[str, Any]) -> None:
    assert fill_region(variables, "us-east1") == variables


def test_a_patch_of_anything_else_is_filled_in() -> None:
    path = "/job_spec/network"
    patch = [{"op": "add", "path": path, "value": "n-{region}"}]

    filled = fill_region({"job_spec_patch": patch}, "us-east1")

    assert filled["job_spec_patch"] == [{"op": "add", "path": path, "value": "n-us-east1"}]


def test_without_a_region_nothing_is_filled_in() -> None:
    assert fill_region({"image": "{region}/i"}, "") == {"image": "{region}/i"}


def test_expanding_changes_nothing_that_it_is_given() -> None:
    variables = {
        "region": "a",
        "image": "{region}/i",
        "worker_pools": [{"x": ["{region}"]}],
        "candidates": [{"labels": {"a": "1"}}, {"region": "b"}],
    }
    before = copy.deepcopy(variables)
    sets_of(**variables)
    assert variables == before


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "variable", "words"),
    [
        ({"regions": "us-east1"}, "regions", "regions is 'us-east1', expected a list"),
        ({"regions": ["a", ""]}, "regions", "regions[1] is '', expected a text"),
        ({"regions": [3]}, "regions", "regions[0] is 3"),
        ({"strategy": [None]}, "strategy", "strategy[0] is None"),
        ({"strategy": 4}, "strategy", "strategy is 4, expected a text or a list"),
        ({"candidates": {"region": "a"}}, "candidates", "expected a list of mappings"),
        ({"candidates": ["us-east1"]}, "candidates", "candidates[0] is 'us-east1', expected a map"),
        (
            {"candidates": [{}], "regions": ["a"]},
            "candidates",
            "candidates is set, and regions beside it",
        ),
        (
            {"candidates": [{}], "strategy": ["SPOT"]},
            "candidates",
            "candidates is set, and a list in strategy beside it",
        ),
        ({"candidates": [{"regions": ["a"]}]}, "candidates", "candidates[0] has regions"),
        ({"candidates": [{"candidates": []}]}, "candidates", "candidates[0] has candidates"),
        ({"candidates": [{}, {"capacity": {}}]}, "candidates", "candidates[1] has capacity"),
        *(
            ({"candidates": [{key: 1}]}, "candidates", f"candidates[0] has {key}, which says how")
            for key in ("capacity.max_attempts", "regions.0", "candidates.0.region")
        ),
        (
            {"candidates": [{"strategy": ["SPOT"]}]},
            "candidates",
            "candidates[0].strategy is a list",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    variables: dict[str, Any], variable: str, words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        parse_walk(**variables)
    assert words in caught.value.message
    assert caught.value.variable == variable


def test_a_single_strategy_may_stand_beside_candidates() -> None:
    assert parse_walk(strategy="SPOT", candidates=[{}]).candidates == ({},)


def test_nothing_said_is_one_candidate() -> None:
    assert parse_walk() == Walk()
    assert len(expand({}, Walk(), overlay)[0]) == 1


def test_a_mistake_names_its_candidate_once_and_keeps_its_kind() -> None:
    title = "candidate 2 of 3 (us-east1, SPOT)"
    with pytest.raises(MachineSpecError) as caught, naming(title), naming(title):
        raise MachineSpecError("m.", variable="machine_type", hint="h.")
    assert str(caught.value) == f"{title}: m. h."
    assert caught.value.variable == "machine_type"


def test_a_mistake_of_the_only_candidate_is_said_as_it_is() -> None:
    with pytest.raises(PlanError, match=r"^m$"), naming(""):
        raise PlanError("m")
