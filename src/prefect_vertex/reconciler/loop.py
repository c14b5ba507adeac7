"""The reconciler: one finite pass over the pool, and a thin loop round it that never ends."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Self

import anyio
from anyio.abc import TaskGroup

from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.reconciler.answers import crash_for
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.bystanders import chronicler_of, note, streams_of
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.faults import log_fault
from prefect_vertex.reconciler.followers import left_behind
from prefect_vertex.reconciler.observe import Observer
from prefect_vertex.reconciler.places import Places
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.recorder import Recorder
from prefect_vertex.reconciler.steps import Attendant
from prefect_vertex.reconciler.tickets import Ticket
from prefect_vertex.reconciler.upkeep import Upkeep
from prefect_vertex.runs.port import PrefectUnavailableError

logger = logging.getLogger(__name__)

FIRST_LOOK_BACK = timedelta(days=1)
"""How far back a new process reads runs that ended: they may name places where jobs live on."""

OVERLAP_SECONDS = 30.0
"""How far back the runs that ended are read again: reads take time."""

BACKOFF_MAX_SECONDS = 60.0
"""Longest pause of a loop whose ticks fail."""


class Reconciler:
    """Keeps every run of the pool and its jobs in step.

    It is entered where its tasks may live (around `BaseWorker.start()`), and left by cancelling
    them: nothing is proposed or cancelled on the way out.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.book: dict[str, Care] = {}
        self._places = Places(world, self.book)
        self._observer = Observer(world, self.book)
        self._upkeep = Upkeep(world, self.book)
        self._attendant = Attendant(world, self._upkeep)
        self.streams = streams_of(world, self._upkeep)
        self.chronicler = chronicler_of(world, self._upkeep)
        self.recorder = Recorder(world, world.objects) if world.objects is not None else None
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._nudged = anyio.Event()
        self._idle = anyio.Event()
        self._ended_since = world.clock.now() - FIRST_LOOK_BACK
        self._swept_at: datetime | None = None
        self._wanted: set[str] = set()
        self._prefect_trouble = ""
        self._alive_until = self._next_due(world.figures.tick_seconds)
        self.failures = 0

    async def __aenter__(self) -> Self:
        """Open the task group that steps run in."""
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        if self.streams is not None:
            self._tasks.start_soon(self.streams.run_forever)
        if self.chronicler is not None:
            self._tasks.start_soon(self.chronicler.run_forever)
        if self.recorder is not None:
            self._tasks.start_soon(self.recorder.run_forever)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel what is under way; the next process goes on from what is recorded."""
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        await self._stack.aclose()
        self._tasks = None
        if self.recorder is not None:
            await self.recorder.finish()
        if self.chronicler is not None:
            await self.chronicler.finish()

    # --- what the worker asks ---------------------------------------------------------------------

    def take(self, assignment: Assignment) -> Ticket:
        """Put a run that this process moved to Pending under care; its job is created at once."""
        care = self._care(assignment.run_id)
        ticket = care.begin(assignment.policy, self.world.clock.now())
        care.assignment, care.to_find = assignment, True
        self._places.add(candidate.target for candidate in assignment.spec.candidates)
        self._start(care)
        return ticket

    def hold(self, run_id: str, policy: RunPolicy) -> Ticket:
        """Keep a run that this process moved to Pending, until it is known what it asks for."""
        return self._care(run_id).begin(policy, self.world.clock.now())

    def refuse(self, run_id: str, policy: RunPolicy, message: str) -> Ticket:
        """Crash a run that this process holds and that cannot be asked for; tried until it took."""
        care = self._care(run_id)
        ticket = care.begin(policy, self.world.clock.now())
        care.due_attempt = care.newest_attempt + 1
        care.failed = crash_for(message)
        self._start(care)
        return ticket

    def drop(self, run_id: str, ticket: Ticket) -> None:
        """Nobody waits on this ticket any more; the run stays under care."""
        care = self.book.get(run_id)
        if care is not None and ticket in care.tickets:
            care.tickets.remove(ticket)

    def nudge(self, run_id: str = "") -> None:
        """Look now, at one run or at all."""
        if run_id:
            care = self._care(run_id)
            self._interrupt(care)
            self._start(care)
        else:
            self._nudged.set()

    async def read_workers(self) -> None:
        """Learn which workers are gone, where nothing ticks; nothing is adopted.

        Raises:
            PrefectUnavailableError: The Prefect API failed.
        """
        await self._upkeep.mind_holders([], await self.world.runs.roster())

    @property
    def waiting_submissions(self) -> int:
        """Runs whose job this process has still to create, but for those that wait for machines."""
        cares = self.book.values()
        return sum(1 for care in cares if care.due_attempt and not care.waits_for_capacity)

    # --- the loop ---------------------------------------------------------------------------------

    async def run_forever(self) -> None:
        """Tick until cancelled; a tick that fails is followed by another, later."""
        while True:
            try:
                await self.tick()
            except PrefectUnavailableError as error:
                self._say_prefect(str(error))
                self.failures += 1
            except Exception as error:  # noqa: BLE001 - the next tick begins afresh
                text = "A look at the pool's runs and jobs failed; the next one follows."
                log_fault(logger, error, text)
                self.failures += 1
            else:
                self._say_prefect("")
                self.failures = 0
            await self._pause()

    async def _pause(self) -> None:
        seconds = self.interval
        if self.failures:
            seconds = min(seconds * 2 ** min(self.failures, 5), BACKOFF_MAX_SECONDS)
        with anyio.move_on_after(seconds):
            await self._nudged.wait()
        self._nudged = anyio.Event()

    @property
    def interval(self) -> float:
        """Seconds to the next tick: shorter where a run asks for it, longer for many pages."""
        figures = self.world.figures
        wished = [
            care.policy.poll_interval_seconds
            for care in self.book.values()
            if care.policy.poll_interval_seconds is not None
        ]
        seconds = max(1.0, min([figures.tick_seconds, *wished]))
        # Pages of jobs take at most half of the reads.
        return max(seconds, self._observer.pages * 60.0 / (figures.reads_per_minute / 2))

    # --- one pass ---------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Jobs first, runs second, then a step for every run that has changed or is due.

        Raises:
            PrefectUnavailableError: The Prefect API failed; nothing was done on stale knowledge.
        """
        begun = self.world.clock.now()
        # Kept until acted upon: a change is seen once, and Prefect may fail below.
        targets = sorted(self._places.targets(), key=str)
        # Not for longer than is between ticks, or the health check would miss some.
        wait = min(self.interval, self.world.figures.tick_seconds)
        self._wanted |= await self._observer.look(targets, self._entered, seconds=wait)
        # Prefect answers by its own clock.
        since = self.world.leads.prefect.there(self._ended_since)
        since -= timedelta(seconds=OVERLAP_SECONDS)
        views = {view.id: view for view in await self.world.runs.cancelling_or_ended(since)}
        self._places.learn(views.values())
        if self.chronicler is not None:
            self.chronicler.look(view for view in views.values() if view.is_final)
        self._wanted |= {run_id for run_id in views if self._concerns(views[run_id])}
        self._wanted |= self._due()
        if self._swept_at is None:
            self._wanted |= await left_behind(self.world, views.values())
        if self._sweep_due(begun):
            self._wanted |= await self._sweep(views)
            self._swept_at = begun
        idle = {run_id for run_id in self._wanted if not self._care(run_id).busy}
        views |= await self.world.runs.read_many(idle - views.keys())
        for run_id in sorted(self._wanted):
            self._start(self._care(run_id), views.get(run_id))
        self._wanted = set()
        # Only now: what ended is read once more if Prefect failed above.
        self._ended_since = begun
        await self._upkeep.renew_leases()
        if self.streams is not None:
            self.streams.look(self.book, views)
        self._forget()
        self._alive_until = self._next_due(self.interval)

    @property
    def is_alive(self) -> bool:
        """Whether the loop goes on; the health check asks from a thread of its own."""
        return self.world.clock.now() <= self._alive_until

    def _next_due(self, interval: float) -> datetime:
        return self.world.clock.now() + timedelta(seconds=3 * interval)

    def _sweep_due(self, now: datetime) -> bool:
        pause = timedelta(seconds=self.world.figures.sweep_seconds)
        return self._swept_at is None or now - self._swept_at >= pause

    @staticmethod
    def _interrupt(care: Care) -> None:
        """Tell a step that waits for its turn to submit that the run may wait no more."""
        if care.interrupt is not None:
            care.interrupt.set()

    def _due(self) -> set[str]:
        now = self.world.clock.now()
        return {
            care.run_id
            for care in self.book.values()
            if care.look_at is not None and care.look_at <= now
        }

    def _concerns(self, view: RunView) -> bool:
        """Whether a run from a list of states may need a step."""
        return not view.is_final or view.id in self.book

    async def _sweep(self, views: dict[str, RunView]) -> set[str]:
        """Read all unfinished runs, and all under care: what no change would show."""
        unfinished = await self.world.runs.unfinished()
        roster = await self.world.runs.roster()
        for view in unfinished:
            views[view.id] = view
            care = self._care(view.id)
            self._upkeep.learn(care, view)
        self._places.learn(unfinished)
        cares = [self._care(view.id) for view in unfinished]
        await self._upkeep.mind_holders(cares, roster)
        return {view.id for view in unfinished} | self.book.keys()

    def _care(self, run_id: str) -> Care:
        return self.book.setdefault(run_id, Care(run_id=run_id))

    def _forget(self) -> None:
        """Let go of runs that have nothing left to do, so that memory follows live jobs."""
        for run_id, care in list(self.book.items()):
            if care.busy or care.tickets or care.due_attempt or care.look_at is not None:
                continue
            if care.has_live_job or not care.done:
                continue
            self._upkeep.let_go(care)
            del self.book[run_id]

    # --- one run ----------------------------------------------------------------------------------

    def _start(self, care: Care, view: RunView | None = None) -> None:
        if care.busy:
            if view is not None and view.state is not RunState.PENDING:
                self._interrupt(care)
            care.again = True
            return
        care.busy = True
        self._idle = anyio.Event() if self._idle.is_set() else self._idle
        self._entered.start_soon(self._attend, care, view)

    @property
    def _entered(self) -> TaskGroup:
        if self._tasks is None:
            raise RuntimeError("The reconciler is not entered.")
        return self._tasks

    async def settled(self) -> None:
        """Wait until no step is under way; for tests and for one-run workers."""
        while any(care.busy for care in self.book.values()):
            await self._idle.wait()
            self._idle = anyio.Event()

    async def _attend(self, care: Care, view: RunView | None) -> None:
        try:
            await self._attendant.attend(care, view)
            note(care, self.recorder, self.chronicler)
        except PrefectUnavailableError as error:
            self._say_prefect(str(error))
        finally:
            care.busy = False
            self._idle.set()

    def _say_prefect(self, trouble: str) -> None:
        """Say once that the Prefect API fails, and once that it answers again."""
        if trouble and not self._prefect_trouble:
            logger.warning("%s Runs and jobs are left as they are until it answers.", trouble)
        if not trouble and self._prefect_trouble:
            logger.info("The Prefect API answers again.")
        self._prefect_trouble = trouble
