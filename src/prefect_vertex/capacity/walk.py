"""The walk: which candidate is tried next, and when, from what was tried before.

Pure: the tries go in, the next one comes out, so that any worker can go on where another stopped.
It hops without waiting; only a pass over all candidates that still count is followed by a pause,
which doubles.  Attempts, passes and the time since the walk's first create bound it, whichever is
first, and it never waits for a try that would come too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.capacity.refusals import SCOPE_OF, RefusalReason, Scope

MAX_MESSAGE_LENGTH = 2000
"""Characters of a service's words that are kept of a try."""

MAX_TRIES = 60
"""Tries that a walk's trail holds one by one; of more, the oldest passes count as numbers."""

MAX_PAST = 60
"""Tries before these that are still told, besides the last one of each candidate."""

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A try that came to nothing; all but those of `Trail.past` before a container started.

    Attributes:
        attempt: Its number; one whose create was refused has no job, so the next has it again.
        candidate: Its candidate's place in the run's list, from 0.
        begun_at: When its create was due, or its job created.
        ended_at: When it was over.
        message: The service's words, verbatim but for their length.
    """

    attempt: int
    candidate: int
    begun_at: datetime
    ended_at: datetime
    reason: RefusalReason
    message: str = ""

    @property
    def scope(self) -> Scope:
        """Where to try next."""
        return SCOPE_OF[self.reason]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0.0, (self.ended_at - self.begun_at).total_seconds())

    @property
    def rules_out(self) -> bool:
        """Whether its candidate is not tried again."""
        return self.scope in {Scope.HOP_NEVER_BACK, Scope.OTHER_PROJECT, Scope.STOP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What a run has tried; it travels with the run, see `capacity.trail`.

    Attributes:
        of: What tells one list of candidates from another; indices mean nothing in another one.
        serial: Grows with each change, so that an older reading is known for one.
        answered: The highest attempt whose job's end is recorded here, or in an earlier walk.
        restarts: New attempts after a preemption or a reschedule, over the whole run.
        first: The candidate with which this walk's passes begin.
        begun_at: When its first create was due; None before that came to nothing.
        earlier_attempts: Of this walk, those before `tries`.
        earlier_passes: Complete ones, before `tries`.
        ruled_out: Earlier tries that ruled their candidates out, of earlier walks too.
        tries: This walk's, the oldest first.
        past: Tries before those that are only told: of earlier passes and walks, the attempts
            whose machines were taken back among them.
    """

    of: str = ""
    serial: int = 0
    answered: int = 0
    restarts: int = 0
    first: int = 0
    begun_at: datetime | None = None
    earlier_attempts: int = 0
    earlier_passes: int = 0
    ruled_out: tuple[Try, ...] = ()
    tries: tuple[Try, ...] = ()
    past: tuple[Try, ...] = ()

    @property
    def attempts(self) -> int:
        """Tries of this walk that came to nothing."""
        return self.earlier_attempts + len(self.tries)

    @property
    def told(self) -> tuple[Try, ...]:
        """Every try that is known, once, the oldest first."""
        every = dict.fromkeys((*self.past, *self.ruled_out, *self.tries))
        return tuple(sorted(every, key=lambda each: each.begun_at))

    @property
    def last_answers(self) -> dict[int, Try]:
        """The last try of each candidate that was tried, the longest ago first."""
        return _last_of_each(self.told)


@dataclass(frozen=True, slots=True)
class Next:
    """Try this candidate, not before this time."""

    candidate: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Exhausted:
    """There is no next try; why, as the rest of a sentence."""

    because: str


def next_try(trail: Trail, count: int, capacity: CapacityPolicy, now: datetime) -> Next | Exhausted:
    """Say where and when to try next.

    Args:
        trail: Of these candidates.
        count: How many there are.
        capacity: The walk's limits.
        now: Aware.
    """
    state = _follow(trail, count)
    if not state.order:
        return Exhausted("none of them is worth another try")
    if capacity.max_attempts and trail.attempts >= capacity.max_attempts:
        return Exhausted(f"capacity.max_attempts allows {_times(capacity.max_attempts, 'attempt')}")
    queue, at = state.queue, now
    if not queue and trail.tries:
        if capacity.max_passes and state.passes >= capacity.max_passes:
            return Exhausted(
                f"capacity.max_passes allows {_times(capacity.max_passes, 'pass', 'passes')}"
            )
        if _only_faults(trail, state.order):
            return Exhausted("waiting would change none of the answers")
        queue = state.order
        pause = backoff_seconds(capacity, state.passes)
        at = max(now, trail.tries[-1].ended_at + timedelta(seconds=pause))
    if is_late(trail.begun_at, capacity, at):
        return Exhausted(f"capacity.max_wall_seconds allows {capacity.max_wall_seconds:g} s")
    return Next(queue[0], at)


def is_late(begun_at: datetime | None, capacity: CapacityPolicy, at: datetime) -> bool:
    """Whether a walk that began then has no time left for a create at that moment."""
    if begun_at is None or not capacity.max_wall_seconds:
        return False
    return at >= begun_at + timedelta(seconds=capacity.max_wall_seconds)


def backoff_seconds(capacity: CapacityPolicy, passes: int) -> float:
    """The pause after so many complete passes."""
    doublings = min(max(0, passes - 1), _MAX_DOUBLINGS)
    return min(capacity.backoff_seconds * 2.0**doublings, capacity.backoff_max_seconds)


def with_try(trail: Trail, tried: Try, count: int, *, had_job: bool = True) -> Trail:
    """Record a try, that of a job once; the oldest passes of a long walk are kept as numbers."""
    if had_job and tried.attempt <= trail.answered:
        return trail
    tried = replace(tried, message=tried.message[:MAX_MESSAGE_LENGTH])
    longer = replace(
        trail,
        serial=trail.serial + 1,
        answered=tried.attempt if had_job else trail.answered,
        begun_at=trail.begun_at or tried.begun_at,
        tries=(*trail.tries, tried),
    )
    # Never the pass that was made last: what follows it depends on its answers.
    while len(longer.tries) > MAX_TRIES and 0 < (cut := _first_pass(longer, count)) < len(
        longer.tries
    ):
        gone = longer.tries[:cut]
        longer = replace(
            longer,
            earlier_attempts=longer.earlier_attempts + cut,
            earlier_passes=longer.earlier_passes + 1,
            ruled_out=(*longer.ruled_out, *(each for each in gone if each.rules_out)),
            tries=longer.tries[cut:],
            past=_kept((*longer.past, *gone)),
        )
    return longer


def begun_anew(trail: Trail, of: str) -> Trail:
    """The walk of a run that somebody submitted again, or whose candidates are others now."""
    serial = trail.serial + 1
    return Trail(of=of, serial=serial, answered=trail.answered, restarts=trail.restarts)


def restarted(trail: Trail, of: str, *, first: int, lost: Try | None = None) -> Trail:
    """The walk of a run whose container had started: anew, but for what is ruled out for good.

    Args:
        trail: As it was.
        of: The candidates that the run has now.
        first: The candidate with which the new walk's passes begin.
        lost: The attempt whose container had started.
    """
    same = trail.of == of
    ruled_out = [each for each in (*trail.ruled_out, *trail.tries) if each.rules_out]
    past = (*trail.past, *trail.tries, *([lost] if lost is not None else []))
    return Trail(
        of=of,
        serial=trail.serial + 1,
        answered=trail.answered,
        restarts=trail.restarts + 1,
        first=first,
        ruled_out=tuple(ruled_out) if same else (),
        past=_kept(past) if same else (),
    )


def _kept(tries: Sequence[Try]) -> tuple[Try, ...]:
    """The newest of them, and the last one of each candidate."""
    last = {id(each) for each in _last_of_each(tries).values()}
    oldest = len(tries) - MAX_PAST
    return tuple(
        replace(each, message=each.message[:MAX_MESSAGE_LENGTH])
        for place, each in enumerate(tries)
        if place >= oldest or id(each) in last
    )


def _last_of_each(tries: Iterable[Try]) -> dict[int, Try]:
    """The last of each candidate, the longest ago first."""
    found: dict[int, Try] = {}
    for each in tries:
        found.pop(each.candidate, None)
        found[each.candidate] = each
    return found


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far a trail has come: complete passes, and the candidates left of the one under way."""

    passes: int
    queue: Sequence[int]
    order: Sequence[int]
    first_pass: int


def _follow(trail: Trail, count: int) -> _Progress:
    """Go over the tries; a pass begins when there is a try that no pass under way has room for."""
    out = {each.candidate for each in trail.ruled_out}
    ring = [(trail.first + step) % count for step in range(count)] if count else []
    queue = [each for each in ring if each not in out]
    passes, first_pass, again = trail.earlier_passes, 0, False
    for place, tried in enumerate(trail.tries, start=1):
        if not queue:
            queue = [each for each in ring if each not in out]
        if tried.candidate in queue:
            del queue[: queue.index(tried.candidate) + 1]
        if tried.rules_out:
            out.add(tried.candidate)
        elif tried.scope is Scope.AGAIN_THEN_HOP and not again:
            queue.insert(0, tried.candidate)
            again = True
            continue
        again = False
        if not queue:
            passes += 1
            first_pass = first_pass or place
    order = [each for each in ring if each not in out]
    return _Progress(passes, queue, order, first_pass)


def _first_pass(trail: Trail, count: int) -> int:
    """How many tries the oldest pass took; 0 if it is not complete."""
    return _follow(trail, count).first_pass


def _only_faults(trail: Trail, order: Sequence[int]) -> bool:
    """Whether a whole pass met nothing but faults of images."""
    answers = _last_of_each((*trail.ruled_out, *trail.tries))
    return all(each in answers and answers[each].scope is Scope.HOP for each in order)


def _times(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
