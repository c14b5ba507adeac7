"""The reference pages say what the code says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from prefect_vertex.lifecycle.diagnosis import _EXPLANATION


def test_reference_pages_are_what_make_docs_writes(rendering: ModuleType, root: Path) -> None:
    """A changed setting, variable, option, event, error or code changes its page in the commit."""
    stale = [
        name
        for name, render in rendering.PAGES.items()
        if (root / "docs" / name).read_text(encoding="utf-8") != render()
    ]

    assert stale == [], "run `make docs`"


def test_every_exit_code_of_the_bootstrap_is_explained(root: Path) -> None:
    """Whatever code the bootstrap ends a replica with stands in the table."""
    folder = root / "src" / "prefect_vertex" / "delivery" / "bootstrap"
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    codes = {int(code) for code in re.findall(r"\bdie\((\d+)", text)}

    assert codes >= {70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 127}
    assert codes <= set(_EXPLANATION)


def test_every_capacity_event_is_documented_with_its_payload(
    rendering: ModuleType, root: Path
) -> None:
    """The kinds and keys of the page are those that the walk emits."""
    tree = ast.parse((root / "src/prefect_vertex/reconciler/walk.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    ends = {
        str(call.args[1].value)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "_emit_end"
        and isinstance(call.args[1], ast.Constant)
    }
    tries = {
        str(word.value.value)
        for call in calls
        for word in call.keywords
        if word.arg == "what" and isinstance(word.value, ast.Constant)
    }
    documented = rendering.events.CAPACITY

    assert ends | tries | {"refused"} == set(documented)
    assert set(documented) - ends == rendering.events.WITH_THE_TRY
    assert _keys(tree, "following") == set(documented["refused"][1])
    assert _keys(tree, "payload") | {"ledger"} == {
        key for kind in ends for key in documented[kind][1]
    }


def _keys(tree: ast.AST, variable: str) -> set[str]:
    """Keys of the literals that are given that name."""
    return {
        str(key.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == variable
        for key in node.value.keys
        if isinstance(key, ast.Constant)
    }


@pytest.mark.parametrize("name", ["doctor", "jobs", "plan", "stage-code", "emulator start", "demo"])
def test_every_command_has_its_section(rendering: ModuleType, name: str) -> None:
    assert f"## prefect-vertex {name}\n" in rendering.PAGES["cli.md"]()
