"""What the commands refuse, in one line and at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "prefect_vertex", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["demo", "--series", "0"], "366 monthly series", id="no series"),
        pytest.param(["demo", "--series", "999"], "366 monthly series", id="too many series"),
        pytest.param(["demo", "--replicas", "0"], "expected 1 or more", id="no replicas"),
        pytest.param(["demo", "--output", "{file}"], "cannot be a directory", id="output a file"),
        pytest.param(["emulator", "start", "--port", "99999"], "not a port", id="port"),
        pytest.param(["emulator", "start", "--storage-port", "-1"], "not a port", id="storage"),
        pytest.param(
            ["emulator", "start", "--storage-port", "0", "--data", "{file}"],
            "--data",
            id="data a file",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_and_nothing_is_started(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    """The message and its hint are the only output."""
    file = tmp_path / "file"
    file.touch()
    done = _run(*(text.format(file=file) for text in arguments))

    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert done.stdout == ""


def test_help_describes_every_command() -> None:
    """Nobody has to guess what a command is for."""
    text = _run("--help").stdout

    for words in ("Forecast real series", "Upload a directory's code", "A local Vertex AI"):
        assert words in text
