"""Progress as Prefect shows it: one artifact on a run."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate

from prefect_vertex.planning.addresses import trace_of
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.signs import SignOfLife

KEY = "prefect-vertex-progress"
_KIND = "progress"
_WHOLE = 100.0
_FINISH_SECONDS = 10.0
_logger = logging.getLogger(__name__)


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
    """The progress of all replicas on the leader's run, shown by a thread of its own.

    The Prefect API may take minutes to answer, which may hold up nothing but the next figure: that
    is always the newest one.  Without a staging bucket, or alone, there is nothing to show.

    Args:
        member: The leader.
    """

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._artifact = ProgressArtifact(member.leader_id)
        self._meeting = Meeting(member) if member.staging and member.world_size > 1 else None
        self._stopped = threading.Event()
        self._in_trouble = False
        self._thread = threading.Thread(target=self._run, name="progress board", daemon=True)

    def start(self) -> None:
        """Show it from now on."""
        if self._meeting is not None:
            self._thread.start()

    def finish(self, seconds: float = _FINISH_SECONDS) -> None:
        """Show the last figures, if that is possible in so many seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopped.wait(self._member.heartbeat_seconds):
            self._try_to_show()
        self._try_to_show()

    def _try_to_show(self) -> None:
        try:
            self._show()
        except Exception as error:  # noqa: BLE001 - progress is never worth a run's end
            if not self._in_trouble:
                _logger.warning("%s\n%s", "Progress cannot be shown.", trace_of(error))
            self._in_trouble = True
        else:
            self._in_trouble = False

    def _show(self) -> None:
        if self._meeting is None:
            return
        signs = self._meeting.signs_of_life()
        if any(sign.total for sign in signs.values()):
            percent, description = summarize(signs, self._member.world_size)
            self._artifact.show(percent, description)


def summarize(signs: Mapping[int, SignOfLife], world_size: int) -> tuple[float, str]:
    """Percent over all replicas, and one line for each that has told something.

    A replica that has told nothing yet counts as one with the others' mean amount of work; one
    that left without a word had none, nor has one that tells of none.
    """
    told = {rank: sign for rank, sign in sorted(signs.items()) if sign.total > 0}
    silent = sum(
        1
        for rank in range(world_size)
        if (sign := signs.get(rank)) is None or not (sign.has_told or sign.has_left)
    )
    total = sum(sign.total for sign in told.values())
    expected = total + silent * (total / len(told) if told else 0)
    done = sum(max(0.0, min(sign.done, sign.total)) for sign in told.values())
    lines = [f"replica {rank}: {sign.done:g} of {sign.total:g}" for rank, sign in told.items()]
    return (_percent(done, expected) if told else 0.0, "; ".join(lines))


def _percent(done: float, total: float) -> float:
    percent = _WHOLE * (done / total) if total > 0 else _WHOLE * (done >= total)
    # Sums of finite figures may be infinite.
    return min(max(percent, 0.0), _WHOLE) if math.isfinite(percent) else 0.0


class OwnProgress:
    """Progress of a run that no launcher watches, sent at most every two seconds.

    The last figure, `done` equal to `total`, is sent at once.
    """

    interval_seconds = 2.0

    def __init__(self, run_id: UUID | str) -> None:
        self._artifact = ProgressArtifact(run_id)
        self._sent_at: float | None = None
        self._lock = threading.Lock()

    def show(self, done: float, total: float) -> None:
        """Show the figure, unless the last one is too fresh, or another is on its way."""
        if self._lock.acquire(blocking=done >= total):
            try:
                self._show(done, total)
            finally:
                self._lock.release()

    def _show(self, done: float, total: float) -> None:
        now = time.monotonic()
        is_fresh = self._sent_at is not None and now - self._sent_at < self.interval_seconds
        if is_fresh and done < total:
            return
        self._sent_at = now
        self._artifact.show(_percent(done, total), f"{done:g} of {total:g}")
