"""Pages: what a flow run's artifacts show, and what of a run only the Prefect API remembers.

An artifact of a run is written anew in its place: the server keeps one for each run and key, and
the artifact page of a key shows the runs that have one.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.sorting import ArtifactSort

from prefect_vertex.chronicle.chronicle import Start, Stay
from prefect_vertex.lifecycle.run import START_CLAIM, RunState, RunView
from prefect_vertex.runs.asking import StatusError, asking
from prefect_vertex.runs.translate import as_aware

MAX_STARTS = 200
"""Claims that are read of one run."""

MAX_REMEMBERED = 1_000
"""Artifacts whose ids are remembered; the others are looked up again."""

_START_KEY = re.compile(rf"{START_CLAIM}(?P<attempt>\d+)-r(?P<rank>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One artifact, in Markdown, pictures included: one of an image prints its address beside it.

    Attributes:
        key: Lower case letters, digits and dashes.
    """

    key: str
    data: str = field(repr=False)
    description: str = ""


class Pages(Protocol):
    """Flow runs, as far as their pages need them.

    Every method raises `PrefectUnavailableError` when the API fails; a run that is gone has
    nothing, and takes nothing.
    """

    async def states(self, run_id: str) -> list[Stay]:
        """Every state that the run was in."""
        ...

    async def starts(self, run_id: str) -> list[Start]:
        """The starts that its replicas have claimed."""
        ...

    async def show(self, run: RunView, page: Page) -> None:
        """Write a page of the run's, in the place of its last one of that key."""
        ...


class PrefectPages:
    """`Pages` through Prefect's own client.

    Args:
        client: Entered.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._ids: dict[tuple[str, str], uuid.UUID] = {}

    async def states(self, run_id: str) -> list[Stay]:
        """Every state that the run was in."""
        try:
            async with asking():
                states = await self._client.read_flow_run_states(uuid.UUID(run_id))
        except StatusError:
            return []
        return [
            Stay(
                state=RunState(state.type.value),
                name=state.name or "",
                entered_at=as_aware(state.timestamp),
            )
            for state in states
        ]

    async def starts(self, run_id: str) -> list[Start]:
        """The starts that its replicas have claimed, by the server's clock."""
        try:
            async with asking():
                claims = await self._client.filter_flow_run_input(
                    uuid.UUID(run_id), START_CLAIM, MAX_STARTS, set()
                )
        except StatusError:
            return []
        found = [(_START_KEY.fullmatch(claim.key), claim.created) for claim in claims]
        return [
            Start(int(match["attempt"]), int(match["rank"]), as_aware(created))
            for match, created in found
            if match is not None and created is not None
        ]

    async def show(self, run: RunView, page: Page) -> None:
        """Write a page in the place of the run's last one of that key."""
        place = (run.id, page.key)
        known = self._ids.get(place) or await self._find(run, page.key)
        if known is not None and await self._update(known, page):
            self._remember(place, known)
            return
        self._ids.pop(place, None)
        artifact = ArtifactCreate(
            key=page.key,
            type="markdown",
            description=page.description,
            data=page.data,
            flow_run_id=uuid.UUID(run.id),
        )
        with suppress(StatusError):  # the run was deleted
            async with asking():
                self._remember(place, (await self._client.create_artifact(artifact)).id)

    async def _find(self, run: RunView, key: str) -> uuid.UUID | None:
        async with asking():
            found = await self._client.read_artifacts(
                artifact_filter=ArtifactFilter(
                    flow_run_id=ArtifactFilterFlowRunId(any_=[uuid.UUID(run.id)]),
                    key=ArtifactFilterKey(any_=[key]),
                ),
                sort=ArtifactSort.CREATED_DESC,
                limit=1,
            )
        return found[0].id if found else None

    async def _update(self, artifact_id: uuid.UUID, page: Page) -> bool:
        """Whether there still was one to write anew."""
        try:
            async with asking():
                await self._client.update_artifact(
                    artifact_id, ArtifactUpdate(data=page.data, description=page.description)
                )
        except StatusError:
            return False
        return True

    def _remember(self, place: tuple[str, str], artifact_id: uuid.UUID) -> None:
        while len(self._ids) >= MAX_REMEMBERED:
            del self._ids[next(iter(self._ids))]
        self._ids[place] = artifact_id
