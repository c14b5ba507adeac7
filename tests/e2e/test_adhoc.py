"""Ad-hoc runs, from the process that submits them to the container that runs their bundle."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from google.cloud.aiplatform_v1 import JobState
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.objects import FlowRun

import prefect_vertex
from prefect_vertex.bundles.__main__ import storage_configuration
from prefect_vertex.cli.local import PROJECT

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Installation = Any

BUCKET = "e2e-bucket"
KEY = "pnu_a_key_of_the_submitter"
PACKAGE = str(Path(prefect_vertex.__file__).parents[1])
SCRIPT = """
    import asyncio, os, sys
    from pathlib import Path

    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.exceptions import MissingResult
    from prefect_vertex import vertex_job
    from prefect_vertex.errors import PrefectVertexError

    # The emulator has no images: the job's Python is this one, and finds the package there.
    HERE = {"env": {"PYTHONPATH": os.environ["PYTHONPATH"]}}

    @vertex_job("adhoc", include_files=["data/*.txt"], launcher=[sys.executable], **HERE)
    @flow(log_prints=True)
    def main(months: int) -> None:
        print(f"read {Path('data/a.txt').read_text()}, {months} months")

    @vertex_job("adhoc", launcher={"upload": [sys.executable], "execution": ["no-such-python"]})
    @flow
    async def broken() -> None: ...

    def at(pool: str, **variables: object) -> None:
        flow_of_pool = vertex_job(pool, launcher=[sys.executable], **variables)(plain)
        try:
            flow_of_pool.submit()
        except PrefectVertexError as error:
            print(pool, "raised", error)
        else:
            print(pool, "returned")

    @flow
    def plain() -> None: ...

    async def retry(run_id: str) -> None:
        async with get_client() as client:
            run = await client.read_flow_run(run_id)
        try:
            await main.retry(run)
        except MissingResult:
            pass  # nobody has said where results are to be kept
        print(run_id)

    if __name__ == "__main__":
        how, *rest = sys.argv[1:]
        if how == "submit":
            print(main.submit(months=12).flow_run_id)
        if how == "pool":
            print(main.submit_to_work_pool(months=6).flow_run_id)
        if how == "wrong":
            at("adhoc-nowhere")
            at("adhoc-value", region=7)
            at("adhoc-several")
            at("adhoc-machine", machine_type="n1-standard-4", accelerator_type="NVIDIA_L4")
        if how == "retry":
            asyncio.run(retry(*rest))
        if how == "call":
            state = asyncio.run(broken(return_state=True))
            print(state.state_details.flow_run_id, state.name)
"""


@pytest.fixture(scope="module")
def script(installation: Installation) -> Callable[..., list[str]]:
    """Run the script in a process of its own, on a pool with a worker; the lines that it prints."""
    _store_bundles(installation, installation.pool("adhoc"), f"gs://{BUCKET}/adhoc")
    installation.worker("adhoc")
    folder = installation.home / "adhoc"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.txt").write_text("a file")
    (folder / "flows.py").write_text(textwrap.dedent(SCRIPT))

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "flows.py", *arguments],
            cwd=folder,
            env={**installation.stack.env, "PYTHONPATH": PACKAGE, "PREFECT_API_KEY": KEY},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def _store_bundles(installation: Installation, pool: str, bucket: str) -> None:
    """As `python -m prefect_vertex.bundles` does."""
    storage = storage_configuration(
        bucket, upload_launcher=["python3"], execution_launcher=["python3"]
    )
    installation.client.update_work_pool(pool, WorkPoolUpdate(storage_configuration=storage))


def _bundle_of(installation: Installation, run: FlowRun) -> dict[str, str]:
    """What lies in the bucket, its parts unpacked."""
    key = str((run.job_variables or {})["command"]).split()[-1]
    stored = json.loads(installation.stack.read_object(BUCKET, f"adhoc/bundles/{key}"))
    return {
        part: repr(gzip.decompress(base64.b64decode(stored[part])))
        for part in ("function", "context")
    }


def test_a_run_outlives_the_process_that_submitted_it(
    installation: Installation, script: Callable[..., list[str]]
) -> None:
    """One job, known to its run; a retry of that run is its second attempt."""
    run_id = script("submit")[-1]
    run = installation.client.read_flow_run(UUID(run_id))
    (job,) = installation.jobs(run)
    assert run.labels["prefect-vertex.attempt"] == "1"
    assert run.labels["prefect-vertex.project"] == PROJECT
    assert run.infrastructure_pid == job.name

    ended = installation.wait(run)

    assert ended.state.name == "Completed"
    installation.logs_with(run, "read a file, 12 months")
    installation.job_that(run, lambda each: each.state == JobState.JOB_STATE_SUCCEEDED)
    bundle = _bundle_of(installation, ended)
    assert KEY not in bundle["function"] + bundle["context"]

    assert script("retry", run_id)[-1] == run_id
    again = installation.client.read_flow_run(UUID(run_id))
    attempts = {each.labels["prefect-vertex_attempt"]: each for each in installation.jobs(run)}

    assert again.state.name == "Completed"
    assert sorted(attempts) == ["1", "2"]
    assert again.infrastructure_pid == attempts["2"].name
    names = [state.name for state in installation.client.read_flow_run_states(run.id)]
    assert names.count("Completed") == 2


def test_a_run_may_leave_even_its_create_to_the_pool(
    installation: Installation, script: Callable[..., list[str]]
) -> None:
    run_id = script("pool")[-1]
    run = installation.wait(installation.client.read_flow_run(UUID(run_id)))

    assert run.state.name == "Completed"
    assert len(installation.jobs(run)) == 1
    installation.logs_with(run, "read a file, 6 months")


def test_who_calls_a_flow_hears_from_a_worker_that_its_job_failed(
    installation: Installation, script: Callable[..., list[str]]
) -> None:
    """The submitting process watches nothing; the job fails before the flow could begin."""
    run_id, state = script("call")[-1].split()
    run = installation.client.read_flow_run(UUID(run_id))

    assert state == "Crashed"
    assert "exited with status 127" in run.state.message
    assert "cannot run no-such-python" in run.state.message


def test_what_cannot_lead_to_a_job_leaves_no_run_pending(
    installation: Installation, script: Callable[..., list[str]]
) -> None:
    """No worker and no job could end it; each says why, to the caller where it is told in time."""
    installation.pool("adhoc-several", worker_count=2)
    for name in ("adhoc-nowhere", "adhoc-value", "adhoc-machine"):
        installation.pool(name)
    for name in ("adhoc-nowhere", "adhoc-value", "adhoc-machine", "adhoc-several"):
        bucket = "no-such-bucket" if name == "adhoc-nowhere" else BUCKET
        _store_bundles(installation, name, bucket)

    told = {line.partition(" ")[0]: line for line in script("wrong")}

    ends = {}
    for name in told:
        in_pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[name]))
        (run,) = installation.client.read_flow_runs(work_pool_filter=in_pool)
        assert installation.jobs(run) == []
        ends[name] = (run.state.name, run.state.message)
    assert {state for state, _ in ends.values()} == {"Crashed"}
    assert "there is no bucket no-such-bucket" in ends["adhoc-nowhere"][1]
    assert told["adhoc-nowhere"] == f"adhoc-nowhere raised {ends['adhoc-nowhere'][1]}"
    assert ends["adhoc-value"][1] == "region is 7, expected a valid string."
    assert told["adhoc-value"] == f"adhoc-value raised {ends['adhoc-value'][1]}"
    assert "an ad-hoc run has one replica" in ends["adhoc-several"][1]
    assert "NVIDIA_L4" in ends["adhoc-machine"][1]
    assert told["adhoc-machine"].endswith(
        f"is Crashed, its flow has not begun: {ends['adhoc-machine'][1]}"
    )
