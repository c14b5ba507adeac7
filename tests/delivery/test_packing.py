"""The bootstrap's form: what the platform, an old Python and an image without packages can take."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prefect_vertex.delivery import packing
from prefect_vertex.delivery.packing import (
    MAX_PACKED_BYTES,
    bootstrap_source,
    join_modules,
    pack_source,
    packed_bootstrap,
)
from prefect_vertex.delivery.slimming import slimmed
from prefect_vertex.planning.packed import unpacking

DOLLAR = chr(36)
BACKSLASH = chr(92)


def run_packed(source: str, *arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-S", "-c", pack_source(source), *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    return done.stdout


def test_there_is_nothing_for_the_platform_to_expand() -> None:
    assert DOLLAR not in bootstrap_source()
    assert DOLLAR not in packed_bootstrap()


def test_it_leaves_room_for_what_unpacks_the_environment() -> None:
    """Every list page of the service carries both once per worker pool."""
    assert len(f"{unpacking(9)}\n{packed_bootstrap()}") <= MAX_PACKED_BYTES
    assert packed_bootstrap().isascii()
    assert packed_bootstrap().isprintable()


def test_packing_twice_gives_the_same_text() -> None:
    assert pack_source(bootstrap_source()) == packed_bootstrap()


def test_its_syntax_is_python_3_9() -> None:
    ast.parse(bootstrap_source(), feature_version=(3, 9))
    ast.parse(slimmed(bootstrap_source()), feature_version=(3, 9))


def test_it_imports_the_standard_library_alone() -> None:
    imported = set()
    for node in ast.walk(ast.parse(bootstrap_source())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])

    assert imported <= sys.stdlib_module_names


def test_its_own_functions_get_their_arguments_by_position() -> None:
    """Packing renames parameters, and not the keywords of calls."""
    tree = ast.parse(bootstrap_source())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    named = [
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.keywords
    ]

    assert not own & set(named)


def test_packed_code_does_what_the_source_says() -> None:
    """Renaming keeps scopes, closures, comprehensions, f-strings and the names of others."""
    source = '''
"""Docstring."""
from __future__ import annotations
import sys
from typing import Any

total: int = 1

def outer(values: list[int], /, factor: int = 2) -> Any:
    """Docstring."""
    count = 0

    def inner(value: int) -> int:
        nonlocal count
        count += 1
        return value * factor + total

    result = [inner(value) for value in values]
    try:
        raise ValueError("odd")
    except ValueError as error:
        return f"{result} {count} {error!s:>5}"

if __name__ == "__main__":
    print(outer([1, 2]), *sys.argv[1:], sep="|", end="")
'''

    assert run_packed(source, "a b") == "[3, 5] 2   odd|a b"


def test_packed_code_never_ends_its_own_text() -> None:
    """Its digits hold a backslash, which must not stand before the closing quotation mark."""
    sources = [f"print({number})" for number in range(300)]
    payloads = [pack_source(source).partition('r"')[2].partition('"')[0] for source in sources]

    assert any(BACKSLASH in payload for payload in payloads)
    assert not [payload for payload in payloads if payload.endswith(BACKSLASH)]
    assert run_packed(sources[-1]) == "299\n"


@pytest.mark.parametrize(
    ("source", "slim"),
    [
        pytest.param(
            "def one(a, b):\n  both = (a, b)\n  return both\nprint(one(1, 2))",
            "def E(t,a):e=t,a;return e\nprint(E(1,2))",
            id="lines and spaces",
        ),
        pytest.param(
            "if 1:\n  if 2:\n    print(f'{3 } a  b', 4)\n  else:\n    pass\nwhile 0:\n  pass",
            "if 1:\n if 2:print(f'{3} a  b',4)\n else:pass\nwhile 0:pass",
            id="blocks and texts",
        ),
        pytest.param(
            "import os\nimport sys\nprint(os.sep, not sys.argv, [1 for x in ()])",
            "import os,sys;print(os.sep,not sys.argv,[1 for E in()])",
            id="imports and words",
        ),
        pytest.param(
            "if __name__ == '__main__':\n  print(1,)\nx: int = 2\ny: int",
            "print(1);E=2",
            id="program",
        ),
    ],
)
def test_slim_source_is_the_same_in_less_text(source: str, slim: str) -> None:
    assert slimmed(source) == slim


def test_names_stay_apart_where_functions_share_letters() -> None:
    """What a function takes from around it is not what its own names become."""
    source = """
table = {"e": 1}
def first(value, other=3):
    found = [value for value in range(value) if value not in table]
    return found, other, sorted(table), (lambda value: value + other)(1)
def second(other):
    first_ = first(other)
    def third():
        nonlocal other
        other += len(first_)
        return other
    return third(), other, first_
def table_of(table):
    return table
print(second(2), table_of(5), sep=";")
"""

    assert run_packed(source) == "(6, 6, ([0, 1], 3, ['e'], 4));5\n"


def test_a_name_that_hides_another_only_within_is_refused() -> None:
    source = "size = 1\ndef run():\n  return [size for size in (2, 3)], size\nprint(run())"

    with pytest.raises(ValueError, match="'size' is hidden inside 'run'"):
        pack_source(source)


def test_files_of_the_working_directory_do_not_shadow_the_library(tmp_path: Path) -> None:
    """With `python -c` the first place that Python looks for modules is the working directory."""
    for name in ("zlib", "base64", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")

    assert run_packed("import json\nprint(json.dumps([1]))", cwd=tmp_path) == f"[1]{os.linesep}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(f"print('{DOLLAR}HOME')", "dollar sign", id="dollar sign"),
        pytest.param(f"x = {os.urandom(9000).hex()!r}", "bytes; 8000 fit", id="size"),
    ],
)
def test_what_cannot_travel_is_refused(source: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pack_source(source)


# --- several modules into one --------------------------------------------------------------------


def test_modules_are_joined_in_order_and_import_once() -> None:
    """What a module took from another is simply there; the library's imports come first."""
    first = '"""One."""\n\nfrom __future__ import annotations\n\nimport os\n\nSEP = os.sep\n'
    second = (
        '"""Two."""\n\nfrom __future__ import annotations\n\nimport json\nimport os\n\n'
        "from prefect_vertex.delivery.bootstrap.first import (\n    SEP,\n)\n\n"
        "print(json.dumps([SEP, os.curdir]))\n"
    )

    joined = join_modules([first, second])

    assert joined == (
        "from __future__ import annotations\nimport json\nimport os\n\n\n"
        "SEP = os.sep\n\n\nprint(json.dumps([SEP, os.curdir]))\n"
    )
    assert run_packed(joined) == f'["/", "."]{os.linesep}'


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        pytest.param(["def f(): ...\n", "f = 1\n"], "'f' is bound by two", id="one name twice"),
        pytest.param(["import os as o\n"], "renames nothing", id="another name"),
    ],
)
def test_what_would_mean_something_else_when_joined_is_refused(
    modules: list[str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        join_modules(modules)


def test_every_module_of_the_bootstrap_is_in_it() -> None:
    folder = Path(packing.__file__).parent / "bootstrap"
    functions = {
        node.name
        for file in folder.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }

    assert functions == {
        node.name
        for node in ast.parse(bootstrap_source()).body
        if isinstance(node, ast.FunctionDef)
    }
