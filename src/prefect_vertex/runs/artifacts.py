"""Artifacts of flow runs, each written anew in its place.

The server keeps every artifact that is created, and a run's page shows them all: a table that grows
with each try would stand there as often. So the one of a run and key is changed instead; the
artifact page of a key then shows the runs that have one.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.sorting import ArtifactSort

from prefect_vertex.planning.spelling import storable
from prefect_vertex.runs.asking import StatusError, asking

MAX_REMEMBERED = 1_000
"""Artifacts whose ids are remembered; the others are looked up again."""


@dataclass(frozen=True, slots=True)
class Written:
    """One artifact; its key holds lower case letters, digits and dashes."""

    key: str
    type: Literal["markdown", "table"]
    data: str = field(repr=False)
    description: str


class Artifacts:
    """Writes them through Prefect's own client.

    Args:
        client: Entered.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._ids: dict[tuple[str, str], uuid.UUID] = {}

    async def write(self, run_id: str, what: Written) -> None:
        """Write one in the place of the run's last one of that key; a run that is gone takes none.

        Raises:
            PrefectUnavailableError: The Prefect API failed.
        """
        place = (run_id, what.key)
        known = self._ids.get(place) or await self._find(run_id, what.key)
        if known is not None and await self._update(known, what):
            self._remember(place, known)
            return
        self._ids.pop(place, None)
        artifact = ArtifactCreate(
            key=what.key,
            type=what.type,
            description=storable(what.description),
            data=storable(what.data),
            flow_run_id=uuid.UUID(run_id),
        )
        with suppress(StatusError):  # the run was deleted
            async with asking():
                self._remember(place, (await self._client.create_artifact(artifact)).id)

    async def _find(self, run_id: str, key: str) -> uuid.UUID | None:
        async with asking():
            found = await self._client.read_artifacts(
                artifact_filter=ArtifactFilter(
                    flow_run_id=ArtifactFilterFlowRunId(any_=[uuid.UUID(run_id)]),
                    key=ArtifactFilterKey(any_=[key]),
                ),
                sort=ArtifactSort.CREATED_DESC,
                limit=1,
            )
        return found[0].id if found else None

    async def _update(self, artifact_id: uuid.UUID, what: Written) -> bool:
        """Whether there still was one to write anew."""
        try:
            async with asking():
                await self._client.update_artifact(
                    artifact_id,
                    ArtifactUpdate(
                        data=storable(what.data), description=storable(what.description)
                    ),
                )
        except StatusError:
            return False
        return True

    def _remember(self, place: tuple[str, str], artifact_id: uuid.UUID) -> None:
        while len(self._ids) >= MAX_REMEMBERED:
            del self._ids[next(iter(self._ids))]
        self._ids[place] = artifact_id
