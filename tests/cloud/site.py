"""Where the smoke runs, and at what pace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.spec import Target

SWITCH = "PREFECT_VERTEX_CLOUD_TESTS"
_PREFIX = "PREFECT_VERTEX_CLOUD_"
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")
_SCARCE = re.compile(r"[^:\s]+:[^:\s]+:[1-9]\d*")
_NEEDED = ("PROJECT", "LOCATION", "BUCKET", "SERVICE_ACCOUNT")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A project that somebody lends.

    Attributes:
        bucket: In the same location; the service account may write to it.
        service_account: What the jobs run as, but for one.
        image: Anything with a `python3` of 3.9 or newer that Vertex AI can pull.
        scarce: `machine type:accelerator type:count` of which there are none, to see a stockout;
            empty: not tried.
        persistent_resource: The id of one that runs and has one replica, to see it busy; empty:
            not tried.
        keep: Whether jobs and notes stay, for a look by hand.
    """

    project: str
    location: str
    bucket: str
    service_account: str
    image: str = "python:3.12-slim"
    scarce: str = ""
    persistent_resource: str = ""
    keep: bool = False

    @property
    def target(self) -> Target:
        """Where its jobs live."""
        return Target(self.project, self.location)


def site_of(environ: Mapping[str, str]) -> Site:
    """The site that the environment names, each attribute by PREFECT_VERTEX_CLOUD_ and its name.

    Raises:
        SetupError: It names none, not all of it, or something wrong.
    """
    missing = [_PREFIX + name for name in _NEEDED if not environ.get(_PREFIX + name)]
    if missing:
        raise SetupError(f"The smoke needs {', '.join(missing)}.", hint="See docs/cloud-smoke.md.")
    given = {
        name.lower(): environ[_PREFIX + name]
        for name in (*_NEEDED, "IMAGE", "SCARCE", "PERSISTENT_RESOURCE")
        if environ.get(_PREFIX + name)
    }
    given["bucket"] = given["bucket"].removeprefix("gs://").rstrip("/")
    if not given["bucket"] or "/" in given["bucket"]:
        raise SetupError(f"{_PREFIX}BUCKET is not a bucket's name: {environ[f'{_PREFIX}BUCKET']}.")
    scarce = given.get("scarce")
    if scarce is not None and _SCARCE.fullmatch(scarce) is None:
        raise SetupError(
            f"{_PREFIX}SCARCE is {scarce!r}, which names no machine with accelerators.",
            hint="Set it to MACHINE_TYPE:ACCELERATOR_TYPE:COUNT.",
        )
    return Site(**given, keep=_switch(environ, f"{_PREFIX}KEEP"))


def _switch(environ: Mapping[str, str], name: str) -> bool:
    word = environ.get(name, "").strip().lower()
    if word not in {*_YES, *_NO}:
        raise SetupError(
            f"{name} is {word!r}, neither yes nor no.",
            hint="Set it to true, yes or 1; or leave it out.",
        )
    return word in _YES


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long what may take, in seconds.

    Attributes:
        total: All probes together; what is not known by then stays untold.
        begin: From a create to the container's first note.
        end: From what ends a job to its end.
        error: From an end to the `error` of it.
        scarce: For a stockout to show.
        look: Between two looks at a job.
        beat: Between two notes of a container.
        timeout: The maximum run time of the job that is to exceed it.
        flex_wait: How long the Flex Start job may wait for machines.
        log: For a line to be readable in Cloud Logging.
        tail: How long a session of live tail is watched for its refusal.
    """

    total: float = 1620
    begin: float = 900
    end: float = 420
    error: float = 150
    scarce: float = 1500
    look: float = 5
    beat: float = 1
    timeout: float = 120
    flex_wait: float = 60
    log: float = 120
    tail: float = 10


CLOUD = Pace()
EMULATED = Pace(
    total=90,
    begin=40,
    end=40,
    error=20,
    scarce=40,
    look=0.05,
    beat=0.1,
    timeout=1,
    flex_wait=1,
    log=20,
    tail=20,
)
