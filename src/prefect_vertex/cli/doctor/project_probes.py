"""Ask about a place itself. Each is one question or a few; none decides anything."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import anyio
import httpx

from prefect_vertex.cli.doctor.about_address import Reach, about_address
from prefect_vertex.cli.doctor.about_project import (
    ACT_AS,
    API,
    JOB_PERMISSIONS,
    about_act_as,
    about_api,
    about_location,
    about_log_writer,
    about_permissions,
)
from prefect_vertex.cli.doctor.asking import Asking
from prefect_vertex.cli.doctor.finding import Finding
from prefect_vertex.cli.doctor.place import Place
from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.rest import UNASKED


async def ask_address(asking: Asking, place: Place) -> list[Finding]:
    """PREFECT_API_URL as a place's job gets it."""
    reach = Reach(url=place.api_url)
    host = reach.host
    addresses: list[str] = []
    answer = ""
    if host:
        with suppress(OSError, UnicodeError):
            found = await anyio.getaddrinfo(host, None)
            addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        answer = await _health(place.api_url)
    reach = Reach(
        url=place.api_url,
        addresses=addresses,
        answer=answer,
        emulated=asking.emulated,
        has_network=place.has_network,
        has_interface=place.has_interface,
        peered_domains=place.peered_domains,
    )
    return [about_address(reach)]


async def ask_location(asking: Asking, target: Target, pool_id: str) -> list[Finding]:
    """The JobService of a location."""
    live: int | PrefectVertexError
    try:
        live = len(await asking.gateways.for_target(target).list_live(pool_id))
    except PrefectVertexError as error:
        live = error
    return [about_location(target, live, asking.callers.get(target.credentials_key))]


async def ask_api(asking: Asking, place: Place) -> list[Finding]:
    """Whether Vertex AI is enabled in a project."""
    project = place.target.project
    path = f"v1/projects/{project}/services/{API}"
    return [about_api(project, await asking.ask("serviceusage", path, place))]


async def ask_permissions(asking: Asking, place: Place, others: Mapping[str, str]) -> list[Finding]:
    """What this machine may do in a project."""
    project = place.target.project
    answer = await asking.ask(
        "cloudresourcemanager",
        f"v3/projects/{project}:testIamPermissions",
        place,
        body={"permissions": [*JOB_PERMISSIONS, *others]},
    )
    return about_permissions(project, answer, asking.caller(place), others=others)


async def ask_act_as(asking: Asking, place: Place) -> list[Finding]:
    """Whether jobs may run as their account."""
    account = place.service_account
    answer = UNASKED
    if account:
        path = f"v1/projects/-/serviceAccounts/{account}:testIamPermissions"
        answer = await asking.ask("iam", path, place, body={"permissions": [ACT_AS]})
    return [about_act_as(account, answer, asking.caller(place))]


async def ask_log_writer(asking: Asking, place: Place) -> list[Finding]:
    """Whether that account may write a log."""
    project = place.target.project
    policies = [await asking.project_policy(project, place)] if place.service_account else []
    return [about_log_writer(project, place.service_account, policies)]


async def _health(url: str) -> str:
    """What is wrong with the API at an address, from here; empty if it answers."""
    try:
        async with httpx.AsyncClient(timeout=5, follow_redirects=True) as client:
            answer = await client.get(f"{url.rstrip('/')}/health")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return f"no answer ({type(error).__name__})."
    return "" if answer.is_success else f"/health answers {answer.status_code}."
