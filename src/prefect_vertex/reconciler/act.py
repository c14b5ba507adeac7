"""What was decided for a run, carried out: one method for each kind of decision."""

from __future__ import annotations

import logging
from datetime import timedelta

from prefect_vertex.chronicle.events import CRASHED_EVENT, crash_event
from prefect_vertex.errors import JobNotFoundError
from prefect_vertex.lifecycle.decisions import (
    CancelJob,
    Crash,
    Create,
    Decision,
    Describe,
    HandBack,
    Hop,
    Look,
    MarkCancelled,
    Requeue,
    Reschedule,
    Settle,
    Show,
    Wait,
    Withdraw,
)
from prefect_vertex.lifecycle.run import (
    SETTLED_LABEL,
    STRAY_LABEL,
    VERDICT_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.claims import win
from prefect_vertex.reconciler.followers import settle_followers
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.rereads import is_same_stay, renewed
from prefect_vertex.reconciler.search import Search
from prefect_vertex.reconciler.submit import Submitter
from prefect_vertex.reconciler.upkeep import Upkeep
from prefect_vertex.reconciler.walk import Walker
from prefect_vertex.runs.port import Proposal

_ON_ITS_WORD = (Crash, Hop, MarkCancelled, Reschedule, Requeue, CancelJob)
"""Decisions that end or move a waiting run because it waits."""

_SAID_ONCE = (MarkCancelled, Reschedule)
"""Proposals that the server takes a second time: several workers may come to them together."""

_ON_NO_WORD = (Wait, Describe, Look, Show)
"""Decisions that an old view does no harm to; before a Show the run is read and judged anew."""


class Actor:
    """Carries out decisions; each may be carried out again without harm."""

    def __init__(self, world: World, upkeep: Upkeep) -> None:
        self._world = world
        self._upkeep = upkeep
        self.search = Search(world)
        self.walker = Walker(world)
        self.submitter = Submitter(world, self.walker)

    async def carry_out(self, care: Care, view: RunView | None, decision: Decision) -> bool:
        """Do it.

        Returns:
            Whether the run is to be looked at again at once, because something has changed.
        """
        if isinstance(decision, _ON_ITS_WORD) and await self.put_right(care, view):
            return True
        is_once = isinstance(decision, _SAID_ONCE)
        if view is not None and is_once and not await self._wins(care, view, "end"):
            self._soon(care)
            return False
        if view is not None and _rests_on_the_run(care, decision):
            # As late as can be: the server takes nearly every state over nearly every other.
            view = await renewed(self._world, view)
            if view is None:
                return True
        if unseen := await settle_followers(self._world, care, view, decision):
            return await self._describe(care, unseen)
        return await self._do(care, view, decision)

    async def _do(self, care: Care, view: RunView | None, decision: Decision) -> bool:  # noqa: C901, PLR0911, PLR0912 - a dispatch
        match decision:
            case Wait(until):
                care.look_at = until
                return False
            case Describe(job):
                return await self._describe(care, job)
            case CancelJob():
                return await self._cancel(care, view, decision)
            case Withdraw():
                return await self._withdraw(care, view, decision)
            case Settle(outcome):
                care.end(outcome)
                care.look_at = None
                return False
            case _ if view is None:  # pragma: no cover - nothing else is decided for a deleted run
                return False
            case Create():
                step = await self.submitter.step(care, view)
                return await self._crash(care, view, step) if isinstance(step, Crash) else step
            case Look():
                return await self.search.look(care, view)
            case Show(name, message):
                proposal = Proposal(state=RunState.PENDING, name=name, message=message)
                await self._world.runs.propose(view.id, proposal)
                self._soon(care)
                return False
            case Crash():
                return await self._crash(care, view, decision)
            case Hop():
                return await self._hop(care, view, decision)
            case MarkCancelled(outcome, message):
                proposal = Proposal(state=RunState.CANCELLED, name="Cancelled", message=message)
                return await self._propose_end(care, view, proposal)
            case Reschedule():
                return await self._reschedule(care, view, decision)
            case HandBack(outcome):
                await self._world.runs.hand_back(view.id)
                self._info(view, "Its process is gone; the flow run waits for any worker.")
                care.end(outcome)
                return False
            case Requeue(message):
                return await self._requeue(care, view, message)

    async def put_right(self, care: Care, view: RunView | None) -> bool:
        """Undo a worker's late word that the server took over what had become of the run.

        Returns:
            Whether there was one; the run is to be read again.
        """
        if view is None or view.state is not RunState.PENDING or care.sure_of == view.state_id:
            return False
        if not view.attempt and not view.identifier:
            # Without a job it has not come further than this.
            return False
        if not await self._world.runs.restore(view):
            care.sure_of = view.state_id
            return False
        self._info(view, f"'{view.state_name}' reached Prefect late; the state before it is back.")
        return True

    async def _wins(self, care: Care, view: RunView, what: str) -> bool:
        """Whether it is this process that says how the run goes on from the state that it is in.

        One that was to say it and does not counts as gone in the end: a command that was stopped
        stands in no list of workers, nor does a worker whose entry was deleted.
        """
        key, now = f"prefect-vertex-{what}-{view.state_id}", self._world.clock.now()
        patience = timedelta(seconds=self._world.figures.unannounced_seconds)

        def is_gone(owner: str) -> bool:
            since = care.lost_to.setdefault((key, owner), now)
            return self._upkeep.is_process_gone(owner) or now - since >= patience

        return await win(self._world, view.id, key, is_gone=is_gone)

    async def _describe(self, care: Care, name: ResourceName) -> bool:
        target = self.search.target_for(care, name)
        try:
            job = await self._world.gateways.for_target(target).describe(name)
        except JobNotFoundError:
            care.miss(name, self._world.clock.now())
            return True
        care.see(job, target)
        return True

    async def _cancel(self, care: Care, view: RunView | None, decision: CancelJob) -> bool:
        reasons = _reasons(view, decision) if view is not None else {}
        if view is not None and reasons.items() - view.labels.items():
            await self._world.runs.label(view.id, reasons)
        target = self.search.target_for(care, decision.job)
        await self._world.gateways.for_target(target).cancel(decision.job)
        care.cancels[decision.job.key] = self._world.clock.now()
        if view is not None:
            text = f"Cancelling CustomJob {decision.job.job_id}: {decision.because}."
            self._info(view, text)
            verdict = reasons.get(VERDICT_LABEL, "")
            if verdict and not verdict.endswith(":sent"):
                await self._world.runs.label(view.id, {VERDICT_LABEL: f"{verdict}:sent"})
        self._soon(care)
        return False

    async def _withdraw(self, care: Care, view: RunView | None, decision: Withdraw) -> bool:
        if view is None:  # pragma: no cover - of a deleted run nothing is known
            return False
        labels = {STRAY_LABEL: " ".join(sorted(view.strays - {decision.job.job_id}))}
        if view.verdict(decision.attempt):
            labels[VERDICT_LABEL] = ""
        await self._world.runs.label(view.id, labels)
        care.cancels.pop(decision.job.key, None)
        return True

    async def _crash(self, care: Care, view: RunView, decision: Crash) -> bool:
        if not await is_same_stay(self._world, view):
            # It was told first what had been tried, and that may take long.
            return True
        proposal = Proposal(state=RunState.CRASHED, name="Crashed", message=decision.message)
        if not await self._world.runs.propose(view.id, proposal):
            self._soon(care)
            return False
        self._world.runs.log(view, logging.ERROR, self._told(care, decision))
        payload = crash_event(decision.outcome, care.newest, decision.message)
        self._world.runs.emit(view, CRASHED_EVENT, view.state_id, payload)
        await self.walker.ended(care, view)
        care.end(decision.outcome, crashed=True)
        return care.has_live_job

    def _told(self, care: Care, decision: Crash) -> str:
        """What the run's log says of a crash; the state says all of it.

        Where the replicas' lines come into the log, Vertex AI's copy of the last ones is left out.
        """
        diagnosis, text = decision.outcome.diagnosis, decision.message
        if diagnosis is None or "\n" not in diagnosis.detail or not text.endswith(diagnosis.detail):
            return text
        is_streamed = care.policy.stream_output and self._world.log_source is not None
        return text.removesuffix(diagnosis.detail).rstrip() if is_streamed else text

    async def _hop(self, care: Care, view: RunView, decision: Hop) -> bool:
        step = await self.walker.hop(care, view, decision)
        if isinstance(step, Crash):
            return await self._crash(care, view, step)
        if isinstance(step, Requeue):
            return await self._requeue(care, view, step.message)
        return step

    async def _propose_end(self, care: Care, view: RunView, proposal: Proposal) -> bool:
        """Propose Cancelled; the next look settles what came of it."""
        if await self._world.runs.propose(view.id, proposal):
            self._info(view, proposal.message)
            return True
        self._soon(care)
        return False

    async def _reschedule(self, care: Care, view: RunView, decision: Reschedule) -> bool:
        proposal = Proposal(
            state=RunState.SCHEDULED,
            name="AwaitingRetry",
            message=decision.message,
        )
        if not await self._world.runs.propose(view.id, proposal):
            self._soon(care)
            return False
        self._info(view, f"{decision.message} Another attempt is due.")
        # The next look settles it, or hands it back where the run still retries in process.
        return True

    async def _requeue(self, care: Care, view: RunView, message: str) -> bool:
        mine = await self._wins(care, view, "adopt")
        fresh = await self._world.runs.read(view.id)
        if not mine or fresh is None or fresh.state_id != view.state_id:
            self._soon(care)
            return False
        if not view.waits_for_next and care.newest_attempt < view.attempt:
            await self._world.runs.label(view.id, {SETTLED_LABEL: str(view.attempt)})
        proposal = Proposal(state=RunState.SCHEDULED, name="Scheduled", message=message)
        await self._world.runs.propose(view.id, proposal)
        self._info(view, message)
        care.done = True
        return False

    def _soon(self, care: Care) -> None:
        care.look_at = self._world.clock.now() + timedelta(
            seconds=self._world.figures.tick_seconds,
        )

    def _info(self, view: RunView, message: str) -> None:
        self._world.runs.log(view, logging.INFO, message)


def _reasons(view: RunView, decision: CancelJob) -> dict[str, str]:
    """What the run's labels are to say of a cancel before it is sent."""
    labels = {}
    if decision.stray:
        labels[STRAY_LABEL] = " ".join(sorted(view.strays | {decision.job.job_id}))
    if decision.verdict is not None:
        known, verdict = (
            view.labels.get(VERDICT_LABEL),
            f"{decision.attempt}:{decision.verdict.value}",
        )
        labels[VERDICT_LABEL] = f"{verdict}:sent" if known == f"{verdict}:sent" else verdict
    return labels


def _rests_on_the_run(care: Care, decision: Decision) -> bool:
    """Whether it would do harm to a run that has gone on since it was read."""
    if isinstance(decision, Settle):
        return bool(care.tickets or care.due_attempt)
    return not isinstance(decision, _ON_NO_WORD)
