"""The ledger: what a walk has tried, as a table, and in sentences for a run's state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from prefect_vertex.capacity.reasons import RefusalReason
from prefect_vertex.capacity.walk import Exhausted, Next, Trail, Try
from prefect_vertex.errors import SchedulingError
from prefect_vertex.planning.scheduling import parse_strategy
from prefect_vertex.planning.spec import Candidate

MAX_NAMED = 12
"""Candidates that a waiting state's message names; the end's names all."""

MAX_ANSWER_LENGTH = 400
"""Characters of each candidate's last answer in the message of the end; the table has more."""

_ADVICE = (
    "Add regions, another machine_type or strategy FLEX_START, ask for more quota, "
    "or raise the limits in capacity."
)
_OTHER_WANTS = frozenset(
    {
        RefusalReason.NOT_HERE,
        RefusalReason.ACCESS,
        RefusalReason.NETWORK,
        RefusalReason.IMAGE,
    }
)
"""Answers that neither machines nor quota would change."""


def names_of(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """How messages name candidates: the location, and whatever else tells them apart."""
    traits = [(each.project, *_traits(each)) for each in candidates]
    differs, _, *differ = [len(set(each)) > 1 for each in zip(*traits, strict=True)]
    names = []
    for project, location, *others in traits:
        pairs = zip((project, *others), (differs, *differ), strict=True)
        told = [text for text, tells in pairs if tells and text]
        names.append(f"{location} ({', '.join(told)})" if told else location)
    return tuple(
        f"{name} [{place}]" if names.count(name) > 1 else name
        for place, name in enumerate(names, start=1)
    )


def format_names(names: Sequence[str]) -> str:
    """Write candidates' names, as they travel with their run in a label."""
    return json.dumps(list(names), separators=(",", ":"), ensure_ascii=False)


def parse_names(text: str) -> tuple[str, ...]:
    """Read candidates' names; what cannot be read is none."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        found = []
    return tuple(str(each) for each in found) if isinstance(found, list) else ()


def digest_of(candidates: Sequence[Candidate]) -> str:
    """What tells one list of candidates from another."""
    text = json.dumps([[each.project, *_traits(each)] for each in candidates])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def waiting_message(trail: Trail, following: Next, names: Sequence[str], *, waits: bool) -> str:
    """What AwaitingCapacity says: what was tried, and when the next try is."""
    answers = list(trail.last_answers.values())
    told = [f"{name_of(each, names)} ({each.reason.value})" for each in answers[-MAX_NAMED:]]
    more = "" if len(answers) <= MAX_NAMED else f"{len(answers) - MAX_NAMED} others and "
    when = f"at {following.at:%H:%M:%S} UTC" if waits else "now"
    return f"Tried {more}{', '.join(told)}. Next: {names[following.candidate]}, {when}."


def is_want_of_capacity(trail: Trail, names: Sequence[str]) -> bool:
    """Whether more machines or more quota could have helped anywhere."""
    answers = trail.last_answers
    return any(
        place not in answers or answers[place].reason not in _OTHER_WANTS
        for place in range(len(names))
    )


def exhausted_message(trail: Trail, end: Exhausted, names: Sequence[str]) -> str:
    """What the end says: every candidate, and its last answer."""
    answers, where, count = trail.last_answers, ", ".join(names), _attempts(trail)
    lines = [
        f"There is no capacity in {where} after {count}: {end.because}. {_ADVICE}"
        if is_want_of_capacity(trail, names)
        else f"The job could not begin in {where} after {count}: {end.because}. "
        "Mend what the answers below name, or add other regions."
    ]
    for place, name in enumerate(names):
        lines.append(f"{name}: {_answer(answers[place]) if place in answers else 'not tried.'}")
    return "\n".join(lines)


def table(trail: Trail, names: Sequence[str]) -> list[Mapping[str, str]]:
    """One row for each try, the oldest first; times in seconds."""
    return [row_of(each, names) for each in trail.told]


def row_of(tried: Try, names: Sequence[str]) -> Mapping[str, str]:
    """A try's row in the table."""
    return {
        "attempt": str(tried.attempt or "none"),
        "candidate": name_of(tried, names),
        "reason": tried.reason.value,
        "message": tried.message,
        "seconds": f"{tried.seconds:.0f}",
    }


def _answer(tried: Try) -> str:
    words = " ".join(tried.message.split())
    if len(words) > MAX_ANSWER_LENGTH:
        words = f"{words[: MAX_ANSWER_LENGTH - 1]}…"
    return f"{tried.reason.value}. {words}".rstrip()


def name_of(tried: Try, names: Sequence[str]) -> str:
    """How a try's candidate is named; by its place where no name is known."""
    if tried.candidate < len(names):
        return names[tried.candidate]
    return f"candidate {tried.candidate + 1}"


def _attempts(trail: Trail) -> str:
    return f"{trail.attempts} attempt{'' if trail.attempts == 1 else 's'}"


def _traits(candidate: Candidate) -> tuple[str, str, str, str]:
    """Location, machine, accelerators and strategy, as the template rendered them."""
    spec = candidate.job_spec
    pools = spec.get("worker_pool_specs") or ()
    machine = _get(pools[0] if pools else None, "machine_spec")
    accelerator = _get(machine, "accelerator_type")
    count = _get(machine, "accelerator_count")
    return (
        candidate.location,
        str(_get(machine, "machine_type") or ""),
        f"{count or 1} {_accelerator(accelerator)}" if accelerator else "",
        _strategy(_get(spec.get("scheduling"), "strategy")),
    )


def _accelerator(kind: object) -> str:
    """Its name in any case, or the digits of one that is given by its number."""
    return str(kind).upper()


def _strategy(given: object) -> str:
    """Its name as Vertex AI spells it; a template may have its number."""
    if not given:
        return ""
    try:
        return parse_strategy(given)
    except SchedulingError:
        # Said where the job is planned.
        return str(given)


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None
