"""A process that submits a flow is seen to live for as long as it does, on a real server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Site = Any


UPLOAD = """
    # What stands for Python on this side waits for the test, and fails then.
    Path("slow").write_text('#!/bin/sh\\nwhile [ ! -e "$GO" ]; do sleep 0.1; done\\nexit 1\\n')
    Path("slow").chmod(0o755)
    launcher = {"upload": [str(Path("slow").resolve())], "execution": [sys.executable]}
    told(bound(plain, launcher=launcher).submit)
"""
BUNDLING = """
    import prefect.bundles

    make = prefect.bundles.create_bundle_for_flow_run

    def slowly(**options):
        while not Path(os.environ["GO"]).exists():
            time.sleep(0.1)
        return make(**options)

    prefect.bundles.create_bundle_for_flow_run = slowly
    told(bound(plain).submit)
"""


@pytest.mark.parametrize(
    ("script", "end"),
    [
        pytest.param(UPLOAD, "DeliveryError", id="upload"),
        pytest.param(BUNDLING, "future", id="a bundling that blocks the event loop"),
    ],
)
def test_the_submitter_sends_heartbeats_while_its_code_is_stored(
    site: Site, tmp_path: Path, script: str, end: str
) -> None:
    """Else Prefect calls it offline, and a worker takes its run for abandoned."""
    pool = site.pool()
    go = tmp_path / "go"

    def last() -> Any:
        (worker,) = site.client.read_workers_for_work_pool(pool)
        return worker.last_heartbeat_time

    env = {"PREFECT_WORKER_HEARTBEAT_SECONDS": "1", "GO": str(go)}
    with site.start(pool, script, **env) as process:
        try:
            site.until(lambda: site.runs(pool))
            for _ in range(3):
                before = last()
                site.until(lambda before=before: last() != before)
            go.touch()
            out, errors = process.communicate(timeout=90)
        finally:
            go.touch()
            process.kill()

    assert out.startswith(end), errors
