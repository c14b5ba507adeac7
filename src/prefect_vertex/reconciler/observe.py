"""Observe: one list of live jobs for each place and tick, and what changed since the last.

Jobs are read before runs, so that a run read after its job was seen terminal can't be changed by
its container any more.  A place that could not be listed tells nothing about its jobs.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from datetime import timedelta

import anyio

from prefect_vertex.errors import JobNotFoundError, ServiceError
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World

logger = logging.getLogger(__name__)

MANY_LEFT = 3
"""More jobs than these that have left a list are read with one list of ended ones."""


class Observer:
    """Looks at the pool's jobs.

    Args:
        world: Its adapters.
        book: The cares by flow run id; jobs of unknown runs are added to it.
    """

    def __init__(self, world: World, book: dict[str, Care]) -> None:
        self._world = world
        self._book = book
        self._troubled: dict[Target, str] = {}
        self.pages = 1
        """Pages that the busiest place took in the last look."""

    async def look(self, targets: Iterable[Target]) -> set[str]:
        """List every place; returns the runs whose jobs have changed."""
        changed: set[str] = set()
        pages: list[int] = []

        async def one(target: Target) -> None:
            try:
                pages.append(await self._look_at(target, changed))
            except Exception as error:  # noqa: BLE001 - one place's fault never touches another
                self._trouble(target, error)

        async with anyio.create_task_group() as group:
            for target in targets:
                group.start_soon(one, target)
        self.pages = max(pages, default=1)
        return changed

    async def _look_at(self, target: Target, changed: set[str]) -> int:
        """List one place; returns the pages, and adds to the changed at once: it is seen once."""
        jobs = await self._world.gateways.for_target(target).list_live(self._world.pool_id)
        self._recovered(target)
        changed.update(self._compare(target, jobs))
        await self._follow_left(target, jobs, changed)
        return -(-len(jobs) // 100) or 1

    def _compare(self, target: Target, jobs: Iterable[JobSnapshot]) -> set[str]:
        changed = set()
        for job in jobs:
            care = self._book.get(job.flow_run_id)
            known = care is not None and job.resource_name.key in care.jobs
            if not known and not is_ours(job):
                continue
            if care is None:
                care = self._book[job.flow_run_id] = Care(run_id=job.flow_run_id)
            if care.see(job, target):
                changed.add(care.run_id)
        return changed

    async def _follow_left(
        self, target: Target, jobs: Iterable[JobSnapshot], changed: set[str]
    ) -> None:
        """Find out about the jobs that were live and are in the list no more."""
        listed = {job.resource_name.key for job in jobs}
        left = [
            (care, job)
            for care in self._book.values()
            for key, job in care.jobs.items()
            if not job.is_terminal and key not in listed and care.targets.get(key) == target
        ]
        if len(left) > MANY_LEFT:
            # A little slack: the row's own time may be rounded.
            since = min(job.create_time for _, job in left) - timedelta(seconds=1)
            gateway = self._world.gateways.for_target(target)
            ended = await gateway.list_ended(self._world.pool_id, since)
            rows = {job.resource_name.key: job for job in ended}
            for care, job in left:
                if (row := rows.get(job.resource_name.key)) is not None and care.see(row, target):
                    changed.add(care.run_id)
            left = [(care, job) for care, job in left if job.resource_name.key not in rows]
        for care, job in left[:MANY_LEFT]:
            # The rest follows at the next tick: absence alone is no news.
            if await self._describe(target, care, job):
                changed.add(care.run_id)

    async def _describe(self, target: Target, care: Care, job: JobSnapshot) -> bool:
        gateway = self._world.gateways.for_target(target)
        try:
            seen = await gateway.describe(job.resource_name)
        except JobNotFoundError:
            care.miss(job.resource_name, self._world.clock.now())
            return True
        except Exception as error:  # noqa: BLE001 - one job's fault never hides the next
            self._trouble(target, error)
            return False
        return care.see(seen, target)

    def _trouble(self, target: Target, error: Exception) -> None:
        """Say once what is wrong with a place, and again when it changes."""
        kind = error.code if isinstance(error, ServiceError) else type(error).__name__
        if self._troubled.get(target) != kind:
            self._troubled[target] = kind
            logger.warning("Cannot see the pool's jobs in %s. %s", target.location, error)

    def _recovered(self, target: Target) -> None:
        if self._troubled.pop(target, None) is not None:
            logger.info("The pool's jobs in %s are visible again.", target.location)


def is_ours(job: JobSnapshot) -> bool:
    """Whether a job was created by this product; others may carry Prefect's labels too."""
    try:
        uuid.UUID(job.flow_run_id)
    except ValueError:
        return False
    return job.attempt > 0
