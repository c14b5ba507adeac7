"""Tails, and files that are read while they grow."""

from __future__ import annotations

from pathlib import Path

from prefect_vertex.emulator.output import Follower, error_tail

TRACEBACK = "Traceback (most recent call last):"


def numbered(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


def test_short_error_is_quoted_whole() -> None:
    assert error_tail("one\n\ntwo\n\n") == "one\n\ntwo"
    assert error_tail("") == ""


def test_a_progress_bar_is_one_line_of_an_error() -> None:
    bar = "\r".join(f"{number}%" for number in range(100))
    assert error_tail(f"one\n{bar}\n") == f"one\n{bar}"


def test_long_error_is_quoted_from_its_end() -> None:
    lines = error_tail("\n".join(numbered(100))).splitlines()

    assert lines == ["[...]", *numbered(100)[-20:]]


def test_long_traceback_keeps_its_first_line() -> None:
    lines = error_tail("\n".join(["before", TRACEBACK, *numbered(100)])).splitlines()

    assert lines == [TRACEBACK, "  [...]", *numbered(100)[-20:]]


def test_traceback_within_the_tail_is_left_as_it_is() -> None:
    text = "\n".join([*numbered(100), TRACEBACK, "  File x", "ValueError: y"])

    assert error_tail(text).splitlines()[-3:] == [TRACEBACK, "  File x", "ValueError: y"]
    assert error_tail(text).count(TRACEBACK) == 1


def test_endless_line_is_cut_to_a_few_kilobytes() -> None:
    assert len(error_tail("x" * 1_000_000)) < 10_000
    assert error_tail("x" * 1_000_000)


def test_follower_gives_whole_lines_and_at_the_end_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    follower = Follower(path)

    assert follower.new_lines(ended=False) == []
    path.write_bytes(b"one\ntw")
    assert follower.new_lines(ended=False) == ["one"]
    with path.open("ab") as file:
        file.write(b"o\n\xff")
    assert follower.new_lines(ended=False) == ["two"]
    assert follower.new_lines(ended=True) == ["\N{REPLACEMENT CHARACTER}"]
    assert follower.new_lines(ended=True) == []
