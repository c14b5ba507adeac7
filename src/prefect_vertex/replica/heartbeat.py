"""A replica's signs of life, written by a thread of their own beside whatever it does."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from pathlib import Path
from typing import Any

from prefect_vertex.errors import ReplicaError
from prefect_vertex.planning.addresses import trace_of
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import PROGRESS_FILE, Membership

_logger = logging.getLogger(__name__)

_LONGEST_CALL_SECONDS = 5.0

Progress = tuple[float, float]


class Heartbeat:
    """Writes a sign of life every few seconds, until told how the replica ended.

    Without a staging bucket, or alone, it does nothing.  Its thread speaks to the bucket only:
    whatever else it waited for could make the others take this replica for dead.

    Args:
        member: Whose.
    """

    def __init__(self, member: Membership) -> None:
        self._period = member.heartbeat_seconds
        # Not longer than a few beats: a late sign is better than a queue of them.
        self._patience_seconds = 2 * self._period
        # To connect, and again for the answer.
        self._call_seconds = max(self._period, _LONGEST_CALL_SECONDS)
        self._stopped = threading.Event()
        self._in_trouble = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._meeting: Meeting | None = None
        if member.staging and member.world_size > 1:
            self._meeting = Meeting(
                member,
                patience_seconds=self._patience_seconds,
                call_seconds=self._call_seconds,
            )

    def start(self) -> None:
        """Give the first sign, and from now on without being asked.

        The first is given in the caller's thread, with all that has to be imported for it: two
        threads that import big packages at once may see each other's modules half made.
        """
        if self._meeting is not None:
            self._say()
            self._thread.start()

    def stop(self) -> None:
        """Give no further sign."""
        self._stopped.set()
        if self._thread.is_alive():
            # As long as a sign may really take: one that came later would take the last word back.
            self._thread.join(timeout=self._patience_seconds + 2 * self._call_seconds)

    def leave(self, why: str, *, for_good: bool = True, told: bool = False) -> None:
        """Say how this replica ended, as its last sign.

        Args:
            why: How.
            for_good: Otherwise another process may take over.
            told: SIGTERM has ended it.
        """
        self.stop()
        if for_good:
            self._say(left=why, told=told)
        else:
            self._say(ended_because=why)

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            self._say()

    def _say(self, *, left: str | None = None, told: bool = False, ended_because: str = "") -> None:
        if self._meeting is None:
            return
        try:
            progress = read_progress()
            self._meeting.say_alive(
                progress=progress, left=left, told=told, ended_because=ended_because
            )
        except ReplicaError as error:
            if not self._in_trouble:
                _logger.warning("No sign of life could be given: %s", error)
            self._in_trouble = True
        except Exception as error:  # noqa: BLE001 - without its thread it would be taken for dead
            text = "A sign of life failed; the next follows."
            _logger.log(logging.ERROR, "%s\n%s", text, trace_of(error))
        else:
            self._in_trouble = False


def figures(done: Any, total: Any) -> Progress | None:
    """Both as finite floats, whatever number they are (NumPy's too); None where one is not."""
    try:
        seen = float(done), float(total)
    except (TypeError, ValueError, OverflowError):
        return None
    return seen if all(map(math.isfinite, seen)) else None


def write_progress(done: float, total: float) -> bool:
    """Leave the progress for the launcher; False where there is no launcher that reads it."""
    path = os.environ.get(PROGRESS_FILE)
    if not path:
        return False
    draft = Path(f"{path}.{os.getpid()}.{threading.get_ident()}")
    draft.write_text(json.dumps([done, total]), encoding="utf-8")
    draft.replace(path)
    return True


def read_progress() -> Progress | None:
    """The progress that was left last; None where there is none."""
    path = os.environ.get(PROGRESS_FILE)
    if not path:
        return None
    try:
        return figures(*json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        # Nothing was told yet, or something else has written there: no reason to fall silent.
        return None
