"""Where a person can look at a job in Google Cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefect_vertex.planning.naming import ResourceName

_CONSOLE = "https://console.cloud.google.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLinks:
    """One job's pages; under an emulator there are none.

    Attributes:
        console: The job (URL form of the google-cloud-aiplatform SDK 2.7.0).
        logs: Its log lines (form seen in public reports, 2026-11).
    """

    console: str
    logs: str


def job_links(name: ResourceName, project: str) -> JobLinks:
    """The pages of a job.

    Args:
        name: The job's.
        project: The project's id or number; the console takes either.
    """
    query = f"resource.labels.job_id%3D%22{name.job_id}%22"
    job = f"locations/{name.location}/training/{name.job_id}"
    return JobLinks(
        console=f"{_CONSOLE}/agent-platform/{job}?project={project}",
        logs=f"{_CONSOLE}/logs/query;query={query}?project={project}",
    )


def shell_links(web_access_uris: Mapping[str, str]) -> dict[str, str]:
    """Addresses of interactive shells by replica, in the replicas' order.

    Args:
        web_access_uris: As the job has them with `enable_web_access`, most often without a scheme.
    """
    return {
        replica: uri if "://" in uri else f"https://{uri}"
        for replica, uri in sorted(web_access_uris.items(), key=lambda each: _order(each[0]))
        if uri
    }


def _order(replica: str) -> tuple[tuple[int, int | str], ...]:
    """Such that workerpool1-2 comes before workerpool1-10."""
    parts = replica.replace("workerpool", "").split("-")
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts)
