"""Resource names: projects by number, locations, and the ids of jobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prefect_vertex.emulator.api_error import ApiError, invalid_argument

_PARENT: Final = re.compile(r"projects/([^/]+)/locations/([^/]+)")
_JOB: Final = re.compile(r"projects/([^/]+)/locations/([^/]+)/customJobs/([^/]+)")
# CustomJobs are regional: no wildcard, no `global`, no multi-region.
_REGION: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where jobs live: a project's number and a location."""

    project_number: str
    location: str

    def __str__(self) -> str:
        return f"projects/{self.project_number}/locations/{self.location}"


@dataclass(frozen=True, slots=True)
class JobName:
    """The name of one CustomJob."""

    place: Place
    job_id: str

    def __str__(self) -> str:
        return f"{self.place}/customJobs/{self.job_id}"


def project_number(project: str, known: Mapping[str, str]) -> str:
    """The number of a project: what it is, what `known` says, or twelve digits made from the id."""
    if project.isdecimal():
        return project
    if project in known:
        return known[project]
    digest = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8])
    return str(10**11 + digest % (9 * 10**11))


def parse_parent(parent: str, known: Mapping[str, str]) -> Place:
    """Read `projects/*/locations/*`.

    Raises:
        ApiError: INVALID_ARGUMENT; the wording is inferred.
    """
    match = _PARENT.fullmatch(parent)
    if match is None:
        raise invalid_argument(f'Invalid parent "{parent}": projects/*/locations/* is needed.')
    return _place(match.group(1), match.group(2), known)


def parse_job_name(name: str, known: Mapping[str, str]) -> JobName:
    """Read `projects/*/locations/*/customJobs/*`.

    Raises:
        ApiError: INVALID_ARGUMENT; the wording is inferred.
    """
    match = _JOB.fullmatch(name)
    if match is None:
        raise _invalid_name(name)
    return JobName(_place(match.group(1), match.group(2), known), match.group(3))


def _place(project: str, location: str, known: Mapping[str, str]) -> Place:
    if not _REGION.fullmatch(location):
        raise invalid_argument(f'Invalid location ID "{location}": a region is needed.')
    return Place(project_number(project, known), location)


def _invalid_name(name: str) -> ApiError:
    return invalid_argument(
        f'Invalid name "{name}": projects/*/locations/*/customJobs/* is needed.'
    )
