"""Which files are code: git's rules as git applies them, and `.prefectignore` on top."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from prefect_vertex.delivery.tree import list_files
from prefect_vertex.errors import BundleError

WriteTree = Callable[[Path, Mapping[str, str | bytes]], Path]

RULES = {
    ".gitignore": "*.log\n/build/\n!keep.log\ndata/*\n!data/small\ndocs/**/draft\n\\#odd\n",
    "a/.gitignore": "!special.log\n/local.py\n# a comment\n",
    "a/b/.gitignore": "*\n!.gitignore\n!kept.py\n",
    "data/.gitignore": "!big\n",
    "a/b/kept.py": "",
    "a/b/lost.py": "",
    "a/b/c/kept.py": "",
    "a/local.py": "",
    "a/x/local.py": "",
    "a/special.log": "",
    "a/x/special.log": "",
    "a/other.log": "",
    "build/x.py": "",
    "a/build/x.py": "",
    "keep.log": "",
    "data/big": "",
    "data/small": "",
    "data/dir/x": "",
    "docs/draft/x": "",
    "docs/one/two/draft": "",
    "docs/final": "",
    "#odd": "",
    "flow.py": "",
}


def names(root: Path) -> set[str]:
    return {file.name for file in list_files(root)}


def test_gitignore_means_what_git_means(tmp_path: Path, write_tree: WriteTree) -> None:
    """The same files as `git ls-files` shows, nested rules, negations and anchors included."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = write_tree(tmp_path / "tree", RULES)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-C", str(root)]
    subprocess.run([*git, "init", "--quiet"], env=env, check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )

    assert names(root) == set(listed.stdout.strip("\0").split("\0"))


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        pytest.param("", {"flow.py", ".gitignore"}, id="git alone"),
        pytest.param(
            "!ext.so", {"flow.py", ".gitignore", "ext.so", "build/ext.so"}, id="any depth"
        ),
        pytest.param("!/build/ext.so", {"flow.py", ".gitignore", "build/ext.so"}, id="one file"),
        pytest.param("!build/", {"flow.py", ".gitignore", "build/ext.so", "build/o"}, id="folder"),
        pytest.param("*\n!*.py", {"flow.py"}, id="only these"),
        pytest.param(".gitignore", {"flow.py"}, id="more left out"),
    ],
)
def test_prefectignore_has_the_last_word(
    tmp_path: Path, write_tree: WriteTree, own: str, kept: set[str]
) -> None:
    """A negation brings a built extension back, also from below an ignored directory."""
    files = {
        ".gitignore": "build/\n*.so\n",
        ".prefectignore": own + "\n.prefectignore\n",
        "flow.py": "",
        "ext.so": "",
        "build/ext.so": "",
        "build/o": "",
    }

    assert names(write_tree(tmp_path, files)) == kept


@pytest.mark.parametrize(
    "left_out",
    [
        "__pycache__/flow.cpython-311.pyc",
        "pkg/__pycache__/x.pyc",
        ".git/config",
        "vendor/.git",
        "env/pyvenv.cfg",
        "env/lib/x.py",
    ],
)
def test_some_things_are_never_code(tmp_path: Path, write_tree: WriteTree, left_out: str) -> None:
    """Not even when `.prefectignore` asks for them."""
    files = {"flow.py": "", "env/pyvenv.cfg": "", left_out: "", ".prefectignore": f"!{left_out}"}

    assert names(write_tree(tmp_path, files)) == {"flow.py", ".prefectignore"}


def test_a_linked_virtual_environment_is_left_out(tmp_path: Path, write_tree: WriteTree) -> None:
    write_tree(tmp_path / "elsewhere", {"pyvenv.cfg": ""})
    root = write_tree(tmp_path / "tree", {"flow.py": ""})
    (root / ".venv").symlink_to(tmp_path / "elsewhere")

    assert names(root) == {"flow.py"}


def test_rules_above_count_up_to_the_top_of_the_repository(
    tmp_path: Path, write_tree: WriteTree
) -> None:
    """A part of a repository is ignored as in the whole: its secrets stay at home."""
    files = {
        ".gitignore": "*.py\n",
        "repo/.git/HEAD": "",
        "repo/.gitignore": ".env\n",
        "repo/flows/.gitignore": "*.tmp\n",
        "repo/flows/one/.env": "SECRET=1",
        "repo/flows/one/x.tmp": "",
        "repo/flows/one/flow.py": "",
    }

    assert names(write_tree(tmp_path, files) / "repo/flows/one") == {"flow.py"}


def test_a_directory_that_is_ignored_itself_can_be_staged(
    tmp_path: Path, write_tree: WriteTree
) -> None:
    """Whoever names it means its content: an example in an ignored environment, for one."""
    files = {".git/HEAD": "", ".gitignore": ".venv/\n*.csv\n", ".venv/share/example/flow.py": ""}

    assert names(write_tree(tmp_path, files) / ".venv/share/example") == {"flow.py"}


def test_rules_that_git_cannot_read_name_their_file(tmp_path: Path, write_tree: WriteTree) -> None:
    root = write_tree(tmp_path, {"flow.py": "", "a/.gitignore": "!\n"})

    with pytest.raises(BundleError, match=r"a/\.gitignore"):
        list_files(root)
