"""Care: what this process remembers of one run.

All of it may be lost at any moment; the next process reads it again from labels and identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import anyio

from prefect_vertex.capacity.trail import parse_trail
from prefect_vertex.capacity.walk import Trail
from prefect_vertex.lifecycle.case import Absence, Notes
from prefect_vertex.lifecycle.decisions import Crash
from prefect_vertex.lifecycle.outcomes import JobOutcome, TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.run import WALK_LABEL, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.submission import Submission
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import Candidate, Target
from prefect_vertex.reconciler.answers import Answer, Choice
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.launches import Launch
from prefect_vertex.reconciler.tickets import Ticket


@dataclass
class Care:
    """Everything about one run that lives in this process.

    Attributes:
        assignment: What the run asks for, if this process holds it; None for an adopted one.
        jobs: The last look at each of its jobs, by location and id.
        targets: Where each of its jobs was seen.
        tickets: Who waits for it here.
        due_attempt: The attempt that this process is to create, 0 if none; -1 until it is known.
        taken_at: When it was last submitted here; what was read of it before is out of date.
        to_find: Its jobs have to be looked for before an attempt may be created.
        claimed_attempt: The attempt for which this process has won the create claim.
        contested_attempt: An attempt that somebody else had claimed; it may have a job.
        settled_attempt: An attempt that is known to have none, though it was announced.
        interrupt: Set when the run stopped waiting while a step waits for its turn to submit.
        rescheduled: The due attempt follows one whose container rescheduled the run.
        anew: The due attempt begins because somebody submitted the run again.
        trail: What was tried, as the run's label says.
        choice: Where the due attempt is tried, once that is decided.
        sent: What was last sent to be created.
        launch: What has been created of it, until its record is on its way.
        answer: The due attempt was refused; to be told until Prefect has taken it.
        untold: An attempt whose end is being told: Prefect may have taken that without an answer.
        waits_for_capacity: The due attempt is put off until its walk's next pass.
        last_sign: The run's last sign of life by this machine's clock, where there is a limit to
            its silence.
        unstarted: Attempts of which no container has claimed its start.
        started: Attempts of which one has.
        vanished: The attempt before the due one ran, and its job is gone.
        announced: The run's labels name this process as its holder.
        failed: The due attempt cannot be created; to be told until the server has taken it.
        adopted: This process goes on with a run that another had submitted.
        counted: The adopted run has a place in this worker's limit.
        done: Nothing was left to do at the last look.
        said: Warnings about what it asks for that stand in its log.
        shown: Phases of which events and log lines were written, by job.
        orphaned_in: The id of the state in which the run's holder was found gone for certain.
        lost_to: Since when another process was to say how the run goes on, by claim and process.
        sure_of: The id of the waiting state that is known to be no late word.
        unseeable_since: Since when a place that may hold its job cannot be seen.
        absences: Jobs that were answered with "not found".
        ended: When each of its jobs was first seen terminal.
        lease_id: The concurrency lease that `lease_renewed_at` and `lease_lost` are about.
        troubles: Steps in a row that Vertex AI did not let happen.
        submission: What was tried for the due attempt.
        look_at: When to look again without any change; None: only on a change.
        busy: A step is under way.
        again: Something changed during that step.
    """

    run_id: str
    policy: RunPolicy = field(default_factory=RunPolicy)
    assignment: Assignment | None = None
    jobs: dict[tuple[str, str], JobSnapshot] = field(default_factory=dict)
    targets: dict[tuple[str, str], Target] = field(default_factory=dict)
    tickets: list[Ticket] = field(default_factory=list)
    due_attempt: int = 0
    taken_at: datetime | None = None
    to_find: bool = False
    claimed_attempt: int = 0
    contested_attempt: int = 0
    settled_attempt: int = 0
    submission: Submission | None = None
    shown: set[tuple[str, str, str]] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    rescheduled: bool = False
    anew: bool = False
    trail: Trail = field(default_factory=Trail)
    trail_text: str = ""
    choice: Choice | None = None
    sent: JobPlan | None = None
    launch: Launch | None = None
    answer: Answer | None = None
    untold: int = 0
    waits_for_capacity: bool = False
    last_sign: datetime | None = None
    unstarted: frozenset[int] = frozenset()
    started: frozenset[int] = frozenset()
    vanished: bool = False
    announced: bool = False
    failed: Crash | None = None
    adopted: bool = False
    counted: bool = False
    done: bool = False
    orphaned_in: str = ""
    lost_to: dict[tuple[str, str], datetime] = field(default_factory=dict)
    sure_of: str = ""
    cancels: dict[tuple[str, str], datetime] = field(default_factory=dict)
    looks: tuple[datetime, ...] = ()
    unseeable_since: datetime | None = None
    absences: dict[tuple[str, str], Absence] = field(default_factory=dict)
    ended: dict[tuple[str, str], datetime] = field(default_factory=dict)
    gone: tuple[datetime, ...] = ()
    claimed_job_id: str = ""
    interrupt: anyio.Event | None = None
    troubles: int = 0
    lease_id: str = ""
    lease_renewed_at: datetime | None = None
    lease_lost: bool = False
    seen: RunView | None = None
    look_at: datetime | None = None
    busy: bool = False
    again: bool = False

    @property
    def notes(self) -> Notes:
        """Its memory, as a decision takes it."""
        return Notes(
            due_attempt=0 if self.to_find else self.due_attempt,
            rescheduled=self.rescheduled,
            continues=self.due_attempt > 1 and not self.anew,
            vanished=self.vanished,
            nothing_sent=self.due_attempt > 0
            and (self.submission is None or self.submission.nothing_sent),
            holder_gone=self.holder_gone,
            cancels=dict(self.cancels),
            looks=self.looks,
            absences=dict(self.absences),
            ended=dict(self.ended),
            gone=self.gone,
            claimed_job_id=self.claimed_job_id,
            unstarted=self.unstarted,
            answered=self.trail.answered,
            untold=self.untold,
            restarts=self.trail.restarts if self.trail_text else None,
            last_sign=self.last_sign,
        )

    def read_trail(self, view: RunView) -> None:
        """Take over what the run's label says, unless it is older than what is known."""
        text = view.labels.get(WALK_LABEL, "")
        if text and text != self.trail_text:
            trail = parse_trail(text)
            if trail.serial >= self.trail.serial:
                self.trail, self.trail_text = trail, text

    @property
    def holder_gone(self) -> bool:
        """Whether the run, as last read, is still in the state in which its holder was lost."""
        return (
            self.seen is not None
            and bool(self.orphaned_in)
            and (self.seen.state_id == self.orphaned_in)
        )

    @property
    def has_live_job(self) -> bool:
        """Whether any of its jobs is not known to have ended."""
        return any(not job.is_terminal for job in self.jobs.values())

    @property
    def newest(self) -> JobSnapshot | None:
        """The job of the highest attempt that was seen, of two the one that stays."""

        def rank(job: JobSnapshot) -> tuple[int, bool, float]:
            claimed = job.resource_name.job_id == self.claimed_job_id
            return (job.attempt, claimed, -job.create_time.timestamp())

        return max(self.jobs.values(), key=rank, default=None)

    @property
    def newest_attempt(self) -> int:
        """The highest attempt of which a job was seen."""
        return self.newest.attempt if self.newest is not None else 0

    @property
    def candidate(self) -> Candidate | None:
        """Where the due attempt is tried; the first, until the walk has chosen."""
        if self.assignment is None:
            return None
        return self.assignment.spec.candidates[self.choice.candidate if self.choice else 0]

    def see(self, job: JobSnapshot, target: Target) -> bool:
        """Remember a look; whether it tells something new."""
        key = job.resource_name.key
        before = self.jobs.get(key)
        if before is not None and before.is_terminal and not job.is_terminal:
            # A list row from before the end: an end is never taken back.
            return False
        if before is not None and before.is_terminal and before.described and not job.described:
            return False
        self.jobs[key] = job.with_shape_of(before)
        self.targets[key] = target
        self.absences.pop(key, None)
        if job.is_terminal:
            self.ended.setdefault(key, job.observed_at)
        if before is None or before.phase is not job.phase or before.error != job.error:
            return True
        return before.web_access_uris != job.web_access_uris

    def miss(self, name: ResourceName, now: datetime) -> None:
        """Remember that a job was not found."""
        known = self.absences.get(name.key) or Absence(name=name)
        job = self.jobs.pop(name.key, None)
        attempt = job.attempt if job is not None else known.attempt
        self.absences[name.key] = Absence(name=name, attempt=attempt, times=(*known.times[:1], now))

    def start(self, name: ResourceName) -> None:
        """Tell everybody who waits that the job exists.

        Where the run was submitted again, an earlier submission's caller is done.  Else it has gone
        on to another candidate, and its caller waits for that job's end.
        """
        submitted_again = any(ticket.resource_name is None for ticket in self.tickets)
        for ticket in list(self.tickets):
            if ticket.resource_name is None:
                ticket.start(name)
            elif submitted_again:
                ticket.end(JobOutcome(reason=TerminationReason.COMPLETED))
                self.tickets.remove(ticket)
            else:
                ticket.resource_name = name

    def end(self, outcome: JobOutcome, *, crashed: bool = False) -> None:
        """Tell everybody who waits that it is over."""
        for ticket in self.tickets:
            ticket.end(outcome, crashed=crashed)
        self.tickets.clear()
        self.nothing_due()
        self.done = True

    def nothing_due(self) -> None:
        """Forget the due attempt."""
        self.due_attempt, self.to_find, self.failed = 0, False, None
        self.submission = self.choice = self.answer = None
        self.waits_for_capacity, self.untold = False, 0

    def watch(self) -> None:
        """The run goes on: what was still to be found or refused here has begun elsewhere."""
        if self.to_find or self.due_attempt < 0 or self.failed is not None:
            self.nothing_due()
            self.announced = False
        unmet = any(ticket.resource_name is None for ticket in self.tickets)
        if unmet and self.newest is not None and not self.due_attempt:
            self.start(self.newest.resource_name)

    def begin(self, policy: RunPolicy, now: datetime) -> Ticket:
        """The run is submitted here, now; nothing of an earlier time says anything about this one.

        What was tried then may be hours old: another worker may have had the run since.
        """
        self.nothing_due()
        self.policy, self.taken_at = policy, now
        self.due_attempt, self.announced = -1, False
        self.claimed_attempt = self.contested_attempt = self.settled_attempt = 0
        self.rescheduled = self.anew = self.vanished = False
        self.looks = ()
        ticket = Ticket()
        self.tickets.append(ticket)
        return ticket
