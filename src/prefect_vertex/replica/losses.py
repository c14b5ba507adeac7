"""Replicas that the job has lost, and how long that fails nobody.

Where a machine is taken away, its replica is told to end or falls silent, and only then Vertex AI
ends the job: at that SIGTERM the leader puts its run back for the next attempt.  A run that had
failed by then would stay failed.  How long Vertex AI takes is not documented, hence the bound.
"""

from __future__ import annotations

import logging
import time
from enum import Enum

from prefect_vertex.replica.membership import Membership

_logger = logging.getLogger(__name__)


class Loss(Enum):
    """How a replica was lost without a fault of its flow's."""

    TOLD = "was told to end"
    SILENT = "gives no sign of life"


class Losses:
    """The losses that one replica has noticed, and until when it bears them. For any threads.

    Args:
        member: Who this is.
    """

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._until: dict[int, float] = {}

    def bears(self, rank: int, loss: Loss | None) -> bool:
        """Whether to wait on though that replica is gone; with None, for a fault of its own."""
        if loss is None:
            return False
        now = time.monotonic()
        if rank not in self._until:
            seconds = self._member.loss_seconds
            if loss is Loss.SILENT:
                # Of which that long has passed already.
                seconds = max(0.0, seconds - self._member.silence_seconds)
            self._until[rank] = now + seconds
            if seconds:
                _logger.warning(
                    "Replica %d of %d %s. If its machine was taken away, the job ends with it:"
                    " waiting %.0f s for that.",
                    rank,
                    self._member.world_size,
                    loss.value,
                    seconds,
                )
        return now < self._until[rank]

    def forget(self, rank: int) -> None:
        """A replica that is alive is not lost."""
        self._until.pop(rank, None)
