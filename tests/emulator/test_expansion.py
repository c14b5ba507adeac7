"""`$(VAR)` and `$$`, as Kubernetes documents them."""

from __future__ import annotations

import pytest

from prefect_vertex.emulator.expansion import expand, expand_environment

VARIABLES = {"A": "one", "B": "$(A)", "EMPTY": "", "with space": "x"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$(A)", "one"),
        ("<$(A)$(A)>", "<oneone>"),
        ("$(EMPTY)", ""),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$(mktemp -d)", "$(mktemp -d)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$$$$(A)", "$$(A)"),
        ("p@$$word", "p@$word"),
        ("$A ${A}", "$A ${A}"),
        ("$", "$"),
        ("$$", "$"),
        ("$(", "$("),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(B)", "$(A)"),
        ("$($(A)", "$($(A)"),
        ("$(with space)", "x"),
    ],
)
def test_references_are_expanded_once_and_doubled_dollars_halved(text: str, expanded: str) -> None:
    assert expand(text, VARIABLES) == expanded


def test_an_entry_sees_the_platform_and_what_stands_before_it() -> None:
    entries = [("LATE", "$(LATER)"), ("DIR", "$(BASE)/x"), ("LATER", "$(DIR)/y"), ("BASE", "mine")]

    assert expand_environment(entries, {"BASE": "/gcs"}) == {
        "BASE": "mine",
        "LATE": "$(LATER)",
        "DIR": "/gcs/x",
        "LATER": "/gcs/x/y",
    }
