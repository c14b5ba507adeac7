"""Where a bucket is, beside where the jobs run that use it."""

from __future__ import annotations

from collections.abc import Sequence

from prefect_vertex.cli.doctor.finding import Finding, ok, unchecked, warning
from prefect_vertex.vertex.rest import RestAnswer

_CONTINENT = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
# https://cloud.google.com/storage/docs/locations#predefined, read 2026-11.
_PREDEFINED = {
    "NAM4": ("us-central1", "us-east1"),
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
}
"""The regions of each dual-region that has a name of its own."""
_OUTSIDE = ("europe-west2", "europe-west6")
"""London and Zurich: the multi-region EU keeps nothing there (same page, #location-mr)."""


def about_bucket_place(
    check: str, name: str, found: RestAnswer, locations: Sequence[str]
) -> Finding:
    """Whether a bucket is near to all its jobs.

    Args:
        check: Its name.
        name: The bucket.
        found: Its metadata.
        locations: Where jobs that use it run.
    """
    where = str(found.body.get("location", "")).lower()
    regions = _regions_of(found, where)
    if found.body.get("locationType") == "dual-region" and not regions:
        return unchecked(check, f"In {where}, a dual-region whose two regions are not known here.")
    prefix = _CONTINENT.get(where.upper()) if not regions else None
    near = regions or (where,)
    far = [
        each
        for each in locations
        if each.lower() not in near
        and not (prefix and each.startswith(prefix) and each not in _OUTSIDE)
    ]
    shown = " and ".join(near)
    if not where or not far:
        return ok(check, f"In {shown or 'an unnamed location'}, where its jobs run.")
    return warning(
        check,
        f"In {shown}, but jobs run in {', '.join(far)}: what they read and write crosses "
        "regions, which costs time and money. {region} may stand in staging_bucket.",
        f"gcloud storage buckets create gs://{name}-{far[0]} --location {far[0]}",
    )


def _regions_of(found: RestAnswer, where: str) -> tuple[str, ...]:
    """The two regions of a dual-region, as far as they are known; none of any other location."""
    placement = found.body.get("customPlacementConfig")
    parts = placement.get("dataLocations", ()) if isinstance(placement, dict) else ()
    return tuple(str(each).lower() for each in parts) or _PREDEFINED.get(where.upper(), ())
