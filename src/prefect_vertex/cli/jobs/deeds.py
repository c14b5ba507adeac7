"""Deeds: what is done to runs and jobs, each told when it is done; every one may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio

from prefect_vertex.cli.jobs.looking import Look
from prefect_vertex.cli.jobs.pairing import pairs_of
from prefect_vertex.cli.jobs.showing import age_of
from prefect_vertex.errors import JobNotFoundError, ServiceError
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.ports import World

if TYPE_CHECKING:
    from prefect_vertex.runs.port import FlowRuns, Proposal
    from prefect_vertex.vertex.gateway import JobGateway


Tell = Callable[[str], None]

SETTLE_SECONDS: Final = 90.0
"""A run that is gone is believed to be after a minute; a cancelled job needs some seconds."""
_PAUSE_SECONDS: Final = 1.0


def named(seen: Look, run_id: str) -> str:
    """How what was done names a flow run."""
    run = seen.runs.get(run_id)
    return f"flow run {run.name} ({run_id})" if run is not None else f"flow run {run_id}"


class _TellingRuns:
    """The pool's runs; what is accepted is told."""

    def __init__(self, runs: FlowRuns, seen: Look, tell: Tell) -> None:
        self._runs, self._seen, self._tell = runs, seen, tell

    async def propose(self, run_id: str, proposal: Proposal) -> bool:
        accepted = await self._runs.propose(run_id, proposal)
        if accepted:
            message = " ".join(proposal.message.split())
            self._tell(f"{named(self._seen, run_id)} is {proposal.name}: {message}")
        return accepted

    async def hand_back(self, run_id: str) -> None:
        await self._runs.hand_back(run_id)
        self._tell(f"{named(self._seen, run_id)} is offered to the workers again")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)


class _TellingGateway:
    """A gateway; what is cancelled is told."""

    def __init__(self, gateway: JobGateway, tell: Tell) -> None:
        self._gateway, self._tell = gateway, tell

    async def cancel(self, name: ResourceName) -> None:
        await self._gateway.cancel(name)
        self._tell(f"cancel was sent to {name}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)


@dataclass(frozen=True, slots=True)
class _TellingGateways:
    """Gateways whose cancels are told."""

    world: World
    tell: Tell

    def for_target(self, target: Target) -> Any:
        return _TellingGateway(self.world.gateways.for_target(target), self.tell)


async def settle(
    world: World,
    seen: Look,
    run_ids: Collection[str],
    *,
    tell: Tell,
    to_the_end: bool = False,
    seconds: float = SETTLE_SECONDS,
) -> dict[str, str]:
    """Take the reconciler's steps for some runs, until they are in step or time is up.

    It adopts nothing and creates nothing: a run that waits for its worker is left to wait. While
    Vertex AI does not say how a job is, its run is left as it is, and asked after again.

    Args:
        world: The pool's.
        seen: The runs' jobs.
        run_ids: Which runs.
        tell: Called with each thing that was done.
        to_the_end: Go on until the runs have ended.
        seconds: How long to go on.

    Returns:
        The runs that are not there yet, each with why Vertex AI did not say how its jobs are;
        empty where it did.

    Raises:
        PrefectUnavailableError: The Prefect API failed.
    """
    telling = replace(
        world,
        runs=_TellingRuns(world.runs, seen, tell),
        gateways=_TellingGateways(world, tell),
    )
    cares = {run_id: Care(run_id=run_id) for run_id in run_ids}
    for run_id, care in cares.items():
        for job in seen.jobs_of(run_id):
            care.see(job, seen.targets[job.resource_name.key])
    deadline = world.clock.now() + timedelta(seconds=seconds)
    troubles: dict[str, str] = {}
    async with Reconciler(telling) as reconciler:
        reconciler.book.update(cares)
        await reconciler.read_workers()
        waiting = list(cares.values())
        while True:
            for care in waiting:
                reconciler.nudge(care.run_id)
            await reconciler.settled()
            waiting = [care for care in waiting if _is_left(care, world, to_the_end=to_the_end)]
            if not waiting or world.clock.now() >= deadline:
                _tell_jobs(seen, cares.values(), tell)
                return {care.run_id: troubles.get(care.run_id, "") for care in waiting}
            await anyio.sleep(_PAUSE_SECONDS)
            for care in waiting:
                troubles[care.run_id] = await _look_again(world, care)


def _tell_jobs(seen: Look, cares: Iterable[Care], tell: Tell) -> None:
    """What has become of each job meanwhile."""
    for care in cares:
        before = {job.resource_name.key: job.phase for job in seen.jobs_of(care.run_id)}
        for key, job in care.jobs.items():
            if before.get(key) is not job.phase:
                tell(f"{job.resource_name} is {job.phase.value}")


def _is_left(care: Care, world: World, *, to_the_end: bool) -> bool:
    if care.done or to_the_end:
        return not care.done
    runs = {care.run_id: care.seen} if care.seen is not None and not care.gone else {}
    pairs = pairs_of(runs, care.jobs.values(), world.clock.now())
    return any(pair.standing.disagrees for pair in pairs)


async def _look_again(world: World, care: Care) -> str:
    """See how a run's jobs are now; why the last one that was not told was not, or nothing."""
    trouble = ""
    for key, job in list(care.jobs.items()):
        if job.is_terminal and job.described:
            continue
        target = care.targets[key]
        try:
            care.see(await world.gateways.for_target(target).describe(job.resource_name), target)
        except JobNotFoundError:
            care.miss(job.resource_name, world.clock.now())
        except ServiceError as error:
            trouble = str(error)
    return trouble


def old_jobs(seen: Look, age: timedelta, now: datetime) -> list[JobSnapshot]:
    """Ended jobs that nobody needs any more, oldest first.

    A run that has not ended keeps its jobs: how they ended decides what becomes of it.

    Args:
        seen: All jobs.
        age: Since their end.
        now: Aware.
    """
    found = [
        job
        for job in seen.jobs.values()
        if job.is_terminal
        and (job.end_time or job.create_time) <= now - age
        and ((run := seen.runs.get(job.flow_run_id)) is None or run.is_final)
    ]
    return sorted(found, key=lambda job: job.create_time)


async def delete_jobs(world: World, seen: Look, jobs: Iterable[JobSnapshot], *, tell: Tell) -> int:
    """Delete ended jobs, one after the other, within the budget of submissions.

    Returns:
        How many were deleted; one that is gone already counts.

    Raises:
        ServiceError: Vertex AI refused one; those before it are deleted.
    """
    count = 0
    for job in jobs:
        target = seen.targets[job.resource_name.key]
        await world.gateways.for_target(target).delete(job.resource_name)
        ended = age_of(seen.now - (job.end_time or job.create_time))
        tell(
            f"deleted {job.resource_name}: attempt {job.attempt} of "
            f"{named(seen, job.flow_run_id)}, {job.phase.value}, ended {ended} ago"
        )
        count += 1
    return count


async def cancel_jobs(world: World, seen: Look, run_id: str, *, tell: Tell) -> None:
    """Cancel a run's live jobs at once, with no grace for what is in them."""
    for job in seen.jobs_of(run_id):
        if not job.is_terminal:
            target = seen.targets[job.resource_name.key]
            await world.gateways.for_target(target).cancel(job.resource_name)
            tell(f"cancel was sent to {job.resource_name}")
