"""The walk, carried out: what `capacity.walk` says, told to Prefect before anything is done."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from prefect_vertex.capacity.ledger import (
    exhausted_message,
    parse_names,
    row_of,
    table,
    waiting_message,
)
from prefect_vertex.capacity.refusals import RefusalReason, Scope
from prefect_vertex.capacity.trail import format_trail
from prefect_vertex.capacity.walk import Exhausted, Next, Trail, Try, next_try, with_try
from prefect_vertex.lifecycle.decisions import Crash, Hop, Requeue
from prefect_vertex.lifecycle.history import REQUEUED
from prefect_vertex.lifecycle.outcomes import Diagnosis, JobOutcome
from prefect_vertex.lifecycle.run import (
    AWAITING_STATE,
    NAMES_LABEL,
    RELEASED,
    SETTLED_LABEL,
    SUBMITTING_STATE,
    WALK_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.reconciler.answers import (
    Answer,
    Choice,
    reason_of_end,
    refusal_of_job,
    try_of_started,
)
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.trails import due_trail, holds_everywhere, place_of, with_projects
from prefect_vertex.runs.port import PrefectUnavailableError, Proposal

logger = logging.getLogger(__name__)

_ABOUT_THE_PLACE = frozenset({RefusalReason.NOT_HERE, RefusalReason.IMAGE})
"""What ends a run with one candidate in the answer's own words, as there was no walk."""


class Walker:
    """Takes one run from candidate to candidate."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def choose(self, care: Care, view: RunView) -> Crash | datetime | None:
        """Choose where the due attempt is tried.

        Returns:
            When, if that is not yet; Crash if it is nowhere; None if it is chosen.
        """
        assignment = care.assignment
        if assignment is None:
            return None
        now = self._world.clock.now()
        trail = due_trail(care, view, assignment, now)
        step = next_try(trail, len(assignment.spec.candidates), assignment.capacity, now)
        if isinstance(step, Exhausted):
            return await self._give_up(care, view, trail, step)
        if step.at > now:
            await self._show_pause(care, view, trail, step)
            return step.at
        care.choice = Choice(trail, step.candidate)
        care.waits_for_capacity = False
        if trail.past and trail.past[-1] not in care.trail.told:
            await self._tell_loss(care, view, trail, step)
        return None

    async def _show_pause(self, care: Care, view: RunView, trail: Trail, step: Next) -> None:
        """Say what the run waits for where another process had said it, and the run moved on."""
        if view.state_name == AWAITING_STATE or care.assignment is None:
            return
        fresh = await self._world.runs.read(view.id)
        if fresh is None or fresh.state_id != view.state_id or view.holder != self._world.signature:
            return
        message = waiting_message(trail, step, care.assignment.names, waits=True)
        if await self._show(view, message, waits=True):
            self._world.runs.log(view, logging.WARNING, message)

    async def _tell_loss(self, care: Care, view: RunView, trail: Trail, step: Next) -> None:
        """The run begins anew elsewhere, because its machines were taken back."""
        names = care.assignment.names if care.assignment is not None else ()
        message = waiting_message(trail, step, names, waits=False)
        self._tell(view, trail, trail.past[-1], names, step, what="lost")
        await self._publish(care, view, trail, message)

    async def hop(self, care: Care, view: RunView, decision: Hop) -> Crash | Requeue | bool:
        """An attempt's job is over, and no container of it has begun."""
        job = care.jobs.get(decision.job.key)
        if job is None:  # pragma: no cover - it was just decided about
            return True
        now, dated = self._world.clock.now(), self._world.leads.job(job)
        answer = Answer(
            attempt=job.attempt,
            refusal=refusal_of_job(job, decision.otherwise),
            # What it counts against its limits by is this machine's clock.
            begun_at=min(now, dated.create_time),
            ended_at=min(now, dated.end_time or now),
            otherwise=decision.otherwise,
            had_job=True,
            location=job.resource_name.location,
        )
        return await self.take(care, view, answer)

    async def take(self, care: Care, view: RunView, answer: Answer) -> Crash | Requeue | bool:
        """Take note of an attempt that came to nothing, and say so; whoever holds the run goes on.

        Safe to repeat until it has returned.

        Args:
            care: The run.
            view: As just read: Pending, and its attempt known to be over.
            answer: How that attempt ended.

        Returns:
            Crash or Requeue where the walk ends here, else whether to look again at once.
        """
        mine = care.assignment is not None and view.holder == self._world.signature
        if care.untold and not mine:
            # Somebody else holds it by now, and goes on with it.
            care.untold = 0
            return True
        if not mine and not (care.adopted or care.holder_gone or view.holder == RELEASED):
            # Its holder has to say what follows; one that is silent for so long is gone.
            silence = timedelta(seconds=self._world.figures.unannounced_seconds)
            if self._world.clock.now() < (due := answer.ended_at + silence):
                care.look_at = due
                return False
        trail = self._longer(care, view, answer)
        if holds_everywhere(answer.refusal.scope, care, view):
            if len(trail.told) > 1:
                await self._publish(care, view, trail, "The walk ended: no other place helps.")
            await self._settle(view, trail, answer)
            return answer.otherwise
        if care.assignment is None or not mine:
            if not view.others_can_run:
                return answer.otherwise
            await self._settle(view, trail, answer)
            return Requeue(REQUEUED)
        return await self._go_on(care, view, answer, trail)

    async def _go_on(self, care: Care, view: RunView, answer: Answer, trail: Trail) -> Crash | bool:
        assignment, now = care.assignment, self._world.clock.now()
        if assignment is None:  # pragma: no cover - asked by the caller
            return answer.otherwise
        count = len(assignment.spec.candidates)
        trail = with_projects(trail, assignment)
        step = next_try(trail, count, assignment.capacity, now)
        if answer.had_job:
            care.untold = answer.attempt
        await self._settle(view, trail, answer)
        care.trail, care.trail_text = trail, format_trail(trail)
        if isinstance(step, Exhausted):
            if count == 1 and answer.refusal.reason in _ABOUT_THE_PLACE:
                return answer.otherwise
            return await self._give_up(care, view, trail, step)
        waits = step.at > now
        message = waiting_message(trail, step, assignment.names, waits=waits)
        await self._show(view, message, waits=waits)
        self._world.runs.log(view, logging.WARNING, message)
        self._tell(view, trail, trail.tries[-1], assignment.names, step)
        care.due_attempt = answer.attempt + 1 if answer.had_job else answer.attempt
        care.to_find = care.rescheduled = care.anew = False
        care.untold = 0
        care.submission = care.choice = care.answer = None
        await self._publish(care, view, trail, message)
        return True

    async def found(self, care: Care, view: RunView, job: JobSnapshot) -> None:
        """A walk that tried or ruled out other places has led to a job that runs."""
        if care.assignment is None or not care.trail.told or job.attempt <= care.trail.answered:
            return
        name = job.resource_name.location
        if (known := view.candidate(job.attempt)) and known[0] < len(care.assignment.names):
            name = care.assignment.names[known[0]]
        dated = self._world.leads.job(job)
        started = dated.start_time or job.observed_at
        seconds = (started - (care.trail.begun_at or dated.create_time)).total_seconds()
        message = f"Found machines in {name} after {seconds:.0f} s, with attempt {job.attempt}."
        row = {
            "attempt": str(job.attempt),
            "candidate": name,
            "reason": "running",
            "message": str(job.resource_name),
            "seconds": f"{(started - dated.create_time).total_seconds():.0f}",
        }
        payload = {"message": message, "attempt": str(job.attempt)}
        self._emit_end(view, "found", care.trail, care.assignment.names, payload)
        await self._publish(care, view, care.trail, message, row)

    async def ended(self, care: Care, view: RunView) -> None:
        """The run has crashed, and its last job had its machines: the ledger's last row."""
        job = care.newest
        if job is None or job.start_time is None or job.attempt <= care.trail.answered:
            return
        known = view.candidate(job.attempt)
        last = try_of_started(job, known[0] if known is not None else 0)
        if not care.trail.told and last.scope is not Scope.NEXT_AS_RESTART:
            return
        trail = replace(care.trail, past=(*care.trail.past, last))
        await self._publish(care, view, trail, "The flow run has crashed.")

    async def _give_up(self, care: Care, view: RunView, trail: Trail, end: Exhausted) -> Crash:
        names = care.assignment.names if care.assignment is not None else ()
        message = exhausted_message(trail, end, names)
        reason = reason_of_end(trail, names)
        job = care.newest
        outcome = JobOutcome(
            reason=reason,
            resource_name=job.resource_name if job is not None else None,
            phase=job.phase if job is not None else None,
            diagnosis=Diagnosis(reason=reason, summary=message),
        )
        payload = {"message": message, "reason": reason.value}
        self._emit_end(view, "exhausted", trail, names, payload)
        await self._publish(care, view, trail, message.partition("\n")[0])
        return Crash(outcome, message)

    def _longer(self, care: Care, view: RunView, answer: Answer) -> Trail:
        """The trail with this attempt, once."""
        assignment = care.assignment
        if not answer.had_job and care.trail.serial > answer.serial:
            return care.trail
        index = place_of(care, view, answer)
        tried = Try(
            attempt=answer.attempt,
            candidate=index,
            begun_at=answer.begun_at,
            ended_at=max(answer.begun_at, answer.ended_at),
            reason=answer.refusal.reason,
            message=answer.refusal.message,
        )
        count = len(assignment.spec.candidates) if assignment is not None else index + 1
        return with_try(care.trail, tried, count, had_job=answer.had_job)

    async def _settle(self, view: RunView, trail: Trail, answer: Answer) -> None:
        """Write down what was tried, so that any worker can go on from there."""
        labels = {WALK_LABEL: format_trail(trail)}
        if not answer.had_job:
            labels[SETTLED_LABEL] = str(answer.attempt)
        await self._world.runs.label(view.id, labels)

    async def _show(self, view: RunView, message: str, *, waits: bool) -> bool:
        """Propose AwaitingCapacity; a run that is in it already gets a new message to wait with."""
        if view.state_name == AWAITING_STATE:
            if not waits:
                return True
            # The server takes no second state of the same name.
            tried = Proposal(state=RunState.PENDING, name=SUBMITTING_STATE, message=message)
            await self._world.runs.propose(view.id, tried)
        proposal = Proposal(state=RunState.PENDING, name=AWAITING_STATE, message=message)
        return await self._world.runs.propose(view.id, proposal)

    def _tell(
        self,
        view: RunView,
        trail: Trail,
        tried: Try,
        names: Sequence[str],
        step: Next,
        *,
        what: str = "refused",
    ) -> None:
        following = {
            "next_candidate": names[step.candidate],
            "next_at": step.at.isoformat(timespec="seconds"),
        }
        # Not the table's last row: Vertex AI's clock and the worker's may differ.
        payload = {**row_of(tried, names), **following}
        name = f"prefect-vertex.capacity.{what}"
        self._world.runs.emit(view, name, _key_of(trail), payload)

    def _emit_end(
        self,
        view: RunView,
        what: str,
        trail: Trail,
        names: Sequence[str],
        payload: Mapping[str, str],
    ) -> None:
        name = f"prefect-vertex.capacity.{what}"
        ledger = json.dumps(table(trail, names))
        self._world.runs.emit(view, name, _key_of(trail), {**payload, "ledger": ledger})

    async def _publish(
        self,
        care: Care,
        view: RunView,
        trail: Trail,
        description: str,
        *more: Mapping[str, str],
    ) -> None:
        """Write the ledger; a run is not held up for want of it."""
        told = parse_names(view.labels.get(NAMES_LABEL, ""))
        names = care.assignment.names if care.assignment is not None else told
        rows = [*table(trail, names), *more]
        try:
            await self._world.runs.publish(view, f"vertex-capacity-{view.id}", rows, description)
        except PrefectUnavailableError as error:
            logger.warning("Flow run %s: its ledger was not written. %s", view.id, error)


def _key_of(trail: Trail) -> str:
    """What tells one event of a run's walks from another."""
    return f"{trail.serial}"
