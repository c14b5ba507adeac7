"""`prefect-vertex stage-code`, typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.cli.app import app


@pytest.fixture
def tree(tmp_path: Path, write_tree: Callable[[Path, Mapping[str, str | bytes]], Path]) -> Path:
    return write_tree(tmp_path / "flows", {"flow.py": "x = 1\n", "data.bin": b"0" * 1_500_000})


def test_it_prints_what_to_set(
    tree: Path, storage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["stage-code", str(tree), "--bucket", f"gs://{storage.bucket}/team"])
    first = capsys.readouterr().out.splitlines()
    app(["stage-code", str(tree), "--bucket", f"gs://{storage.bucket}/team"])
    second = capsys.readouterr().out.splitlines()

    assert first[0] == "uploaded 2 files, 1.5 MB"
    assert second[0] == "already there: 2 files, 1.5 MB"
    assert first[1].startswith(f"code_uri: gs://{storage.bucket}/team/code/flows-")
    assert second[1:] == first[1:]


def test_json_is_one_object(tree: Path, storage: Any, capsys: pytest.CaptureFixture[str]) -> None:
    app(["stage-code", str(tree), "--bucket", storage.bucket, "--name", "n", "--json"])
    result = json.loads(capsys.readouterr().out)

    assert result["code_uri"] == f"gs://{storage.bucket}/code/n-{result['code_sha256'][:16]}.zip"
    assert result["code_uploaded"] is True


def test_an_error_is_short_and_the_only_output(tree: Path, storage: Any) -> None:
    """What was wrong, what to do, exit code 1; no traceback."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from prefect_vertex.cli import main; main()"),
            *("stage-code", str(tree), "--bucket", "absent-bucket"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    what, remedy = done.stderr.splitlines()

    assert (done.returncode, done.stdout) == (1, "")
    assert what.startswith("prefect-vertex: Cannot upload gs://absent-bucket/code/flows-")
    assert "Create it" in remedy
