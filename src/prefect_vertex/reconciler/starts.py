"""Starts: what the replicas' bootstraps have said of an attempt, as claims on its flow run.

The keys are those of `delivery.bootstrap`, in `claims` and `gang`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from prefect_vertex.lifecycle.absence import empty_long_enough, identifier_of
from prefect_vertex.lifecycle.diagnosis import is_incomplete
from prefect_vertex.lifecycle.run import START_CLAIM, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.reconciler.care import Care
from prefect_vertex.runs.port import FlowRuns

_JOB_ID = re.compile(r"\b\d{6,}\b")
"""In a start claim: the id of a CustomJob, which is all digits."""


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


async def name_by_start(runs: FlowRuns, care: Care, view: RunView) -> RunView:
    """Name the job that a run's container named when it started, where nothing else does.

    A run that is under way and names no job, and whose job is not found by its label, would be
    looked for for ever: its job was deleted, and so is what a label could find.

    Returns:
        The run as it is now.
    """
    under_way = view.state in {RunState.RUNNING, RunState.PAUSED}
    if not under_way or identifier_of(view) is not None or care.newest_attempt >= view.attempt:
        return view
    if not empty_long_enough(care.looks, care.policy):
        return view
    found = _JOB_ID.findall(await first_to_start(runs, view.id, view.attempt))
    project, location = view.place
    if not (found and project and location):
        return view
    name = str(ResourceName(project, location, found[-1]))
    await runs.name_infrastructure(view.id, name)
    return replace(view, identifier=name)
