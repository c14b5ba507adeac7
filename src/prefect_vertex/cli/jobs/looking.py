"""Look: the pool's jobs in every location that may hold one, and the runs that go with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import anyio

from prefect_vertex.cli.jobs.pairing import Pair, needs_job, pairs_of
from prefect_vertex.errors import PrefectVertexError, ServiceError
from prefect_vertex.lifecycle.absence import identifier_of
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.observe import is_ours
from prefect_vertex.reconciler.ports import World

Key = tuple[str, str]

_AT_ONCE: Final = 8


@dataclass(slots=True)
class Look:
    """What was seen.

    Attributes:
        now: When.
        runs: By id.
        jobs: By location and id.
        targets: Where each of them is.
        places: Everywhere that was looked.
        troubles: Why a place could not be seen, one line each.
    """

    now: datetime
    runs: dict[str, RunView] = field(default_factory=dict)
    jobs: dict[Key, JobSnapshot] = field(default_factory=dict)
    targets: dict[Key, Target] = field(default_factory=dict)
    places: frozenset[Target] = frozenset()
    troubles: list[str] = field(default_factory=list)

    def see(self, jobs: Iterable[JobSnapshot], target: Target) -> None:
        """Add jobs of one place; those that a flow itself created are none of the pool's."""
        for job in jobs:
            if is_ours(job):
                self.jobs[job.resource_name.key] = job
                self.targets[job.resource_name.key] = target

    def jobs_of(self, run_id: str) -> list[JobSnapshot]:
        """A run's jobs."""
        return [job for job in self.jobs.values() if job.flow_run_id == run_id]

    @property
    def pairs(self) -> list[Pair]:
        """Each job beside its run."""
        return pairs_of(self.runs, self.jobs.values(), self.now)


async def look(world: World, *, since: timedelta | None) -> Look:
    """List every place's jobs, live and ended, then read their runs.

    Jobs first, runs second, as the reconciler does: a run that was read after its job had been
    seen terminal is not changed by that job any more.

    Args:
        world: The pool's.
        since: Ended jobs are listed if they were created so recently; None: all of them.

    Raises:
        PrefectUnavailableError: The Prefect API failed.
    """
    seen = Look(now=world.clock.now())
    begun = await world.runs.unfinished()
    seen.places = frozenset(world.home()) | set(_named(begun, world.home()))
    start = None if since is None else seen.now - since

    async def one(target: Target) -> None:
        gateway = world.gateways.for_target(target)
        seen.see(await gateway.list_live(world.pool_id), target)
        seen.see(await gateway.list_ended(world.pool_id, start), target)

    await _everywhere(seen, sorted(seen.places, key=str), one)
    ids = {job.flow_run_id for job in seen.jobs.values()}
    seen.runs = {run.id: run for run in await world.runs.unfinished() if run.attempt}
    await _find_others(world, seen, [run for run in seen.runs.values() if run.id not in ids])
    seen.runs |= await world.runs.read_many(ids - seen.runs.keys())
    lost = ids - seen.runs.keys()
    for run_id in lost:
        # What is missing from a list may still exist.
        if (run := await world.runs.read(run_id)) is not None:
            seen.runs[run_id] = run
    await _describe_disagreeing(world, seen)
    seen.now = world.clock.now()
    return seen


def _named(runs: Iterable[RunView], home: frozenset[Target]) -> list[Target]:
    """Places that runs name, be it in their labels or in the names of their jobs."""
    key = min((target.credentials_key for target in home), default="")
    known = {(target.project, target.location) for target in home}
    locations = {target.location for target in home}
    found: list[Target] = []
    for run in runs:
        project, location = run.place
        if not location and (name := identifier_of(run)) is not None:
            if name.location in locations:
                # It holds the project's number, so only the location can be compared.
                continue
            project, location = name.project, name.location
        if location and (project, location) not in known:
            known.add((project, location))
            found.append(Target(project, location, key))
    return found


async def _find_others(world: World, seen: Look, runs: Sequence[RunView]) -> None:
    """Look by label for jobs that are older than what was listed."""
    wanted = [run for run in runs if needs_job(run)]

    async def one(target: Target) -> None:
        for run in wanted:
            if run.place[1] in {"", target.location}:
                seen.see(await world.gateways.for_target(target).find(run.id), target)

    if wanted:
        await _everywhere(seen, sorted(seen.places, key=str), one)


async def _describe_disagreeing(world: World, seen: Look) -> None:
    """A list row is a hint: what something is to follow from is described."""
    keys = [
        job.resource_name.key
        for pair in seen.pairs
        if pair.standing.disagrees
        for job in seen.jobs_of(pair.run_id)
    ]
    for key in dict.fromkeys(keys):
        target = seen.targets[key]
        try:
            name = seen.jobs[key].resource_name
            seen.jobs[key] = await world.gateways.for_target(target).describe(name)
        except ServiceError as error:
            seen.troubles.append(str(error))


async def _everywhere(
    seen: Look, targets: Sequence[Target], one: Callable[[Target], Awaitable[None]]
) -> None:
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def guarded(target: Target) -> None:
        async with limiter:
            try:
                await one(target)
            except PrefectVertexError as error:
                seen.troubles.append(str(error))

    async with anyio.create_task_group() as group:
        for target in targets:
            group.start_soon(guarded, target)
