"""One step of find-or-create: what `lifecycle.submission` says, carried out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from prefect_vertex.capacity.refusals import Refusal, Scope
from prefect_vertex.capacity.walk import is_late
from prefect_vertex.errors import PlanError, RateLimitedError, ServiceError
from prefect_vertex.lifecycle.decisions import Crash
from prefect_vertex.lifecycle.run import (
    AWAITING_STATE,
    SETTLED_LABEL,
    WAIT_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.submission import (
    Aftermath,
    Find,
    GiveUp,
    Hold,
    Settled,
    Submission,
    after_error,
    after_look,
    aftermath_of,
    next_step,
    sent_anew,
)
from prefect_vertex.planning.links import job_links
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.answers import (
    Answer,
    crash_for,
    may_be_sent_again,
    refusal_of_create,
    refusal_of_failed,
)
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.claims import MAX_CLAIMS, numbered
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.recorder import launch_of
from prefect_vertex.reconciler.turns import announce, take_turn
from prefect_vertex.reconciler.walk import Walker

logger = logging.getLogger(__name__)


class Submitter:
    """Brings one attempt's job into being, exactly once."""

    def __init__(self, world: World, walker: Walker) -> None:
        self._world = world
        self._walker = walker

    async def step(self, care: Care, view: RunView) -> Crash | bool:
        """Try the next thing.

        Returns:
            Crash when it is over, else whether to look at the run again at once.
        """
        if care.failed is not None:
            return care.failed
        if care.answer is not None:
            return await self._answer(care, view, care.answer)
        now = self._world.clock.now()
        if care.submission is None or care.submission.attempt != care.due_attempt:
            chosen = await self._walker.choose(care, view)
            if isinstance(chosen, Crash):
                care.failed = chosen
                return True
            if chosen is not None:
                care.look_at, care.waits_for_capacity = chosen, True
                return False
            care.submission = Submission(attempt=care.due_attempt, begun_at=now)
        step = next_step(care.submission, care.policy, now)
        if isinstance(step, GiveUp):
            return self._give_up(care, care.submission, step)
        if isinstance(step, Settled):
            return self._settle(care, care.submission, step)
        if isinstance(step, Hold):
            care.look_at = step.until
            return False
        if isinstance(step, Find):
            return await self._find(care, view, care.submission)
        return await self._send(care, view, care.submission)

    async def _find(self, care: Care, view: RunView, submission: Submission) -> bool:
        target = self._target(care)
        found = await self._world.gateways.for_target(target).find(care.run_id)
        jobs = [job for job in found if job.attempt == submission.attempt]
        if not jobs:
            care.submission = after_look(submission, self._world.clock.now())
            return True
        self._log(view, f"Its create was unanswered; found CustomJob {jobs[0].resource_name}.")
        for job in jobs:
            care.see(job, target)
        await self._created(care, view, jobs[0], target)
        return True

    async def _send(self, care: Care, view: RunView, submission: Submission) -> bool:
        if care.assignment is None or care.candidate is None or care.choice is None:
            return self._fail(care, "The worker has lost what to create for this flow run.")
        try:
            plan = care.assignment.plan(care.candidate, submission.attempt)
        except PlanError as error:
            return self._fail(care, str(error))
        target = plan.target
        gateway = self._world.gateways.for_target(target)
        if not await take_turn(care, gateway):
            return True
        if not submission.error:
            # The budget is one of trying, not of queueing.
            submission = replace(submission, begun_at=self._world.clock.now())
            care.submission = submission
        # The turn may have taken minutes; only a run that still waits, here, gets a job.
        fresh = await self._world.runs.read(care.run_id)
        if fresh is None or fresh.state is not RunState.PENDING:
            return True
        if fresh.holder != self._world.signature:
            care.announced, care.claimed_attempt, care.to_find = False, 0, True
            return True
        if self._is_late(care, care.assignment, submission):
            return await self._too_late(care, fresh, submission)
        if not await self._claim(care, fresh, submission.attempt):
            return True
        await announce(self._world, care, fresh, plan)
        self._warn(care, fresh, (*care.assignment.warnings, *plan.warnings))
        care.sent = plan
        try:
            job = await gateway.create(plan.request)
        except ServiceError as error:
            return await self._refused(care, view, submission, error)
        care.see(job, target)
        await self._created(care, view, job, target)
        return True

    def _warn(self, care: Care, view: RunView, warnings: Sequence[str]) -> None:
        """Say each of them once, whatever becomes of the create."""
        for warning in dict.fromkeys(warnings):
            if warning not in care.said:
                care.said.add(warning)
                self._world.runs.log(view, logging.WARNING, warning)

    async def _claim(self, care: Care, view: RunView, attempt: int) -> bool:
        """Win the right to create this attempt; another holder's claim means: look first."""
        if care.claimed_attempt == attempt:
            return True
        mine = self._world.signature
        for number in range(1, MAX_CLAIMS + 1):
            key = numbered(f"prefect-vertex-create-a{attempt}", number)
            owner = await self._world.runs.claim(view.id, key, mine)
            if owner == mine:
                care.claimed_attempt = attempt
                return True
            if care.settled_attempt != attempt:
                # Somebody was here before us: a job may exist, or be on its way.
                care.contested_attempt = attempt
                care.to_find = True
                return False
        message = (
            f"{MAX_CLAIMS} workers stopped while they created attempt {attempt}; see their logs."
        )
        self._fail(care, message)
        return False

    async def _refused(
        self,
        care: Care,
        view: RunView,
        submission: Submission,
        error: ServiceError,
    ) -> bool:
        kind = aftermath_of(error)
        refusal = refusal_of_create(error)
        later = isinstance(error, RateLimitedError) or refusal.scope is Scope.SAME_LATER
        if kind is not Aftermath.ASK_FIRST and not later:
            care.answer = self._answer_of(care, submission, refusal, str(error))
            return True
        if not submission.error:
            then = "looking for its job" if kind is Aftermath.ASK_FIRST else "trying again"
            limit = care.policy.create_budget_seconds
            text = f"{error.message} Now {then}, for up to {limit:g} s."
            self._world.runs.log(view, logging.WARNING, text)
        care.submission = after_error(submission, error, self._world.clock.now())
        return True

    def _is_late(self, care: Care, assignment: Assignment, submission: Submission) -> bool:
        """Whether the walk's time is over: the turn, and what was refused for now, take time."""
        begun = submission.begun_at if submission.error else None
        if care.choice is not None and care.choice.trail.begun_at is not None:
            begun = care.choice.trail.begun_at
        return is_late(begun, assignment.capacity, self._world.clock.now())

    async def _too_late(self, care: Care, view: RunView, submission: Submission) -> bool:
        if submission.error:
            return self._give_up(care, submission, GiveUp(submission.error))
        chosen = await self._walker.choose(care, view)
        care.submission = None
        if isinstance(chosen, Crash):
            care.failed = chosen
        return True

    def _settle(self, care: Care, submission: Submission, step: Settled) -> bool:
        """A create came to nothing for certain: send one more, or go elsewhere."""
        if submission.cause is None:  # pragma: no cover - what is settled has a cause
            return self._fail(care, submission.error)
        if step.again and may_be_sent_again(submission.cause):
            care.submission = sent_anew(submission)
        else:
            refusal = refusal_of_failed(submission.cause)
            care.answer = self._answer_of(care, submission, refusal, submission.error)
        return True

    def _give_up(self, care: Care, submission: Submission, step: GiveUp) -> bool:
        """The budget of one attempt is spent; of another there may be one left."""
        if step.may_exist or submission.cause is None:
            return self._fail(care, step.message)
        refusal = replace(refusal_of_failed(submission.cause), message=step.message)
        care.answer = self._answer_of(care, submission, refusal, step.message)
        return True

    def _answer_of(
        self, care: Care, submission: Submission, refusal: Refusal, message: str
    ) -> Answer:
        return Answer(
            attempt=submission.attempt,
            refusal=refusal,
            begun_at=submission.begun_at,
            ended_at=self._world.clock.now(),
            otherwise=crash_for(message),
            serial=care.trail.serial,
        )

    async def _answer(self, care: Care, view: RunView, answer: Answer) -> bool:
        """Tell what came of the create, to a run that was read after it."""
        if view.holder != self._world.signature:
            care.answer = care.submission = care.choice = None
            care.announced, care.claimed_attempt, care.to_find = False, 0, True
            return True
        step = await self._walker.take(care, view, answer)
        if isinstance(step, Crash):
            care.answer, care.failed = None, step
            return True
        return step is True

    async def found(self, care: Care, view: RunView) -> None:
        """The due attempt's job is there, though its create has not been answered."""
        job = care.newest
        if job is None:  # pragma: no cover - asked by the caller
            return
        if view.state_name == AWAITING_STATE:
            # It was refused, and took effect all the same: it is what the run waits for again.
            labels = {WAIT_LABEL: view.state_id, SETTLED_LABEL: ""}
            await self._world.runs.label(care.run_id, labels)
            care.again = True
        self._log(view, f"CustomJob {job.resource_name} is there, whatever its create was told.")
        await self._created(care, view, job, care.targets[job.resource_name.key])

    async def yield_to(self, care: Care, view: RunView) -> None:
        """Another process has created the job of this wait; this one only watches."""
        care.nothing_due()
        care.announced, care.contested_attempt, care.looks = False, 0, ()
        logger.info("Flow run %s is held by %s; watching it.", view.id, view.holder)
        if care.newest is not None and care.newest_attempt >= view.attempt:
            care.start(care.newest.resource_name)

    async def _created(
        self,
        care: Care,
        view: RunView,
        job: JobSnapshot,
        target: Target,
    ) -> None:
        care.launch, care.sent = launch_of(care, view, job), None
        care.due_attempt = 0
        care.submission = care.choice = care.answer = None
        care.waits_for_capacity = False
        care.look_at = None
        care.start(job.resource_name)
        name = job.resource_name
        self._log(view, f"Created CustomJob {name} ({job.display_name}).")
        if self._world.has_console:
            links = job_links(name, target.project)
            self._log(view, f"Console: {links.console}")
            self._log(view, f"Logs: {links.logs}")
        await self._world.runs.name_infrastructure(care.run_id, str(name))

    def _fail(self, care: Care, message: str) -> bool:
        """Give the attempt up; the run is read anew before Crashed is proposed for it."""
        care.failed = crash_for(message)
        return True

    def _target(self, care: Care) -> Target:
        if care.candidate is None:  # pragma: no cover - a submission has a candidate
            raise RuntimeError(f"Flow run {care.run_id} is submitted without a candidate.")
        return care.candidate.target

    def _log(self, view: RunView, message: str) -> None:
        self._world.runs.log(view, logging.INFO, message)
