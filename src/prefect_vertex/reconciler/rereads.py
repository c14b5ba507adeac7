"""Whether a run is still as it was when something was decided for it.

A view may be a minute old when its turn comes: the calls in between are repeated while the Prefect
API says 429.  Meanwhile another worker may have gone on with the run, or a person.
"""

from __future__ import annotations

from datetime import timedelta

from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.reconciler.ports import World

OLD_SECONDS = 1.0
"""Age from which a run may well have gone on since it was read."""


def is_old(world: World, view: RunView) -> bool:
    """Whether the run may well have gone on since it was read."""
    return world.clock.now() - view.observed_at > timedelta(seconds=OLD_SECONDS)


async def renewed(world: World, view: RunView) -> RunView | None:
    """The run as it is now; None if it is not what was decided about any more.

    One that was read just now is not read again.  Its labels count besides its state: another
    worker may have announced an attempt, or noted why it cancels a job.
    """
    if not is_old(world, view):
        return view
    fresh = await world.runs.read(view.id)
    if fresh is None or fresh.state_id != view.state_id:
        return None
    return fresh if fresh.labels == view.labels else None


async def is_same_stay(world: World, view: RunView) -> bool:
    """Whether it is still the same attempt in the same state, whatever was written about it."""
    if not is_old(world, view):
        return True
    fresh = await world.runs.read(view.id)
    return fresh is not None and (fresh.state_id, fresh.attempt) == (view.state_id, view.attempt)
