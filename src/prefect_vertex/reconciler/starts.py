"""Starts: what the replicas' bootstraps have said of an attempt, as claims on its flow run.

The keys are those of `delivery.bootstrap`, in `claims` and `gang`.
"""

from __future__ import annotations

from prefect_vertex.lifecycle.diagnosis import is_incomplete
from prefect_vertex.lifecycle.run import START_CLAIM
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.runs.port import FlowRuns


async def has_started(runs: FlowRuns, run_id: str, attempt: int) -> bool:
    """Whether any replica of an attempt has ever begun, however many it has.

    A replica that Vertex AI may start again claims no start, but none of several begins before all
    are there.
    """
    if await runs.has_claim(run_id, f"{START_CLAIM}{attempt}-"):
        return True
    return bool(await runs.read_claim(run_id, f"prefect-vertex-gang-a{attempt}"))


async def has_begun(runs: FlowRuns, run_id: str, job: JobSnapshot) -> bool:
    """Whether any replica of a job has begun, also judged by what the job ended with."""
    if await has_started(runs, run_id, job.attempt):
        return True
    if not is_incomplete(job):
        return False
    # Unless a replica had waited for others, that exit status is the user's own.
    return not await runs.has_claim(run_id, f"prefect-vertex-here-a{job.attempt}-")


async def first_to_start(runs: FlowRuns, run_id: str, attempt: int) -> str:
    """What names the job that was the first of an attempt to start; empty while none has."""
    gang = await runs.read_claim(run_id, f"prefect-vertex-gang-a{attempt}")
    return gang or await runs.read_claim(run_id, f"{START_CLAIM}{attempt}-r0")
