"""Pages: what a flow run's artifacts show, and what of a run only the Prefect API remembers."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from prefect.client.orchestration import PrefectClient

from prefect_vertex.chronicle.chronicle import Start, Stay
from prefect_vertex.lifecycle.run import START_CLAIM, RunState, RunView
from prefect_vertex.runs.artifacts import Artifacts, Written
from prefect_vertex.runs.asking import StatusError, asking
from prefect_vertex.runs.translate import as_aware

PAGE_SIZE = 200
MAX_STARTS = 10_000
"""Claims that are read of one run, the oldest first."""

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
        self._artifacts = Artifacts(client)

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
                message=state.message or "",
            )
            for state in states
        ]

    async def starts(self, run_id: str) -> list[Start]:
        """The starts that its replicas have claimed, by the server's clock."""
        try:
            claimed = await self._claimed(uuid.UUID(run_id))
        except StatusError:
            return []
        found = [(_START_KEY.fullmatch(key), created) for key, created in claimed.items()]
        return [
            Start(int(match["attempt"]), int(match["rank"]), as_aware(created))
            for match, created in found
            if match is not None and created is not None
        ]

    async def _claimed(self, run_id: uuid.UUID) -> dict[str, datetime | None]:
        """Every claim of a start; the server takes no offset, but keys that it leaves out."""
        found: dict[str, datetime | None] = {}
        while len(found) < MAX_STARTS:
            async with asking():
                claims = await self._client.filter_flow_run_input(
                    run_id, START_CLAIM, PAGE_SIZE, set(found)
                )
            found |= {claim.key: claim.created for claim in claims}
            if len(claims) < PAGE_SIZE:
                break
        return found

    async def show(self, run: RunView, page: Page) -> None:
        """Write a page in the place of the run's last one of that key."""
        what = Written(page.key, "markdown", page.data, page.description)
        await self._artifacts.write(run.id, what)
