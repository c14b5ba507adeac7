"""The flow itself, in a process of its own, as on a laptop."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import prefect_vertex

_RUN = """
if __name__ == "__main__":
    import sys
    from forecast import forecast
    forecast(series=2, models=["Seasonal naive", "Theta"], output_dir=sys.argv[1])
"""


@pytest.mark.e2e
def test_the_folder_alone_runs_as_a_flow_and_leaves_table_forecasts_and_picture(
    example: Path, tmp_path: Path
) -> None:
    """A copy of the folder, and no Prefect server."""
    code = shutil.copytree(example, tmp_path / "code", ignore=shutil.ignore_patterns("output"))
    (code / "run.py").write_text(_RUN)
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": str(Path(prefect_vertex.__file__).parents[1]),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "60",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    done = subprocess.run(
        [sys.executable, "run.py", str(tmp_path / "out")],
        cwd=code,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "forecast 4 of 4 series and models" in done.stderr
    assert "Warning" not in done.stderr

    summary = json.loads((tmp_path / "out" / "accuracy.json").read_text())
    assert summary["series"] == 2
    assert [row["model"] for row in summary["accuracy"]] == [
        "Seasonal naive",
        "Theta",
        "Best on backtest",
    ]
    assert len(pd.read_parquet(tmp_path / "out" / "forecasts.parquet")) == 2 * 2 * 24
    assert (tmp_path / "out" / "forecasts.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "parts" / "0-of-1.parquet").is_file()
