"""Observe: one list of live jobs for each place and tick, and what changed since the last.

Jobs are read before runs, so that a run read after its job was seen terminal can't be changed by
its container any more.  A place that could not be listed tells nothing about its jobs, and one
that answers late is heard at a later tick: no other place's runs wait for it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
from anyio.abc import TaskGroup

from prefect_vertex.errors import JobNotFoundError, ServiceError
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World

logger = logging.getLogger(__name__)

MANY_LEFT = 3
"""More jobs than these that have left a list are read with one list of ended ones."""


@dataclass(eq=False, slots=True)
class _Question:
    """A place that was asked for its live jobs, and what it said."""

    target: Target
    answered: anyio.Event = field(default_factory=anyio.Event)
    jobs: tuple[JobSnapshot, ...] = ()
    error: Exception | None = None


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
        self._asked: dict[Target, _Question] = {}
        self.pages = 1
        """Pages that the busiest place took in the last look."""

    async def look(
        self, targets: Iterable[Target], tasks: TaskGroup, *, seconds: float
    ) -> set[str]:
        """List every place that is not being listed; returns the runs whose jobs have changed.

        Args:
            targets: The places.
            tasks: Where a question goes on whose answer takes longer.
            seconds: How long to wait for answers.
        """
        for target in targets:
            if target not in self._asked:
                self._asked[target] = question = _Question(target)
                tasks.start_soon(self._ask, question)
        with anyio.move_on_after(seconds):
            for question in list(self._asked.values()):
                await question.answered.wait()
        answered = [each for each in self._asked.values() if each.answered.is_set()]
        changed: set[str] = set()
        async with anyio.create_task_group() as group:
            for question in answered:
                del self._asked[question.target]
                group.start_soon(self._hear, question, changed)
        self.pages = max((-(-len(each.jobs) // 100) for each in answered), default=0) or 1
        return changed

    async def _ask(self, question: _Question) -> None:
        try:
            gateway = self._world.gateways.for_target(question.target)
            question.jobs = await gateway.list_live(self._world.pool_id)
        except Exception as error:  # noqa: BLE001 - one place's fault never touches another
            question.error = error
        question.answered.set()

    async def _hear(self, question: _Question, changed: set[str]) -> None:
        """Compare one answer, and add to the changed at once: a change is seen once."""
        target = question.target
        if question.error is not None:
            self._trouble(target, question.error)
            return
        self._recovered(target)
        try:
            changed.update(self._compare(target, question.jobs))
            await self._follow_left(target, question.jobs, changed)
        except Exception as error:  # noqa: BLE001 - one place's fault never touches another
            self._trouble(target, error)

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
