"""Followers: what becomes of the replicas' flow runs once their job is over.

A replica ends its own flow run. One that was killed can't, and its run is in no pool that anybody
sweeps; so whoever sees the job's end settles what is left. A follower is never scheduled again:
the leader's next attempt makes new ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from prefect_vertex.lifecycle.absence import identifier_of
from prefect_vertex.lifecycle.decisions import (
    Create,
    Decision,
    HandBack,
    Settle,
)
from prefect_vertex.lifecycle.run import LEADER_LABEL, RANK_LABEL, RunState, RunView
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World
from prefect_vertex.runs.port import Proposal

_AT_AN_END = (Settle, HandBack, Create)
"""Decisions that are taken only once the last attempt's job is over.

Those that propose a state for the leader are left out: what they rest on would be out of date by
the time the followers were read.  The look that follows them settles, and ends up here.
"""

_MOST_REPLICAS = 200
"""How many are looked for where nothing says how many there were: one request."""


async def settle_followers(
    world: World, care: Care, view: RunView | None, decision: Decision
) -> ResourceName | None:
    """End the flow runs of replicas whose job is over, where their leader's end is settled.

    Safe to repeat: it reads what has not ended, and proposes.

    Args:
        world: Its adapters.
        care: The leader's.
        view: The leader, as just read; None if it was deleted.
        decision: What is about to be done for it.

    Returns:
        A job to describe first: that it is over is only inferred from the leader's end.
    """
    if not isinstance(decision, _AT_AN_END) or care.has_live_job:
        return None
    known = view or care.seen
    if known is not None and known.replicas == 1:
        return None
    last = decision.attempt - 1 if isinstance(decision, Create) else _last_attempt(care, known)
    if last < 1 or (view is None and care.newest is None):
        return None
    if view is not None:
        found = await world.runs.followers([view.id])
    else:
        replicas = known.replicas if known is not None else _MOST_REPLICAS
        found = await world.runs.followers_of_deleted(care.run_id, last, replicas)
    name = identifier_of(view) if view is not None else None
    if found and care.newest is None and name is not None and name.key not in care.absences:
        return name
    cancelled = view is not None and view.state in {RunState.CANCELLING, RunState.CANCELLED}
    for follower in found:
        if 0 < follower.attempt <= last:
            end = _end_of(care, follower, cancelled=cancelled)
            await world.runs.propose(follower.id, end)
    return None


async def left_behind(world: World, views: Iterable[RunView]) -> set[str]:
    """Which of these runs have ended and left followers: their job ended while nobody looked."""
    leaders = [view.id for view in views if view.is_final and view.replicas > 1]
    found = await world.runs.followers(leaders) if leaders else []
    return {follower.labels[LEADER_LABEL] for follower in found}


def _last_attempt(care: Care, known: RunView | None) -> int:
    return max(care.newest_attempt, known.attempt if known is not None else 0)


def _end_of(care: Care, follower: RunView, *, cancelled: bool) -> Proposal:
    attempt, job = follower.attempt, care.newest
    which = "its job"
    if job is not None and job.attempt == attempt:
        which = f"CustomJob {job.resource_name.job_id}"
    message = f"Replica {follower.labels.get(RANK_LABEL, '?')} of attempt {attempt}: {which} ended"
    if cancelled or follower.state is RunState.CANCELLING:
        message = f"{message}; the flow run was cancelled."
        return Proposal(state=RunState.CANCELLED, name="Cancelled", message=message)
    message = f"{message} before its flow run did."
    return Proposal(state=RunState.CRASHED, name="Crashed", message=message)
