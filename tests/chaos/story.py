"""What happened to one run, for a person who has to find out why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from tests.chaos.site import Site

LAST_LINES = 15


def story_of(run: UUID, site: Site, jobs: Sequence[dict[str, Any]]) -> list[str]:
    """The run's states, labels and calls, its jobs, and the last words of replicas that failed."""
    states = sorted(site.history(run), key=lambda state: state.timestamp)
    found = site.read([run]).get(run)
    return [
        f"--- {run}",
        *(
            f"{state.timestamp:%H:%M:%S.%f} {state.type.value}/{state.name} {state.message or ''}"
            for state in states
        ),
        f"labels {found.labels if found else None}",
        *(line for job in jobs for line in _job_story(site, job)),
        *(
            f"{time.strftime('%H:%M:%S', time.localtime(at))}.{int(at % 1 * 1000):03} "
            f"{api} {who} {kind}"
            for at, api, who, kind, about in site.proxies.call("calls")
            if about == str(run)
        ),
    ]


def _job_story(site: Site, job: dict[str, Any]) -> list[str]:
    lines = [f"job {job['job_id']} {job['state']} {job['labels'].get('prefect-vertex_attempt')}"]
    if job["deleted"]:
        return lines
    failed = {start["replica"]: start["status"] for start in job["starts"] if start["status"]}
    for replica, status in sorted(failed.items()):
        lines.append(f"  {replica} ended with {status}:")
        output = site.cloud.control.call("output", name=job["name"], replica=replica)
        written = (output["stdout"] + output["stderr"]).splitlines()
        lines += [f"    {line}" for line in written[-LAST_LINES:]]
    return lines
