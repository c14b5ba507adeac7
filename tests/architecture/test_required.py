"""PREFECT_VERTEX_REQUIRE: where tests must run, a skip is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SKIPPED = """
import pytest

@pytest.mark.image
def test_skipped():
    pytest.skip("no buildah here")

@pytest.mark.image
def test_ran():
    pass

@pytest.mark.linux
def test_of_another_kind():
    pytest.skip("no Linux here")

@pytest.mark.image
@pytest.mark.xfail(strict=True)
def test_known_fault():
    assert False
"""
OPTIONS = ["-p", "no:cacheprovider", "-p", "no:randomly", "-q", "-rs"]
MARKERS = "[pytest]\nmarkers =\n  image\n  browser\n  linux\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest on a module of its own, under this project's conftest."""
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(MARKERS)
    (tmp_path / "test_it.py").write_text(SKIPPED)

    def run(required: str | None) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        if required is not None:
            env["PREFECT_VERTEX_REQUIRE"] = required
        command = [sys.executable, "-m", "pytest", *OPTIONS]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    return run


def test_a_skip_is_a_skip_where_nothing_is_required(run: Run) -> None:
    ended = run(None)

    assert ended.returncode == 0
    assert "1 passed, 2 skipped, 1 xfailed" in ended.stdout


def test_a_skip_of_a_required_marker_fails_and_says_why(run: Run) -> None:
    """Tests of other markers, and expected failures, stay what they are."""
    ended = run("image")

    assert ended.returncode == 1
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed" in ended.stdout
    assert "PREFECT_VERTEX_REQUIRE names image" in ended.stdout
    assert "no buildah here" in ended.stdout


def test_a_required_marker_without_any_test_is_an_error(run: Run) -> None:
    ended = run("image, browser")

    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "names browser, but no such test was collected" in ended.stderr
