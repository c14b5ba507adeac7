"""Progress as Prefect shows it: one artifact on a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

from prefect_vertex.replica.meeting import Meeting, SignOfLife
from prefect_vertex.replica.membership import Membership

KEY = "prefect-vertex-progress"
_KIND = "progress"
_WHOLE = 100.0


class ProgressArtifact:
    """One progress artifact of one run: created with the first figure, then kept up to date."""

    def __init__(self, run_id: UUID | str) -> None:
        self._run_id = UUID(str(run_id))
        self._client: SyncPrefectClient = get_client(sync_client=True)
        self._artifact_id: UUID | None = None
        self._shown: tuple[float, str] | None = None

    def show(self, percent: float, description: str) -> None:
        """Show a figure; nothing is sent where it is shown already."""
        told = (round(percent, 2), description)
        if told == self._shown:
            return
        if self._artifact_id is None:
            artifact = ArtifactCreate(
                key=KEY,
                type=_KIND,
                data=told[0],
                description=description,
                flow_run_id=self._run_id,
            )
            self._artifact_id = self._client.create_artifact(artifact).id
        else:
            update: Any = ArtifactUpdate(data=told[0], description=description)
            self._client.update_artifact(self._artifact_id, update)
        self._shown = told


class ProgressBoard:
    """The progress of all replicas on the leader's run; for `Heartbeat.after_beat`."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._artifact = ProgressArtifact(member.leader_id)

    def __call__(self, meeting: Meeting) -> None:
        """Read what the replicas say, and show it if any has said something."""
        signs = meeting.signs_of_life()
        if any(sign.total for sign in signs.values()):
            percent, description = summarize(signs, self._member.world_size)
            self._artifact.show(percent, description)


def summarize(signs: Mapping[int, SignOfLife], world_size: int) -> tuple[float, str]:
    """Percent over all replicas, and one line for each that has told something.

    A replica that has told nothing yet counts as one with the others' mean amount of work; one
    that left without a word had none.
    """
    told = {rank: sign for rank, sign in sorted(signs.items()) if sign.total > 0}
    silent = sum(
        1 for rank in range(world_size) if rank not in told and not _has_left(signs.get(rank))
    )
    total = sum(sign.total for sign in told.values())
    expected = total + silent * (total / len(told) if told else 0)
    done = sum(min(sign.done, sign.total) for sign in told.values())
    lines = [f"replica {rank}: {sign.done:g} of {sign.total:g}" for rank, sign in told.items()]
    return (_WHOLE * done / expected if expected else 0.0, "; ".join(lines))


def _has_left(sign: SignOfLife | None) -> bool:
    return sign is not None and sign.has_left


class OwnProgress:
    """Progress of a run that no launcher watches, sent at most every two seconds.

    The last figure, `done` equal to `total`, is sent at once.
    """

    interval_seconds = 2.0

    def __init__(self, run_id: UUID | str) -> None:
        self._artifact = ProgressArtifact(run_id)
        self._sent_at: float | None = None

    def show(self, done: float, total: float) -> None:
        """Show the figure, unless the last one is too fresh."""
        now = time.monotonic()
        is_fresh = self._sent_at is not None and now - self._sent_at < self.interval_seconds
        if is_fresh and done < total:
            return
        self._sent_at = now
        percent = _WHOLE * done / total if total else _WHOLE
        self._artifact.show(percent, f"{done:g} of {total:g}")
