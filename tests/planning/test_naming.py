"""Names and labels: legal whatever goes in, and identity intact."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.errors import NamingError
from prefect_vertex.planning.naming import (
    LOCATIONS,
    ResourceName,
    check_location,
    check_project,
    display_name,
    label_key,
    label_value,
    legal_labels,
    parse_resource_name,
)

RUN = "0f1e2d3c-1111-4222-8333-444455556666"
# All of Unicode, lone surrogates too: JSON can hold them.
UNICODE = st.characters(exclude_categories=[])
ANYTHING = st.one_of(st.none(), st.integers(), st.floats(), st.text(UNICODE, max_size=200))
LEGAL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LEGAL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


@given(st.text(UNICODE, max_size=500), st.integers(min_value=1, max_value=10**6))
def test_a_display_name_is_at_most_128_characters_and_ends_in_run_and_attempt(
    name: str,
    attempt: int,
) -> None:
    made = display_name(name, RUN, attempt)
    assert 1 <= len(made) <= 128
    assert made.encode()
    assert made.splitlines() == [made]
    assert not any(unicodedata.category(char) == "Cc" for char in made)
    assert made.endswith(f"-0f1e2d3c-a{attempt}")
    assert made == display_name(name, RUN, attempt)


@given(st.dictionaries(st.text(UNICODE, max_size=100), ANYTHING, max_size=120))
def test_any_labels_become_legal_and_the_identity_stays(labels: dict[str, object]) -> None:
    identity = {"prefect.io/flow-run-id": RUN, "prefect-vertex_attempt": 3}
    made, dropped = legal_labels(labels, identity)
    assert len(made) <= 64
    assert all(LEGAL_KEY.fullmatch(key) for key in made)
    assert all(LEGAL_VALUE.fullmatch(value) for value in made.values())
    assert made["prefect-io_flow-run-id"] == RUN
    assert made["prefect-vertex_attempt"] == "3"
    assert len(made) - 2 + len(dropped) == len(labels)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("forecast\nof\tmay\x00", "forecast of may"),
        ("  two   blanks ", "two blanks"),
        ("\n\r", "flow-run"),
        ("", "flow-run"),
        ("Prévision 日本 👩‍🔬", "Prévision 日本 👩‍🔬"),
        ("half \ud83d of it", "half of it"),
        ("line\u2028end", "line end"),
    ],
)
def test_a_name_becomes_one_line_and_stays_readable(name: str, shown: str) -> None:
    assert display_name(name, RUN, 1) == f"{shown}-0f1e2d3c-a1"


@given(st.text(UNICODE, max_size=200))
def test_making_a_key_or_value_legal_twice_changes_nothing(text: str) -> None:
    assert label_key(label_key(text)) == label_key(text)
    assert label_value(label_value(text)) == label_value(text)


def test_a_hundred_labels_leave_the_identity_and_say_what_was_dropped() -> None:
    labels = {f"key-{number}": "x" for number in range(100)}
    made, dropped = legal_labels(labels, {"prefect.io/flow-run-id": RUN})
    assert len(made) == 64
    assert dropped == tuple(f"key-{number}" for number in range(63, 100))


def test_a_user_label_never_replaces_one_of_the_identity_and_the_user_hears_of_it() -> None:
    made, dropped = legal_labels(
        {"prefect.io/flow-run-id": "mine"}, {"prefect.io/flow-run-id": RUN}
    )
    assert made == {"prefect-io_flow-run-id": RUN}
    assert dropped == ("prefect.io/flow-run-id",)


def test_two_keys_that_become_one_are_both_kept() -> None:
    made, dropped = legal_labels({"a.b": "1", "a-b": "2"}, {})
    assert sorted(made.values()) == ["1", "2"]
    assert dropped == ()


def test_a_key_that_another_was_renamed_to_is_dropped_and_not_lost_silently() -> None:
    made, _ = legal_labels({"a.b": "1", "a-b": "2"}, {})
    renamed = next(key for key in made if key != "a-b")
    again, dropped = legal_labels({renamed: "0", "a.b": "1", "a-b": "2"}, {})
    assert (again[renamed], dropped) == ("0", ("a-b",))


@given(st.text(UNICODE, max_size=80), st.text(UNICODE, max_size=80))
def test_identity_values_are_never_shortened(name: str, other: str) -> None:
    """Jobs are looked up by them: an id fits, whatever else stands beside it."""
    made, _ = legal_labels({name: other}, {"prefect.io/flow-run-id": RUN, name: other})
    assert made["prefect-io_flow-run-id"] == RUN or label_key(name) == "prefect-io_flow-run-id"


def test_long_values_that_differ_late_stay_different() -> None:
    assert label_value("x" * 80 + "a") != label_value("x" * 80 + "b")


@pytest.mark.parametrize(
    ("key", "legal"),
    [("prefect.io/flow-name", "prefect-io_flow-name"), ("1abc", "k1abc"), ("Team", "team")],
)
def test_keys_become_legal_in_a_readable_way(key: str, legal: str) -> None:
    assert label_key(key) == legal


@pytest.mark.parametrize("region", ["global", "us", "eu"])
def test_a_multi_region_is_refused(region: str) -> None:
    with pytest.raises(NamingError, match="single regions only") as caught:
        check_location(region)
    assert caught.value.variable == "region"


@pytest.mark.parametrize("region", ["", "US-Central1", "us central1", "us/central1", "1-east"])
def test_what_cannot_be_a_region_is_refused(region: str) -> None:
    with pytest.raises(NamingError, match="not the name of a region"):
        check_location(region)


def test_a_region_newer_than_the_list_passes_with_a_warning() -> None:
    assert "closest is us-central1" in check_location("us-centrl1")[0]
    assert check_location("mars-north1") != ()


def test_known_regions_pass_without_a_word() -> None:
    assert {check_location(region) for region in LOCATIONS} == {()}


def test_a_zone_is_no_region() -> None:
    with pytest.raises(NamingError, match="us-central1-a, which is a zone") as caught:
        check_location("us-central1-a")
    assert "Set region to us-central1." in str(caught.value)


@pytest.mark.parametrize("project", ["my-project", "123456789", "example.com:project-1"])
def test_project_ids_and_numbers_pass(project: str) -> None:
    check_project(project)


@pytest.mark.parametrize("project", ["", "projects/p", "My Project", "p\n"])
def test_what_cannot_be_a_project_is_refused(project: str) -> None:
    with pytest.raises(NamingError, match="not the id of a Google Cloud project"):
        check_project(project)


def test_resource_names_are_read_and_written() -> None:
    text = "projects/123/locations/us-central1/customJobs/456"
    name = parse_resource_name(text)
    assert (str(name), name.key) == (text, ("us-central1", "456"))
    assert name.key == ResourceName("my-project", "us-central1", "456").key


def test_another_types_identifier_is_refused() -> None:
    with pytest.raises(NamingError):
        parse_resource_name("my-pod:1234")
