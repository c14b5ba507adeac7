"""What containers run as, what there are no machines for, and what the log gives."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
from google.api_core import exceptions as api_errors
from google.cloud.logging_v2.types import TailLogEntriesRequest
from tests.cloud.about_ends import how_it_ended
from tests.cloud.lab import Lab, NotSeenError, Orders, SmokeJob
from tests.cloud.table import Finding, listed, seconds, untold

from prefect_vertex.errors import QuotaExceededError, RequestRejectedError, ServiceError
from prefect_vertex.vertex.log_query import log_query

AGENT = "the default agent's account and scopes"
CONTAINER = "what the platform makes of a container"
LOG_DELAY = "from a container's line to Cloud Logging"
SHORT = "run time of a job whose container ends at once"
FLEX = "state and error when FLEX_START's wait is over"
STOCKOUT = "stockout with `disable_retries: true`"
SPOT = "whether `disable_retries` stops restarts of a preempted Spot job"
BUSY = "a persistent resource that is busy"
TAIL = "sessions of live tail in a project"
BILLING = "whether provisioning is billed"

FLEX_MACHINE = {
    "machine_type": "g2-standard-4",
    "accelerator_type": "NVIDIA_L4",
    "accelerator_count": 1,
}
TAIL_SESSIONS = 12
_NO_LINES = 'resource.type="none"'
_OURS = ("PATH", "HOME", "LANG", "GPG_KEY", "PYTHON")


async def ask_agent(lab: Lab) -> list[Finding]:
    """A job without a service account, which says what it runs as and ends at once."""
    job = await lab.submit("default-agent", Orders("exit"), service_account="")
    ended = await lab.end(job, lab.pace.begin)
    # By its log: the agent may not be allowed to write to the bucket.
    said, delay = await _first_line(lab, job)
    lasted = "never RUNNING"
    if ended.start_time and ended.end_time:
        lasted = f"{seconds((ended.end_time - ended.start_time).total_seconds())} of RUNNING"
    rows = [
        Finding(SHORT, f"{lasted}; {how_it_ended(job, ended)}"),
        Finding(LOG_DELAY, f"at most {seconds(delay)}"),
        Finding(CONTAINER, _container(said)),
    ]
    if "missing" in said:
        return [
            *rows,
            untold(AGENT, f"the container reached no metadata server: {said['missing']}"),
        ]
    return [*rows, Finding(AGENT, f"{said['email']}: {listed(said['scopes'].split())}")]


async def _first_line(lab: Lab, job: SmokeJob) -> tuple[dict[str, Any], float]:
    """What its container said at its start, and how long after the end it could be read."""
    query, _ = log_query([(job.created.resource_name.job_id, job.created.create_time)])
    begun = time.monotonic()
    while True:
        reading = await lab.gateways.logs.read(lab.site.project, "", query)
        texts = [entry.text.partition("smoke: ")[2] for entry in reading.entries]
        lines = [json.loads(text) for text in texts if text.startswith("{")]
        if lines:
            return lines[0], time.monotonic() - begun
        if time.monotonic() - begun > lab.pace.log:
            raise NotSeenError(f"{job.what}: no line in Cloud Logging in {lab.pace.log:g} s")
        await anyio.sleep(lab.pace.look)


def _container(said: dict[str, Any]) -> str:
    names = [name for name in said["variables"] if not name.startswith(_OURS)]
    memory = said["memory_max"] or "no cgroup limit to read"
    return (
        f"PID {said['pid']}, user {said['uid']}; memory limit {memory}; "
        f"shared memory {said['shared_memory'] // 2**20} MiB; "
        f"/gcs {'there' if said['gcs'] else 'not there'}; variables {listed(names)}"
    )


async def ask_flex(lab: Lab) -> list[Finding]:
    """A GPU job under Flex Start that may wait for a minute only."""
    scheduling = {
        "strategy": "FLEX_START",
        "max_wait_duration": f"{lab.pace.flex_wait:g}s",
        "timeout": "600s",
    }
    try:
        job = await lab.submit(
            "flex-start", Orders("exit"), machine_spec=FLEX_MACHINE, scheduling=scheduling
        )
    except (QuotaExceededError, RequestRejectedError) as error:
        return [untold(FLEX, f"the create was refused: {error}")]
    try:
        ended = await lab.end(job, lab.pace.flex_wait + lab.pace.begin)
    except NotSeenError as error:
        return [untold(FLEX, str(error))]
    if ended.start_time is not None:
        return [untold(FLEX, "there were machines at once; try another day or region")]
    waited = (ended.end_time or ended.observed_at) - ended.create_time
    return [Finding(FLEX, f"after {seconds(waited.total_seconds())}: {how_it_ended(job, ended)}")]


async def ask_stockout(lab: Lab) -> list[Finding]:
    """A machine of which there are none, if one was named."""
    if not lab.site.scarce:
        return [untold(STOCKOUT, "PREFECT_VERTEX_CLOUD_SCARCE names no machine")]
    machine_type, accelerator, count = lab.site.scarce.split(":")
    spec = {
        "machine_type": machine_type,
        "accelerator_type": accelerator,
        "accelerator_count": int(count),
    }
    try:
        job = await lab.submit("scarce", Orders("exit"), machine_spec=spec)
    except (QuotaExceededError, RequestRejectedError) as error:
        return [untold(STOCKOUT, f"the create was refused: {error}")]
    try:
        ended = await lab.end(job, lab.pace.scarce)
    except NotSeenError as error:
        return [untold(STOCKOUT, str(error))]
    if ended.start_time is not None:
        return [untold(STOCKOUT, "there were machines; name another")]
    waited = (ended.end_time or ended.observed_at) - ended.create_time
    return [Finding(STOCKOUT, f"{seconds(waited.total_seconds())}, {how_it_ended(job, ended)}")]


async def ask_busy(lab: Lab) -> list[Finding]:
    """Two jobs on a persistent resource of one replica, if one was named."""
    resource = lab.site.persistent_resource
    if not resource:
        return [untold(BUSY, "PREFECT_VERTEX_CLOUD_PERSISTENT_RESOURCE names none")]
    first = await lab.submit("holds", Orders("beat"), persistent_resource_id=resource)
    await lab.note(first, "ready")
    try:
        second = await lab.submit("waits", Orders("exit"), persistent_resource_id=resource)
    except ServiceError as error:
        await lab.cancel(first)
        return [Finding(BUSY, f"the second create is refused: {error}")]
    try:
        ended = await lab.end(second)
        answer = f"the second job ended: {how_it_ended(second, ended)}"
    except NotSeenError:
        answer = f"the second job waits in {second.last.state}"
    await lab.cancel(first)
    return [Finding(BUSY, answer)]


async def ask_tail(lab: Lab) -> list[Finding]:
    """A dozen sessions of live tail at once: those that are refused end by themselves."""
    logs = lab.gateways.logs
    # Opens the connection in the same way as any query.
    await logs.read(lab.site.project, "", _NO_LINES)
    (known,) = logs._clients.values()
    refusals: list[str] = []
    with anyio.move_on_after(lab.pace.tail):
        async with anyio.create_task_group() as group:
            for _ in range(TAIL_SESSIONS):
                group.start_soon(_tail, known.client, lab.site.project, refusals)
    left = TAIL_SESSIONS - len(refusals)
    if not left:
        return [untold(TAIL, f"all {TAIL_SESSIONS} were refused: {refusals[0]}")]
    others = f"; the others: {refusals[0]}" if refusals else f" in {lab.pace.tail:g} s"
    return [Finding(TAIL, f"{left} of {TAIL_SESSIONS} were not refused{others}")]


async def _tail(client: Any, project: str, refusals: list[str]) -> None:
    request = TailLogEntriesRequest(resource_names=[f"projects/{project}"], filter=_NO_LINES)

    async def requests() -> Any:
        yield request
        await anyio.sleep_forever()

    try:
        async for _ in await client.tail_log_entries(requests()):
            continue
    except api_errors.GoogleAPICallError as error:
        refusals.append(f"{type(error).__name__}: {error.message}")


async def ask_billing(lab: Lab) -> list[Finding]:
    """What only the bill can tell, and what it should say of these jobs; asked last."""
    running = provisioning = 0.0
    for job in lab.jobs:
        seen = job.last
        if seen.start_time is None:
            continue
        provisioning += (seen.start_time - seen.create_time).total_seconds()
        running += ((seen.end_time or seen.observed_at) - seen.start_time).total_seconds()
    why = (
        f"compare the bill by label prefect-vertex_smoke: {running:.0f} s of RUNNING and "
        f"{provisioning:.0f} s before it, counted by job"
    )
    spot = "nobody can order a preemption; run Spot jobs and look at their artifacts"
    return [untold(BILLING, why), untold(SPOT, spot)]
