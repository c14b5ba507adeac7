"""The archive is a function of names and content alone."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from prefect_vertex.delivery.bundle import Bundle, build_bundle
from prefect_vertex.errors import BundleError

WriteTree = Callable[[Path, Mapping[str, str | bytes]], Path]

FILES: dict[str, str | bytes] = {
    "flow.py": "print('flow')\n",
    "models/ets.py": "ALPHA = 0.3\n",
    "models/__init__.py": "",
    "data/series.parquet": bytes(range(256)) * 9,
    "run.sh": "#!/bin/sh\nexit 0\n",
}


@pytest.fixture
def bundle_of(tmp_path: Path) -> Callable[..., Bundle]:
    def build(root: Path, name: str = "") -> Bundle:
        into = tmp_path / f"out-{os.urandom(4).hex()}"
        into.mkdir()
        return build_bundle(root, into=into, name=name)

    return build


def names_in(bundle: Bundle) -> list[str]:
    with zipfile.ZipFile(bundle.path) as archive:
        return archive.namelist()


def test_two_copies_give_the_same_bytes(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    """Times, modes and the order of creation leave no trace in the archive."""
    first = write_tree(tmp_path / "first", FILES)
    second = write_tree(tmp_path / "second", dict(reversed(FILES.items())))
    for number, path in enumerate(sorted(second.rglob("*"))):
        path.chmod(0o777 if path.is_dir() else 0o600 + number % 2 * 0o111)
        os.utime(path, (number * 1e6, number * 1e6))

    one, other = bundle_of(first, "code"), bundle_of(second, "code")

    assert one.path.read_bytes() == other.path.read_bytes()
    assert (one.name, one.sha256) == (other.name, other.sha256)


def test_the_digest_is_pinned(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    """The bytes depend on neither the Python version nor the machine: this digest is for all."""
    bundle = bundle_of(write_tree(tmp_path / "tree", FILES), "code")

    assert bundle.sha256 == "80bc221e800d863894ac3700e3e9c7b51373c05aa7cd147f83f37623d46616cc"
    assert bundle.name == f"code-{bundle.sha256[:16]}.zip"
    assert (bundle.file_count, bundle.size) == (5, bundle.path.stat().st_size)


def test_entries_are_stored_in_order_with_fixed_attributes(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    bundle = bundle_of(write_tree(tmp_path / "tree", FILES))
    with zipfile.ZipFile(bundle.path) as archive:
        entries = archive.infolist()

    assert [entry.filename for entry in entries] == sorted(FILES)
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_scripts_are_executable_whatever_their_mode_on_disk(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    tree = write_tree(tmp_path / "tree", {"run.sh": "#!/bin/sh\n", "data.csv": "1,2\n"})
    (tree / "run.sh").chmod(0o644)
    (tree / "data.csv").chmod(0o755)
    with zipfile.ZipFile(bundle_of(tree).path) as archive:
        modes = {e.filename: stat.S_IMODE(e.external_attr >> 16) for e in archive.infolist()}

    assert modes == {"run.sh": 0o755, "data.csv": 0o644}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"flow.py": "print('other')\n"}, id="content"),
        pytest.param({"new.py": ""}, id="name"),
    ],
)
def test_any_change_changes_the_digest(
    tmp_path: Path,
    write_tree: WriteTree,
    bundle_of: Callable[..., Bundle],
    change: dict[str, str | bytes],
) -> None:
    before = bundle_of(write_tree(tmp_path / "one", FILES)).sha256
    after = bundle_of(write_tree(tmp_path / "two", {**FILES, **change})).sha256

    assert before != after


@pytest.mark.parametrize(
    ("given", "stem"),
    [("", "My-flows"), ("forecast", "forecast"), ("a b/ü", "a-b"), ("../x", "x"), ("ü", "code")],
)
def test_the_stem_is_legal_in_any_bucket(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle], given: str, stem: str
) -> None:
    bundle = bundle_of(write_tree(tmp_path / "My flows", FILES), given)

    assert bundle.name.rpartition("-")[0] == stem


@pytest.mark.parametrize("kind", ["missing", "file", "empty", "only ignored"])
def test_nothing_to_stage_is_one_line(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle], kind: str
) -> None:
    root = tmp_path / "tree"
    if kind == "file":
        root.write_text("")
    elif kind == "empty":
        root.mkdir()
    elif kind == "only ignored":
        write_tree(root, {"__pycache__/x.pyc": "", ".git/config": ""})

    with pytest.raises(BundleError, match=r"There is no (directory|file)") as caught:
        bundle_of(root)

    assert str(root) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_link_inside_the_tree_is_its_content(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    """A checkout with links and one with copies give the same archive."""
    linked = write_tree(tmp_path / "one", {"data/a.csv": "1\n"})
    (linked / "latest.csv").symlink_to("data/a.csv")
    (linked / "now").symlink_to(linked / "data")
    copied = {"data/a.csv": "1\n", "latest.csv": "1\n", "now/a.csv": "1\n"}

    assert bundle_of(linked).sha256 == bundle_of(write_tree(tmp_path / "two", copied)).sha256


@pytest.mark.parametrize(
    ("target", "words"),
    [("../outside.csv", "leaves"), ("nowhere", "leads nowhere"), (".", "leads into itself")],
)
def test_other_links_are_refused_by_name(
    tmp_path: Path,
    write_tree: WriteTree,
    bundle_of: Callable[..., Bundle],
    target: str,
    words: str,
) -> None:
    write_tree(tmp_path, {"outside.csv": "secret"})
    tree = write_tree(tmp_path / "tree", FILES)
    (tree / "data" / "odd").symlink_to(target.replace("../", "../../"))

    with pytest.raises(BundleError, match=f"'data/odd' {words}"):
        bundle_of(tree)


def test_names_are_one_in_every_normal_form(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    composed = write_tree(tmp_path / "one", {"s\u00e9rie.csv": "1"})
    decomposed = write_tree(tmp_path / "two", {"se\u0301rie.csv": "1"})

    assert names_in(bundle_of(composed)) == names_in(bundle_of(decomposed)) == ["s\u00e9rie.csv"]


def test_two_spellings_of_one_name_are_refused(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    tree = write_tree(tmp_path / "tree", {"s\u00e9rie.csv": "1", "se\u0301rie.csv": "2"})
    if len(list(tree.iterdir())) == 1:
        pytest.skip("this file system normalises names itself")

    with pytest.raises(BundleError, match="Two files have the name"):
        bundle_of(tree)


@pytest.mark.parametrize("name", ["a\\b.py", "C:evil.py"])
def test_names_that_cannot_be_unpacked_are_refused(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle], name: str
) -> None:
    """What the bootstrap would refuse never leaves this machine."""
    with pytest.raises(BundleError, match="cannot be unpacked"):
        bundle_of(write_tree(tmp_path / "tree", {name: ""}))


def test_pipes_and_sockets_are_left_out(
    tmp_path: Path, write_tree: WriteTree, bundle_of: Callable[..., Bundle]
) -> None:
    tree = write_tree(tmp_path / "tree", {"flow.py": ""})
    os.mkfifo(tree / "pipe")

    assert names_in(bundle_of(tree)) == ["flow.py"]
