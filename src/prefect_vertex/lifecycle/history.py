"""What a run's history tells that its state alone does not.

A request that was on its way for long may reach the Prefect server after the run has gone on, and
the server takes a worker's Pending over a finished run as readily as over a waiting one (3.9.1,
`PreventPendingTransitions`; facts in tests/runs).  No state can be proposed on a condition, so a
late word is recognised afterwards, by what stands before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prefect_vertex.lifecycle.run import RunState

REQUEUED = "Its worker stopped while it had no job; any worker may take it."
"""Message of the Scheduled state that this product proposes for a run without a job."""

RETRIED = "Retrying on remote infrastructure"
"""Message of the Pending state that Prefect 3.9.1 forces when somebody retries an ad-hoc run."""

_FIRST_WORD = "Pending"
"""Name of the state with which a worker takes a Scheduled run; each later one follows a Pending."""


@dataclass(frozen=True, slots=True)
class PastState:
    """One state of a run's history."""

    state: RunState
    name: str = ""
    message: str = ""

    @property
    def is_workers_word(self) -> bool:
        """Whether a worker proposed it: Pending under any name, or the run put back by us."""
        ours = self.state is RunState.SCHEDULED and self.message == REQUEUED
        return self.state is RunState.PENDING or ours


def overtaken(history: Sequence[PastState]) -> int | None:
    """Find the state that a worker's late word took away.

    Args:
        history: All of a run's states, the oldest first.

    Returns:
        Its place in the history; None if every worker's word came in time.
    """
    place = len(history) - 1
    while place >= 0 and history[place].is_workers_word:
        place -= 1
    if place < 0 or place == len(history) - 1:
        return None
    before, word = history[place], history[place + 1]
    if word.message == RETRIED:
        return None
    if before.state is RunState.SCHEDULED:
        # A run is taken from Scheduled, and put back to it: only its finer states come too late.
        late = word.state is RunState.PENDING and word.name != _FIRST_WORD
    else:
        late = before.state.is_final or before.state is RunState.PAUSED
    return place if late else None
