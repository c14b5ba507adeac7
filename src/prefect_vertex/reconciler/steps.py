"""One run: decide and act until nothing changes."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

from prefect_vertex.chronicle.events import entered_at, phase_event
from prefect_vertex.errors import ServiceError
from prefect_vertex.lifecycle.absence import empty_long_enough, lost_before
from prefect_vertex.lifecycle.decide import decide
from prefect_vertex.lifecycle.decisions import Decision, Describe, Show
from prefect_vertex.lifecycle.diagnosis import is_incomplete
from prefect_vertex.lifecycle.policy import parse_policy
from prefect_vertex.lifecycle.run import (
    AWAITING_STATE,
    HELD_LABEL,
    INSTANCE_LABEL,
    POLICY_LABEL,
    WAIT_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.stall import is_watched, stall_due
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.links import shell_links
from prefect_vertex.reconciler.act import Actor
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.faults import log_fault
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.rereads import is_old
from prefect_vertex.reconciler.starts import (
    first_to_start,
    has_begun,
    has_started,
    name_by_start,
)
from prefect_vertex.reconciler.trails import due_after
from prefect_vertex.reconciler.upkeep import Upkeep
from prefect_vertex.runs.port import PrefectUnavailableError

logger = logging.getLogger(__name__)

MAX_DOUBLINGS = 4
"""How often the pause after a step that failed is doubled."""

MAX_STEPS = 20
"""Steps for one run in one go; more would mean that a decision does not change what it sees."""


class Attendant:
    """Takes one run's steps; one run's fault never touches another.

    Args:
        world: Its adapters.
        upkeep: Reads what a run's labels say.
    """

    def __init__(self, world: World, upkeep: Upkeep) -> None:
        self.world = world
        self._upkeep = upkeep
        self._actor = Actor(world, upkeep)

    async def attend(self, care: Care, view: RunView | None) -> None:
        """Decide and act until nothing changes.

        Args:
            care: The run.
            view: As just read after its jobs; None: read it.

        Raises:
            PrefectUnavailableError: The Prefect API failed; the run is looked at again later.
        """
        try:
            care.look_at = None
            if view and care.taken_at and view.observed_at < care.taken_at:
                view = None
            await self._take_steps(care, view)
        except PrefectUnavailableError:
            self._later(care)
            raise
        except ServiceError as error:
            self._later(care)
            if care.troubles == 0:
                logger.warning("Flow run %s is looked at again later. %s", care.run_id, error)
            care.troubles += 1
        except Exception as error:  # noqa: BLE001 - a fault of one run stays with it
            self._later(care)
            text = "A step for flow run %s failed; it is tried again."
            log_fault(logger, error, text, care.run_id)
        else:
            care.troubles = 0

    def _later(self, care: Care) -> None:
        pause = self.world.figures.tick_seconds * 2 ** min(care.troubles, MAX_DOUBLINGS)
        care.look_at = self.world.clock.now() + timedelta(seconds=pause)

    async def _take_steps(self, care: Care, view: RunView | None) -> None:
        before: Decision | None = None
        for _ in range(MAX_STEPS):
            care.again = False
            # Jobs first, the run second: it can't change any more once its job was seen terminal.
            jobs = tuple(care.jobs.values())
            view = view or await self.world.runs.read(care.run_id)
            decision = await self._decide(care, view, jobs)
            if decision == before and isinstance(decision, Describe):
                # The answer was too old on arrival: the API is slow, and asking harder won't help.
                break
            shows = isinstance(decision, Show) and decision != before
            if shows and view is not None and is_old(self.world, view):
                # The server takes a waiting state over a run that has ended meanwhile.
                before, view = decision, None
                continue
            more = (
                await self._find_due(care, view)
                if decision is None and view is not None
                else decision is not None and await self._actor.carry_out(care, view, decision)
            )
            if not more and not care.again:
                return
            before, view = decision, None
        self._later(care)

    async def _decide(
        self, care: Care, view: RunView | None, jobs: tuple[JobSnapshot, ...]
    ) -> Decision | None:
        """What to do next; None: find out first which attempt is due."""
        if view is None:
            care.gone = (*care.gone[:1], self.world.clock.now())
        else:
            care.gone = ()
            self._upkeep.learn(care, view)
            if care.to_find and view.state is RunState.PENDING:
                return None
            if view.is_final or view.state is RunState.CANCELLING:
                care.to_find = False
            elif view.state in {RunState.RUNNING, RunState.PAUSED}:
                care.watch()
        care.done = False
        self.world.leads.learn(self.world.clock.now(), view, jobs)
        if view is not None:
            await self._read_start_claim(care, view, jobs)
            view = await name_by_start(self.world.runs, care, view)
            await self._read_starts(care, view)
            await self._read_signs(care, view)
            if care.failed is not None:
                care.due_attempt = max(care.due_attempt, care.newest_attempt + 1)
            elif 0 < care.due_attempt <= care.newest_attempt:
                await self._actor.submitter.found(care, view)
            await self._read_loss(care, view)
        run, dated = self.world.leads.all(view, jobs)
        decision = decide(run, dated, care.policy, self.world.clock.now(), care.notes)
        if view is not None:
            await self._show_phases(care, view)
            await self._repair_identifier(care, view)
        return decision

    async def _find_due(self, care: Care, view: RunView) -> bool:
        """Find out which attempt is due before one is created; nothing to ask for a fresh run."""
        elsewhere = self._is_held_elsewhere(view)
        if not care.announced and not elsewhere:
            # Others must see from the first moment that somebody holds the run.
            labels = {INSTANCE_LABEL: self.world.signature, HELD_LABEL: view.state_id}
            await self.world.runs.label(view.id, labels)
            care.announced = True
        care.settled_attempt = max(care.settled_attempt, view.settled_attempt)
        labelled = max(view.attempt, care.contested_attempt)
        fresh = not labelled and not view.identifier
        if not fresh:
            if await self._actor.put_right(care, view):
                return True
            await self._actor.search.look(care, view)
            if care.failed is not None:
                return True
        if elsewhere or 0 < care.contested_attempt <= care.newest_attempt:
            await self._actor.submitter.yield_to(care, view)
            return True
        settled = labelled == care.settled_attempt or empty_long_enough(care.looks, care.policy)
        found = max(care.newest_attempt, care.trail.answered)
        due = due_after(found, labelled, settled=settled)
        # Its job ran, and was deleted since: no container may start for that attempt again.
        care.vanished = 0 < due == labelled and await has_started(
            self.world.runs, view.id, labelled
        )
        due += care.vanished
        if due:
            if settled and due == labelled:
                care.settled_attempt = labelled
            # Asked before anything is decided: the answer may fail to come.
            came_from = await self.world.runs.came_from(view) if due > 1 else None
            care.rescheduled = came_from is RunState.RUNNING
            # Ended, or suspended, and submitted again: what went before is no part of a walk.
            care.anew = came_from not in {None, RunState.RUNNING}
            self._judge_by_last_policy(care, view)
            tried = care.submission
            if tried is not None and (tried.attempt != due or care.choice is None):
                care.submission = care.choice = care.answer = None
            care.due_attempt, care.to_find, care.looks = due, False, ()
            care.contested_attempt = 0
            return True
        self._say_that_it_looks(care, view, labelled)
        pause = care.policy.create_settle_seconds / max(1, care.policy.create_settle_looks - 1)
        care.look_at = self.world.clock.now() + timedelta(seconds=pause)
        return False

    def _say_that_it_looks(self, care: Care, view: RunView, attempt: int) -> None:
        """Tell a person once why a run stands still."""
        if len(care.looks) == 1:
            limit = care.policy.create_settle_seconds
            text = f"Attempt {attempt} may have a CustomJob: looking for it, for {limit:g} s."
            self.world.runs.log(view, logging.INFO, text)

    def _is_held_elsewhere(self, view: RunView) -> bool:
        """Whether another process has already announced an attempt for this very wait of the run.

        It happens to a process that stood still, or was cut off, while its run was taken from it.
        """
        announced_here = bool(view.labels.get(WAIT_LABEL)) and not view.waits_for_next
        announced_here |= view.state_name == AWAITING_STATE
        return view.attempt > 0 and announced_here and view.holder != self.world.signature

    async def _read_start_claim(
        self, care: Care, view: RunView, jobs: tuple[JobSnapshot, ...]
    ) -> None:
        """Of two jobs for one attempt, ask which one's container was the first to start."""
        newest = max((job.attempt for job in jobs), default=0)
        rivals = [job.resource_name.job_id for job in jobs if job.attempt == newest]
        if len(rivals) < 2 or care.claimed_job_id in rivals:  # noqa: PLR2004 - two make a pair
            return
        claim = await first_to_start(self.world.runs, view.id, newest)
        care.claimed_job_id = next((job_id for job_id in rivals if job_id in claim), "")

    async def _read_starts(self, care: Care, view: RunView) -> None:
        """Ask whether a container of a job that was never RUNNING began all the same."""
        job = care.newest
        if job is None or not job.is_terminal:
            return
        if job.start_time is not None and not is_incomplete(job):
            return
        waits = view.state in {RunState.PENDING, RunState.SCHEDULED}
        if not waits or job.attempt in care.unstarted | care.started:
            return
        if await has_begun(self.world.runs, view.id, job):
            care.started |= {job.attempt}
        else:
            care.unstarted |= {job.attempt}

    async def _read_loss(self, care: Care, view: RunView) -> None:
        """Ask whether the attempt before the due one ran, once its job is gone for certain."""
        lost = lost_before(care.due_attempt, care.newest_attempt, care.absences.values())
        if lost is not None and lost.confirmed and care.rescheduled and not care.vanished:
            care.vanished = await has_started(self.world.runs, view.id, lost.attempt)

    async def _read_signs(self, care: Care, view: RunView) -> None:
        """Ask for a run's last sign of life, once the last one that is known is too long ago."""
        job = care.newest
        if job is None or not is_watched(view, job, care.policy):
            care.last_sign = None
            return
        leads = self.world.leads
        due = stall_due(leads.run(view), leads.job(job), care.policy, care.last_sign)
        if self.world.clock.now() < due:
            return
        care.last_sign = None
        try:
            care.last_sign = leads.prefect.here(await self.world.runs.last_sign(view))
        except PrefectUnavailableError as error:
            logger.warning("Flow run %s: its signs of life were not read. %s", view.id, error)

    @staticmethod
    def _judge_by_last_policy(care: Care, view: RunView) -> None:
        """The last attempt's end is read by what its own candidate was, until the next is sent."""
        text = view.labels.get(POLICY_LABEL)
        if text is None or care.assignment is None:
            return
        last = parse_policy(text)
        care.policy = replace(
            care.assignment.policy, spot=last.spot, timeout_seconds=last.timeout_seconds
        )

    async def _repair_identifier(self, care: Care, view: RunView) -> None:
        """Name the newest live job, whatever a late write of the base class put there."""
        job = care.newest
        if job is None or job.is_terminal or view.is_final:
            return
        if view.identifier != str(job.resource_name):
            await self.world.runs.name_infrastructure(view.id, str(job.resource_name))

    async def _show_phases(self, care: Care, view: RunView) -> None:
        """One event and one line for each phase that a job enters."""
        for job in care.jobs.values():
            self._show_shells(care, view, job)
            key = (*job.resource_name.key, job.phase.value)
            if key in care.shown:
                continue
            care.shown.add(key)
            payload = phase_event(job, care.policy)
            name = f"prefect-vertex.job.{job.phase.value}"
            self.world.runs.emit(view, name, "/".join(key), payload, at=entered_at(job))
            if care.tickets or care.adopted:
                text = f"CustomJob {job.resource_name.job_id}: {job.phase.value}."
                self.world.runs.log(view, logging.INFO, text)
            running = (*job.resource_name.key, JobPhase.RUNNING.value)
            was_missed = (
                job.is_terminal and job.start_time is not None and running not in care.shown
            )
            if job.phase is JobPhase.RUNNING or was_missed:
                await self._actor.walker.found(care, view, job)

    def _show_shells(self, care: Care, view: RunView, job: JobSnapshot) -> None:
        """One line for each interactive shell, once Vertex AI has opened it."""
        for replica, url in shell_links(job.web_access_uris).items():
            key = (*job.resource_name.key, f"shell of {replica}")
            if key not in care.shown and (care.tickets or care.adopted) and not job.is_terminal:
                care.shown.add(key)
                self.world.runs.log(view, logging.INFO, f"Web shell of {replica}: {url}")
