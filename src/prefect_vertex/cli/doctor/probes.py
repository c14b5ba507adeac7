"""Probes: which questions a site asks for, and asking them all at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

import anyio

from prefect_vertex.cli.doctor.asking import SECONDS, Asking
from prefect_vertex.cli.doctor.finding import Finding, unchecked
from prefect_vertex.cli.doctor.place import Place
from prefect_vertex.cli.doctor.project_probes import (
    ask_act_as,
    ask_address,
    ask_api,
    ask_location,
    ask_log_writer,
    ask_permissions,
)
from prefect_vertex.cli.doctor.resource_probes import (
    ask_bucket,
    ask_image,
    ask_quotas,
    ask_secret,
)
from prefect_vertex.cli.doctor.site import Site
from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.planning.addresses import told
from prefect_vertex.planning.spec import Target

SKIPPED = "Skipped: the credentials to ask with could not be loaded."

Check = tuple[str, Callable[[], Awaitable[Sequence[Finding]]]]
"""What it is called, and what asks."""


def checks_of(
    asking: Asking, site: Site, targets: Sequence[Target], others: Mapping[str, str]
) -> Iterator[Check]:
    """Every check, in the order of the report; what its credentials cannot ask is skipped, by name.

    Args:
        asking: With the credentials loaded.
        site: What is checked.
        targets: Where the pool's jobs may be, the candidates' own places included.
        others: Permissions that are good to have, with what goes without them.
    """
    for place in _each(site.places, lambda each: (each.api_url, each.has_network)):
        yield "PREFECT_API_URL in the job", partial(ask_address, asking, place)
    pool_id = str(site.subject.work_pool.id)
    for target in targets:
        if target.credentials_key in asking.callers:
            name = f"Vertex AI in {target.location}"
            yield name, partial(ask_location, asking, target, pool_id)
    known = [each for each in site.places if each.target.credentials_key in asking.callers]
    yield from _of_projects(asking, known, others)
    yield from _of_resources(asking, known)
    plans = [each for each in site.plans if each.candidate.credentials_key in asking.callers]
    if plans:
        yield "quotas", partial(ask_quotas, asking, plans)
    for name in dict.fromkeys(_unasked(asking, site, targets, others)):
        yield name, partial(_skip, name)


def _unasked(
    asking: Asking, site: Site, targets: Sequence[Target], others: Mapping[str, str]
) -> Iterator[str]:
    """Names of the checks that nobody can make, as the credentials of their places are missing."""
    for target in targets:
        if target.credentials_key not in asking.callers:
            yield f"Vertex AI in {target.location}"
    places = [each for each in site.places if each.target.credentials_key not in asking.callers]
    yield from (name for name, _ in _of_projects(asking, places, others))
    yield from (name for name, _ in _of_resources(asking, places))
    if places:
        yield "quotas"


async def _skip(name: str) -> Sequence[Finding]:
    return [unchecked(name, SKIPPED)]


def _of_projects(
    asking: Asking, places: Sequence[Place], others: Mapping[str, str]
) -> Iterator[Check]:
    for place in _each(places, lambda each: each.target.project):
        project = place.target.project
        yield f"API in {project}", partial(ask_api, asking, place)
        yield f"roles in {project}", partial(ask_permissions, asking, place, others)
    for place in _each(places, lambda each: (each.target.project, each.service_account)):
        yield "act-as", partial(ask_act_as, asking, place)
        yield "job's log", partial(ask_log_writer, asking, place)


def _of_resources(asking: Asking, places: Sequence[Place]) -> Iterator[Check]:
    for uri, place in _named(places, lambda each: each.images):
        yield "image", partial(ask_image, asking, uri, place)
    for bucket, place in _named(places, lambda each: each.buckets):
        yield f"bucket {bucket}", partial(ask_bucket, asking, bucket, place, places)
    for place in _each(places, lambda each: (each.secret, each.service_account)):
        if place.secret:
            yield "API key's secret", partial(ask_secret, asking, place)


async def run_checks(checks: Sequence[Check]) -> list[Finding]:
    """Run checks at the same time, each for a limited one; what they found, in their order."""
    found: dict[int, Sequence[Finding]] = {}

    async def one(index: int, check: Check) -> None:
        name, probe = check
        found[index] = [unchecked(name, f"There was no answer within {SECONDS:.0f} s.")]
        with anyio.move_on_after(SECONDS):
            try:
                found[index] = await probe()
            except PrefectVertexError as error:
                found[index] = [unchecked(name, str(error))]
            except Exception as error:  # noqa: BLE001 - one check's fault must not cost the others
                found[index] = [unchecked(name, f"{type(error).__name__}: {told(error)}")]

    async with anyio.create_task_group() as group:
        for index, check in enumerate(checks):
            group.start_soon(one, index, check)
    return [finding for index in range(len(checks)) for finding in found[index]]


def _each(places: Sequence[Place], same: Callable[[Place], object]) -> list[Place]:
    """The first place of each kind."""
    found: dict[object, Place] = {}
    for each in places:
        found.setdefault(same(each), each)
    return list(found.values())


def _named(
    places: Sequence[Place], names: Callable[[Place], Sequence[str]]
) -> list[tuple[str, Place]]:
    """Each name once, with the first place that has it."""
    found: dict[str, Place] = {}
    for each in places:
        for name in names(each):
            found.setdefault(name, each)
    return list(found.items())
