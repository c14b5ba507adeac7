"""The account of a chaos run: what every run must have come to, and the figures over all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

LIVE = frozenset({"JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"})
ENDING = "JOB_STATE_CANCELLING"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How a run has to end.

    Attributes:
        states: The state types that are right; empty for a run that is to be gone.
        ran: How often user code may have run.
    """

    states: tuple[str, ...] = ("COMPLETED",)
    ran: tuple[int, ...] = (1,)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with one run.

    Attributes:
        is_lasting: Time does not mend it.
    """

    kind: str
    run: UUID
    text: str
    is_lasting: bool = False


def judge(
    runs: Mapping[UUID, Expected],
    *,
    states: Mapping[UUID, str],
    jobs: Sequence[Mapping[str, Any]],
    ran: Sequence[Mapping[str, Any]],
) -> list[Problem]:
    """Compare what is with what should be.

    Args:
        runs: What should be.
        states: State types of the runs that there are.
        jobs: Every job that there ever was.
        ran: One entry for each time that user code ran.
    """
    attempts: dict[UUID, Counter[str]] = defaultdict(Counter)
    problems: list[Problem] = []
    for job in jobs:
        run = UUID(job["labels"]["prefect-io_flow-run-id"])
        attempts[run][job["labels"].get("prefect-vertex_attempt", "?")] += 1
        if (job["state"] in LIVE or job["state"] == ENDING) and not job["deleted"]:
            problems.append(Problem(kind="leaked", run=run, text=f"{job['name']} is live"))
    times = Counter(UUID(entry["run"]) for entry in ran)
    for run, expected in runs.items():
        state = states.get(run, "")
        if state != "" if not expected.states else state not in expected.states:
            text = f"{run} is {state or 'gone'}, expected {expected.states}"
            final = state in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
            problems.append(Problem(kind="lost", run=run, text=text, is_lasting=final))
        for attempt, count in attempts[run].items():
            if count > 1:
                text = f"{run} has {count} jobs for attempt {attempt}"
                problems.append(Problem(kind="doubled", run=run, text=text, is_lasting=True))
        if times[run] > max(expected.ran):
            text = f"user code of {run} ran {times[run]} times"
            problems.append(Problem(kind="doubled", run=run, text=text, is_lasting=True))
        elif times[run] < min(expected.ran):
            text = f"user code of {run} ran {times[run]} times"
            problems.append(Problem(kind="lost", run=run, text=text))
    return problems


@dataclass
class Ledger:
    """Figures over all scenarios."""

    runs: int = 0
    found: Counter[tuple[str, UUID]] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    megabytes: dict[str, float] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    begun: float = 0.0
    """When the start of the services began, by the monotonic clock."""

    def close(self, runs: int, problems: Sequence[Problem]) -> None:
        """Add one pool's account."""
        with self.lock:
            self.runs += runs
        self.found.update({(problem.kind, problem.run) for problem in problems})

    def lines(self) -> list[str]:
        """The figures, to be printed."""
        kinds = Counter(kind for kind, _ in self.found)
        rows = [f"runs {self.runs}", f"faults {self.faults.total()}"]
        rows += [f"  {name} {count}" for name, count in sorted(self.faults.items())]
        rows += [f"{kind} {kinds[kind]}" for kind in ("lost", "doubled", "leaked")]
        rows += [f"{name}: {value:.1f} s" for name, value in self.seconds.items()]
        return rows + [f"{name}: {value:.0f} MB" for name, value in self.megabytes.items()]
