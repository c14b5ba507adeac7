"""Names and labels that Google Cloud accepts, and the identity that they carry.

Label rules (CustomJob.labels, google.cloud.aiplatform_v1 2.7.0, read 2026-11): at most 64; keys and
values at most 63 characters here; lower case letters, digits, `_`, `-`; a key begins with a letter.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from prefect_vertex.errors import NamingError
from prefect_vertex.planning.spelling import closest, shown

MAX_LABELS = 64
MAX_LABEL_LENGTH = 63
MAX_DISPLAY_NAME_LENGTH = 128

FLOW_RUN_LABEL = "prefect-io_flow-run-id"
WORK_POOL_LABEL = "prefect-io_work-pool-id"
ATTEMPT_LABEL = "prefect-vertex_attempt"

_RESOURCE_NAME = re.compile(
    r"^projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/customJobs/(?P<job_id>[^/]+)$",
)


_REGIONS = """
    africa-south1 asia-east1 asia-east2 asia-northeast1 asia-northeast2 asia-northeast3 asia-south1
    asia-south2 asia-southeast1 asia-southeast2 australia-southeast1 australia-southeast2
    europe-central2 europe-north1 europe-north2 europe-southwest1 europe-west1 europe-west2
    europe-west3 europe-west4 europe-west6 europe-west8 europe-west9 europe-west12 me-central1
    me-central2 me-west1 northamerica-northeast1 northamerica-northeast2 southamerica-east1
    southamerica-west1 us-central1 us-east1 us-east4 us-east5 us-east7 us-south1 us-west1 us-west2
    us-west3 us-west4 us-west8
"""
LOCATIONS = frozenset(_REGIONS.split())
"""Regions with a CustomJob service (google-cloud-aiplatform SDK 2.7.0, read 2026-11)."""

# Control characters, lone surrogates, line and paragraph separators.
_BLANKED = frozenset({"Cc", "Cs", "Zl", "Zp"})

_MULTI_REGIONS = frozenset({"global", "us", "eu"})
_LOCATION = re.compile(r"^[a-z][a-z0-9-]*$")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")
_PROJECT = re.compile(r"^[a-z0-9][a-z0-9.:-]*$")


def check_location(location: str) -> tuple[str, ...]:
    """Judge a region.

    Returns:
        A warning if it is not one of those known, which may be only newer than the list.

    Raises:
        NamingError: No CustomJob can run there.
    """
    if location in _MULTI_REGIONS:
        raise NamingError(
            f"region is {location!r}; CustomJobs run in single regions only.",
            variable="region",
            hint="Set region to one such as us-central1 or europe-west4.",
        )
    if not _LOCATION.fullmatch(location):
        raise NamingError(
            f"region is {shown(location)}, which is not the name of a region.",
            variable="region",
            hint=f"The closest is {closest(location, LOCATIONS)}.",
        )
    if location in LOCATIONS:
        return ()
    region = location.rpartition("-")[0]
    if region in LOCATIONS and _ZONE.fullmatch(location):
        raise NamingError(
            f"region is {location}, which is a zone; CustomJobs run in regions.",
            variable="region",
            hint=f"Set region to {region}.",
        )
    near = closest(location, LOCATIONS)
    return (f"region {location} is not one of those known in 2026-11; the closest is {near}.",)


def region_of(location: str) -> str:
    """The region that a zone is in; a region is its own."""
    region = location.rpartition("-")[0]
    return region if region in LOCATIONS or _ZONE.fullmatch(location) else location


def check_project(project: str) -> None:
    """Refuse what cannot be a project's id or number.

    Raises:
        NamingError: It cannot.
    """
    if not _PROJECT.fullmatch(project):
        raise NamingError(
            f"project is {shown(project)}, which is not the id of a Google Cloud project.",
            variable="project",
            hint="Set project to the id alone, such as my-project-123.",
        )


@dataclass(frozen=True, slots=True)
class ResourceName:
    """`projects/{project}/locations/{location}/customJobs/{job_id}`.

    The service answers with the project's number where the id was sent, so two names are the same
    job if location and id agree.
    """

    project: str
    location: str
    job_id: str

    def __str__(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/customJobs/{self.job_id}"

    @property
    def key(self) -> tuple[str, str]:
        """What tells one job from another, whichever way its project is written."""
        return (self.location, self.job_id)


def parse_resource_name(text: str) -> ResourceName:
    """Read a CustomJob's resource name.

    Raises:
        NamingError: It is not one.
    """
    match = _RESOURCE_NAME.match(text)
    if match is None:
        raise NamingError(
            f"{text!r} is not a CustomJob's resource name.",
            hint="It looks like projects/P/locations/L/customJobs/1234.",
        )
    return ResourceName(match["project"], match["location"], match["job_id"])


def display_name(name: str, flow_run_id: str, attempt: int) -> str:
    """`<name>-<flow run id, 8 hex>-a<attempt>`, at most 128 characters; same inputs, same name.

    White space, line breaks and control characters become single blanks: the name stands in lists,
    log lines and filters.
    """
    suffix = f"-{flow_run_id.replace('-', '')[:8]}-a{attempt}"
    head = _one_line(name)[: MAX_DISPLAY_NAME_LENGTH - len(suffix)]
    return (head.rstrip() or "flow-run") + suffix


def _one_line(text: str) -> str:
    blanked = (" " if unicodedata.category(char) in _BLANKED else char for char in text)
    return " ".join("".join(blanked).split())


def _digest(text: str) -> str:
    # Half of a character, which JSON can hold, is no UTF-8.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _legal(text: str, original: str) -> str:
    """Shorten with a digest of the original, so that two long values stay two values."""
    if len(text) <= MAX_LABEL_LENGTH:
        return text
    digest = _digest(original)
    return f"{text[: MAX_LABEL_LENGTH - len(digest) - 1]}-{digest}"


def label_key(key: str) -> str:
    """Make a label key legal: `prefect.io/flow-run-id` → `prefect-io_flow-run-id`."""
    text = re.sub(r"[^a-z0-9_-]", "-", key.lower().replace("/", "_").replace(".", "-"))
    if not text or not text[0].isalpha():
        text = f"k{text}" if text else f"k-{_digest(key)}"
    return _legal(text, key)


def label_value(value: object) -> str:
    """Make a label value legal; the empty string is one."""
    original = "" if value is None else str(value)
    text = re.sub(r"[^a-z0-9_-]", "-", original.lower().replace("/", "_").replace(".", "-"))
    return _legal(text, original)


def legal_labels(
    labels: Mapping[str, object], identity: Mapping[str, object]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Make all labels legal, identity last so that no user label can overwrite it.

    Args:
        labels: The user's own and Prefect's.
        identity: What must survive whatever the user sets.

    Returns:
        The labels, at most 64, and the original keys of those dropped: because there were more, or
        because they are one with a key of the identity.
    """
    ours = {label_key(key): label_value(value) for key, value in identity.items()}
    room = MAX_LABELS - len(ours)
    others: dict[str, str] = {}
    dropped: list[str] = []
    for key, value in labels.items():
        legal = label_key(key)
        if legal in ours or legal in others:
            # Two keys that are one once legal: the first keeps the name, the second a digest.
            if legal in ours:
                dropped.append(key)
                continue
            legal = _legal(f"{legal}-{_digest(key)}", f"{legal}-{_digest(key)}")
        if legal not in ours and legal not in others and len(others) < room:
            others[legal] = label_value(value)
        else:
            dropped.append(key)
    return {**others, **ours}, tuple(dropped)
