"""A replica's signs of life, written by a thread of their own beside whatever it does."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import PROGRESS_FILE, Membership

_logger = logging.getLogger(__name__)

_LONGEST_CALL_SECONDS = 5.0

Progress = tuple[float, float]


class Heartbeat:
    """Writes a sign of life every few seconds, until told how the replica ended.

    Without a staging bucket, or alone, it does nothing.

    Args:
        member: Whose.
        after_beat: Called in the thread after each sign, with the meeting place.
    """

    def __init__(
        self, member: Membership, *, after_beat: Callable[[Meeting], None] | None = None
    ) -> None:
        self._period = member.heartbeat_seconds
        self._after_beat = after_beat
        self._stopped = threading.Event()
        self._in_trouble = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._meeting: Meeting | None = None
        if member.staging and member.world_size > 1:
            # Not longer than a few beats: a late sign is better than a queue of them.
            self._meeting = Meeting(member, patience_seconds=2 * self._period)

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
            self._thread.join(timeout=2 * self._period + _LONGEST_CALL_SECONDS)

    def leave(self, why: str) -> None:
        """Say how this replica ended, as its last sign."""
        self.stop()
        self._say(left=why)

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            self._say()

    def _say(self, left: str | None = None) -> None:
        if self._meeting is None:
            return
        done, total = read_progress()
        try:
            self._meeting.say_alive(done=done, total=total, left=left)
            if self._after_beat is not None:
                self._after_beat(self._meeting)
        except ReplicaError as error:
            if not self._in_trouble:
                _logger.warning("No sign of life could be given: %s", error)
            self._in_trouble = True
        except Exception:
            # The others would take this replica for dead if its thread ended.
            _logger.exception("A sign of life failed; the next follows.")
        else:
            self._in_trouble = False


def write_progress(done: float, total: float) -> bool:
    """Leave the progress for the launcher; False where there is no launcher that reads it."""
    path = os.environ.get(PROGRESS_FILE)
    if not path:
        return False
    draft = Path(f"{path}.{os.getpid()}.{threading.get_ident()}")
    draft.write_text(json.dumps([done, total]), encoding="utf-8")
    draft.replace(path)
    return True


def read_progress() -> Progress:
    """The progress that was left last; zeros where there is none."""
    path = os.environ.get(PROGRESS_FILE)
    try:
        done, total = json.loads(Path(path).read_text(encoding="utf-8")) if path else (0, 0)
    except FileNotFoundError:
        return (0, 0)
    return (done, total)
