"""Many replicas of one flow run: real launchers and engines, no stubs."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from tests.chaos.ledger import Expected

import prefect_vertex
from prefect_vertex.cli.storage import StorageServer

if TYPE_CHECKING:
    from tests.chaos.pool import Pool

pytestmark = pytest.mark.long
REPLICAS = 32
BUCKET = "chaos-bucket"
# A replica computes for several seconds before its flow begins, and all of them share this machine.
PATIENCE = 1200.0

FLOW = """
    import json, os, time
    from prefect import flow
    from prefect_vertex import replica

    @flow
    def main():
        me = replica.current()
        line = {"run": os.environ["PREFECT_VERTEX_LEADER_RUN_ID"], "rank": me.rank}
        with open(os.environ["CHAOS_NOTES"], "a") as notes:
            notes.write(json.dumps({**line, "at": time.time()}) + "\\n")
        me.barrier("all here")
        parts = me.gather(me.shard(range(100)), "parts")
        if me.is_leader:
            with open(os.environ["CHAOS_PARTS"], "w") as file:
                json.dump(parts, file)
"""


def test_thirty_two_replicas_meet_and_each_does_its_part(wide_pool: Pool, tmp_path: Path) -> None:
    """All meet, every item is somebody's once, and every run in Prefect ends Completed."""
    (tmp_path / "flow.py").write_text(textwrap.dedent(FLOW), encoding="utf-8")
    step = {"prefect.deployments.steps.set_working_directory": {"directory": str(tmp_path)}}
    deployment = wide_pool.deploy("many", entrypoint="flow.py:main", pull_steps=[step])
    wide_pool.worker().wait_ready()
    with StorageServer() as storage:
        storage.create_bucket(BUCKET)
        env = {
            "CHAOS_NOTES": str(wide_pool.site.notes),
            "CHAOS_PARTS": str(tmp_path / "parts.json"),
            # No proxy in between, and no logs that nobody reads.
            "PREFECT_API_URL": wide_pool.site.server.api_url,
            "PREFECT_LOGGING_TO_API_ENABLED": "false",
            "PREFECT_VERTEX_STAGING": f"gs://{BUCKET}",
            # As an image has it: the package under test, wherever it was imported from.
            "PYTHONPATH": str(Path(prefect_vertex.__file__).parents[1]),
            "STORAGE_EMULATOR_HOST": storage.address,
        }
        begun = time.time()
        run = wide_pool.start(
            deployment=deployment,
            expected=Expected(ran=(REPLICAS,)),
            worker_count=REPLICAS,
            command=f"{sys.executable} -m prefect flow-run execute",
            env=env,
        )
        wide_pool.settle(PATIENCE)
        ended = time.time()

    notes = [each for each in wide_pool.site.ran() if each["run"] == str(run)]
    assert sorted(each["rank"] for each in notes) == list(range(REPLICAS))
    parts = json.loads((tmp_path / "parts.json").read_text(encoding="utf-8"))
    assert len(parts) == REPLICAS
    assert [item for part in parts for item in part] == list(range(100))
    parent = FlowRunFilterParentFlowRunId(any_=[run])
    found = wide_pool.site.client.read_flow_runs(
        flow_run_filter=FlowRunFilter(parent_flow_run_id=parent)
    )
    assert [each.state_name for each in found] == ["Completed"] * (REPLICAS - 1)
    moments = sorted(each["at"] for each in notes)
    wide_pool.site.ledger.seconds |= {
        f"{REPLICAS} replicas until the first ran user code": moments[0] - begun,
        f"{REPLICAS} replicas until the last did": moments[-1] - begun,
        f"{REPLICAS} replicas until the run had ended": ended - begun,
    }
