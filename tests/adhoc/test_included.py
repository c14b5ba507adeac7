"""include_files is judged before there is a flow run that would lack a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.errors import BundleError
from prefect_vertex.runs.included import check_included_files, check_patterns

Write = Callable[..., Any]


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        pytest.param("data/", "expected a list of patterns", id="a text alone"),
        pytest.param(["a", 3], r"include_files\[1\] is 3, which is no text", id="a number"),
        pytest.param(["  "], "is empty", id="blank"),
        pytest.param(["!"], "is empty", id="nothing to leave out"),
        pytest.param(["/etc/passwd"], "is absolute", id="absolute"),
        pytest.param(["C:\\data"], "is absolute", id="absolute on Windows"),
        pytest.param(["\\server\\x"], "is absolute", id="absolute on a server"),
        pytest.param(["\\!a.txt"], r"holds a backslash.*write '\?a\.txt'", id="escaped mark"),
        pytest.param(["data/../../x"], "may lead out of the base directory", id="upwards"),
        pytest.param(["a\0b"], "NUL", id="NUL"),
        pytest.param(["!*.csv"], "only leaves files out", id="only exclusions"),
    ],
)
def test_a_pattern_that_could_match_nothing_is_refused(patterns: object, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        check_patterns(patterns)


def test_decorating_with_such_a_pattern_is_refused(write_flow: Write) -> None:
    with pytest.raises(BundleError, match="is absolute"):
        write_flow(include_files=["/data/*.csv"])


def test_files_may_be_made_after_the_flow_was_defined(write_flow: Write, tmp_path: Path) -> None:
    """The disk is read when the flow is submitted, as the bundle is made then."""
    flow = write_flow(include_files=["data/*.txt", "!data/b.txt", "more/"])
    (tmp_path / "data").mkdir()
    (tmp_path / "more").mkdir()
    for name in ("data/a.txt", "data/b.txt", "more/c.bin"):
        (tmp_path / name).write_text("x")

    check_included_files(flow)


def test_a_pattern_that_matches_nothing_is_named_with_where_it_was_looked_for(
    write_flow: Write, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x")
    flow = write_flow(include_files=["a.txt", "b*.txt"])

    with pytest.raises(BundleError, match=r"'b\*\.txt' matches no file below ") as told:
        check_included_files(flow)
    assert str(tmp_path) in str(told.value)


def test_a_link_that_leads_out_is_refused(write_flow: Write, tmp_path: Path) -> None:
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (outside / "secret.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(outside / "secret.txt")

    with pytest.raises(BundleError, match=r"'link\.txt' leads out of"):
        check_included_files(write_flow(include_files=["link.txt"]))


def linked(folder: Path) -> None:
    """A file, a link to it and a link to its folder."""
    (folder / "data").mkdir()
    (folder / "data" / "a.txt").write_text("x")
    (folder / "data" / "latest.txt").symlink_to("a.txt")
    (folder / "current").symlink_to("data")


@pytest.mark.parametrize(
    ("patterns", "link"),
    [
        (["data/latest.txt"], "data/latest.txt"),
        (["data/"], "data/latest.txt"),
        (["data/*.txt"], "data/latest.txt"),
        (["current/a.txt"], "current/a.txt"),
        (["!data/latest.txt", "data/"], "data/latest.txt"),
    ],
)
def test_a_link_would_arrive_as_what_it_leads_to_and_is_refused(
    write_flow: Write, tmp_path: Path, patterns: list[str], link: str
) -> None:
    """Prefect puts the file into the bundle under its own name alone."""
    linked(tmp_path)

    with pytest.raises(BundleError, match=f"'{link}' is a link and would not arrive"):
        check_included_files(write_flow(include_files=patterns))


@pytest.mark.parametrize("patterns", [["data/a.txt"], ["data/", "!data/latest.txt"]])
def test_a_link_that_is_not_asked_for_does_no_harm(
    write_flow: Write, tmp_path: Path, patterns: list[str]
) -> None:
    linked(tmp_path)

    check_included_files(write_flow(include_files=patterns))


def test_what_is_no_regular_file_is_refused(write_flow: Write, tmp_path: Path) -> None:
    """To read it may take for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.txt").write_text("x")

    with pytest.raises(BundleError, match="'pipe' is irregular"):
        check_included_files(write_flow(include_files=["a.txt", "pipe"]))


def test_links_that_lead_in_a_circle_are_named(write_flow: Write, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("x")
    (tmp_path / "data" / "self").symlink_to(tmp_path)

    with pytest.raises(BundleError, match=r"'data/self' is a link in .* leads back to '\.'"):
        check_included_files(write_flow(include_files=["*.txt"]))
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(BundleError, match="'one' leads round"):
        check_included_files(write_flow(include_files=["one"]))


def test_a_home_that_is_not_known_is_named(write_flow: Write) -> None:
    flow = write_flow(include_files=["a.txt"], include_files_base_dir="~no-such-user/x")

    with pytest.raises(BundleError, match=r"include_files_base_dir, ~no-such-user/x, names a user"):
        check_included_files(flow)


def test_a_name_that_begins_with_a_mark_is_matched(write_flow: Write, tmp_path: Path) -> None:
    (tmp_path / "!bang.txt").write_text("x")

    for pattern in ("?bang.txt", "\\!bang.*"):
        check_included_files(write_flow(include_files=[pattern]))


def test_what_prefectignore_leaves_out_is_told(write_flow: Write, tmp_path: Path) -> None:
    """Prefect logs a line and bundles nothing."""
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / ".prefectignore").write_text("*.txt\n")

    with pytest.raises(BundleError, match=r"\.prefectignore or a later pattern"):
        check_included_files(write_flow(include_files=["a.txt"]))


def test_another_base_directory_is_where_patterns_begin(
    write_flow: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one is relative to the working directory, as Prefect has it."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "a.txt").write_text("x")
    monkeypatch.chdir(tmp_path)

    check_included_files(write_flow(include_files=["a.txt"], include_files_base_dir="base"))
    with pytest.raises(BundleError, match="include_files_base_dir, nowhere, is no directory"):
        check_included_files(write_flow(include_files=["a.txt"], include_files_base_dir="nowhere"))


def test_a_flow_without_files_needs_none(write_flow: Write) -> None:
    check_included_files(write_flow())
    check_included_files(write_flow(include_files=[]))
