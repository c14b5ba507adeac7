"""Home: the places that a work pool itself names for its jobs."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.objects import WorkPool

from prefect_vertex.errors import PrefectVertexError, ServiceError
from prefect_vertex.planning.spec import Target
from prefect_vertex.template import VertexJobConfiguration
from prefect_vertex.vertex.gateways import Gateways

logger = logging.getLogger(__name__)

_PLACE = re.compile(r"^projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)$")


class Home:
    """Where the jobs of a pool's template and deployments go.

    Args:
        client: Reads the deployments; entered.
        gateways: Tell a project by its credentials.
        extra_locations: Places from the settings.
    """

    def __init__(
        self, client: PrefectClient, gateways: Gateways, extra_locations: Sequence[str]
    ) -> None:
        self._client = client
        self._gateways = gateways
        self._extra_locations = extra_locations
        self._said: set[str] = set()
        self.targets: frozenset[Target] = frozenset()
        self.unlearned: tuple[ServiceError, ...] = ()
        """Why not all of it is known, such as that there are no credentials."""

    async def learn(self, work_pool: WorkPool) -> None:
        """Read where the pool's jobs may be: its template, its deployments, the setting."""
        places: set[Target] = set()
        unlearned: dict[str, ServiceError] = {}
        for variables in [{}, *await self._deployment_variables(work_pool)]:
            try:
                places |= await self._places_of(work_pool, variables, unlearned)
            except ServiceError as error:
                # No run is to blame: every one would fail of it.
                self._say(f"Cannot tell all places of the pool's jobs. {error}", logging.WARNING)
            except PrefectVertexError as error:
                # A pool without a region, a deployment with a mistake: its own runs will say so.
                self._say(f"The pool's own places: {error}", logging.INFO)
        places |= set(self._extra(places))
        self.targets = frozenset(places)
        self.unlearned = tuple(unlearned.values())

    async def _deployment_variables(self, work_pool: WorkPool) -> list[dict[str, object]]:
        """Distinct job variables that say where a deployment's jobs go."""
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[work_pool.name]))
        found: list[dict[str, object]] = []
        offset, limit = 0, 200
        while True:
            page = await self._client.read_deployments(
                work_pool_filter=pool,
                limit=limit,
                offset=offset,
            )
            for deployment in page:
                variables = _about_places(deployment.job_variables or {})
                if variables and variables not in found:
                    found.append(variables)
            if len(page) < limit:
                return found
            offset += limit

    async def _places_of(
        self,
        work_pool: WorkPool,
        variables: dict[str, object],
        unlearned: dict[str, ServiceError],
    ) -> set[Target]:
        """Where jobs with these variables go; what failed for a key is not asked for again."""
        configuration = await VertexJobConfiguration.from_template_and_values(
            base_job_template=work_pool.base_job_template,
            values=dict(variables),
            client=self._client,
        )
        places: set[Target] = set()
        for one in configuration.rendered:
            values = one.credential_values()
            project = one.project
            if not project:
                if values.key in unlearned:
                    raise unlearned[values.key]
                try:
                    project = (await self._gateways.identity(values)).project
                except ServiceError as error:
                    unlearned[values.key] = error
                    raise
            if one.region and project:
                places.add(Target(project, one.region, self._gateways.register(values)))
        return places

    def _extra(self, places: set[Target]) -> list[Target]:
        extra: list[Target] = []
        for text in self._extra_locations:
            match = _PLACE.match(text)
            if match:
                usual = min((place.credentials_key for place in places), default="")
                extra.append(Target(match["project"], match["location"], usual))
            else:
                extra += [Target(place.project, text, place.credentials_key) for place in places]
        return extra

    def _say(self, text: str, level: int) -> None:
        if text not in self._said:
            self._said.add(text)
            logger.log(level, "%s", text)


_PLACE_VARIABLES = ("region", "project", "credentials")


def _about_places(variables: Mapping[str, Any]) -> dict[str, object]:
    """Those that say where jobs go: a mistake in another one must not hide the jobs there are."""
    found: dict[str, object] = {
        key: variables[key] for key in (*_PLACE_VARIABLES, "regions") if variables.get(key)
    }
    entries = variables.get("candidates")
    if entries:
        found["candidates"] = (
            [
                {key: entry[key] for key in _PLACE_VARIABLES if key in entry}
                if isinstance(entry, Mapping)
                else entry
                for entry in entries
            ]
            if isinstance(entries, list)
            else entries
        )
    return found
