"""Upkeep: what keeps a waiting run's place and tells whose runs are nobody's any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import anyio

from prefect_vertex.lifecycle.policy import parse_policy
from prefect_vertex.lifecycle.run import (
    INSTANCE_LABEL,
    POLICY_LABEL,
    RELEASED,
    WORKER_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.claims import win
from prefect_vertex.reconciler.ports import World, worker_of
from prefect_vertex.runs.port import PrefectUnavailableError, Roster

logger = logging.getLogger(__name__)

CALLS_AT_ONCE = 10
"""Calls to Prefect that one tick makes side by side."""


class Upkeep:
    """The slow half of a tick.

    Args:
        world: Its adapters.
        book: The cares by flow run id.
    """

    def __init__(self, world: World, book: dict[str, Care]) -> None:
        self._world = world
        self._book = book
        self._roster = Roster()
        self._begun_at = world.clock.now()

    async def renew_leases(self) -> None:
        """Renew the concurrency lease of every waiting run, well before it ends.

        One lease that can't be renewed keeps no other from it; it is tried again at the next tick.
        """
        limiter = anyio.CapacityLimiter(CALLS_AT_ONCE)

        async def renew(care: Care, view: RunView) -> None:
            async with limiter:
                try:
                    await self._renew(care, view)
                except PrefectUnavailableError as error:
                    logger.warning("Flow run %s: its lease was not renewed. %s", view.id, error)

        async with anyio.create_task_group() as group:
            for care in self._book.values():
                if care.seen is not None and self._renewal_due(care, care.seen):
                    group.start_soon(renew, care, care.seen)

    def _renewal_due(self, care: Care, view: RunView) -> bool:
        if view.state is not RunState.PENDING or not view.lease_id:
            return False
        if not self._ours_to_keep(care, view):
            return False
        if care.lease_id != view.lease_id:
            care.lease_id, care.lease_renewed_at, care.lease_lost = view.lease_id, None, False
        if care.lease_lost:
            return False
        pause = timedelta(seconds=self._world.figures.lease_seconds / 3)
        renewed = care.lease_renewed_at
        return renewed is None or self._world.clock.now() - renewed >= pause

    async def _renew(self, care: Care, view: RunView) -> None:
        now = self._world.clock.now()
        if await self._world.runs.renew_lease(view.lease_id):
            care.lease_renewed_at = now
            return
        care.lease_lost = True
        self._world.runs.log(
            view,
            logging.WARNING,
            "The Prefect server has lost this run's concurrency slot and will cancel it when "
            "it starts. Servers keep slots in memory unless "
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE="
            "prefect.server.concurrency.lease_storage.filesystem is set.",
        )

    def _ours_to_keep(self, care: Care, view: RunView) -> bool:
        """A run whose holder lives elsewhere is renewed there."""
        return bool(care.tickets) or view.holder == self._world.signature or care.holder_gone

    async def mind_holders(self, cares: Iterable[Care], roster: Roster) -> None:
        """Find out which runs' holders are gone, and adopt their live jobs.

        A live job is adopted at once; a run without one is called an orphan only after a grace,
        because whoever takes it needs a moment to say so.  After the end of a worker with very many
        runs the tick waits for all of them, so several are adopted at a time.

        Raises:
            PrefectUnavailableError: The Prefect API failed; what was adopted until then stays so.
        """
        self._roster = roster
        self._world.leads.prefect.learn(self._world.clock.now(), [roster.heard_at])
        heirless = list(self._heirless(cares))
        limiter = anyio.CapacityLimiter(CALLS_AT_ONCE)
        failures: list[PrefectUnavailableError] = []

        async def adopt(care: Care, view: RunView) -> None:
            async with limiter:
                try:
                    await self._adopt(care, view)
                except PrefectUnavailableError as error:
                    failures.append(error)

        async with anyio.create_task_group() as group:
            for care, view in heirless:
                group.start_soon(adopt, care, view)
        if failures:
            raise failures[0]

    def _heirless(self, cares: Iterable[Care]) -> Iterator[tuple[Care, RunView]]:
        """Runs that this process adopts, or has adopted; it notes what it sees of the others."""
        now = self._world.clock.now()
        grace = timedelta(seconds=self._world.figures.requeue_grace_seconds)
        for care in cares:
            view = care.seen
            if view is None or care.due_attempt:
                continue
            ours = view.holder == self._world.signature and view.holder_is_current
            if care.tickets and ours:
                # A ticket alone may only watch what another process has taken since.
                continue
            if care.adopted and view.holder != self._world.signature:
                self.let_go(care)
            gone = self._is_gone(care, view)
            orphaned = gone and now - self._since(view) >= grace
            care.orphaned_in = view.state_id if orphaned else ""
            if gone or care.adopted:
                yield care, view

    def is_process_gone(self, signature: str) -> bool:
        """Whether a process is certainly gone: an earlier one of our name, offline or let go."""
        if signature == RELEASED:
            return True
        name = worker_of(signature)
        earlier = name == self._world.worker_name and signature != self._world.signature
        return earlier or name in self._roster.offline

    def _is_gone(self, care: Care, view: RunView) -> bool:
        if care.adopted and not view.waits_for_next:
            return False
        if view.holder and view.holder_is_current:
            # Our own signature without a ticket: this process has given the run up.
            return view.holder == self._world.signature or self.is_process_gone(view.holder)
        worker = view.labels.get(WORKER_LABEL, "")
        earlier = worker == self._world.worker_name and self._since(view) < self._begun_at
        if earlier or worker in self._roster.offline:
            return True
        if self._world.slots.is_submitting(view.id):
            return False
        if view.deployment_id and self._roster.online <= {self._world.worker_name}:
            # Only workers take a deployment's run; this one did not, and there is no other.
            return True
        # One that lives names itself within seconds, and the create claim stops a frozen one.
        age = (self._world.clock.now() - self._since(view)).total_seconds()
        return age >= self._world.figures.unannounced_seconds

    def _since(self, view: RunView) -> datetime:
        """When the run entered its state, by this machine's clock."""
        return self._world.leads.prefect.here(view.state_time)

    def let_go(self, care: Care) -> None:
        """Give back an adopted run's place in this worker's limit."""
        if care.counted:
            self._world.slots.free(care.run_id)
        care.adopted = care.counted = False

    async def _adopt(self, care: Care, view: RunView) -> None:
        """Take a place in this worker's limit for a job whose holder is gone."""
        if care.adopted:
            care.counted = care.counted or self._world.slots.take(care.run_id)
            return
        if not care.has_live_job:
            return
        key = f"prefect-vertex-adopt-a{care.newest_attempt}-{view.holder.rpartition('/')[2]}"
        if not await win(self._world, view.id, key, is_gone=self.is_process_gone):
            return
        released = view.holder == RELEASED
        care.adopted = True
        care.orphaned_in = ""
        care.counted = self._world.slots.take(care.run_id)
        await self._world.runs.label(view.id, {INSTANCE_LABEL: self._world.signature})
        self._world.runs.log(
            view,
            logging.INFO,
            f"Worker '{self._world.worker_name}' goes on with this run; "
            + ("its submitter has ended." if released else "its worker stopped."),
        )

    def learn(self, care: Care, view: RunView) -> None:
        """Take over what the run's labels say, where this process knows nothing better."""
        care.seen = view
        self._world.leads.learn(self._world.clock.now(), view, ())
        care.read_trail(view)
        if care.assignment is None and POLICY_LABEL in view.labels:
            care.policy = parse_policy(view.labels[POLICY_LABEL])
