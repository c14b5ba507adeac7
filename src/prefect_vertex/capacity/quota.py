"""Preflight: what a project's quotas say about a run's candidates, before anything is created.

Pure.  A quota is a limit, not what is free: others in the project may hold all of it.  So one that
is too small is known to refuse, and one that is large enough promises nothing.  What could not be
read is unknown and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from prefect_vertex.capacity.meters import Demand, Kind, Meter, meters_of
from prefect_vertex.capacity.reasons import SCOPE_OF, RefusalReason
from prefect_vertex.capacity.refusals import Refusal

LIMITS_ARE_NOT_USAGE: Final = (
    "Quotas are limits, not what is free: what others in the project hold counts too."
)

_REQUEST_MORE: Final = "https://cloud.google.com/docs/quotas/help/request_increase"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectQuotas:
    """A project's limits, as they were read.

    Attributes:
        limits: The limit in effect by metric and location; below 0: unlimited. A location of ""
            holds where the metric names no other.
        problem: Why they could not be read; empty if they were.
    """

    limits: Mapping[tuple[str, str], int] = field(default_factory=dict, repr=False)
    problem: str = ""

    def limit(self, metric: str, location: str) -> int | None:
        """The limit there; None: not known. Below 0: unlimited."""
        return self.limits.get((metric, location), self.limits.get((metric, "")))


Readings = Mapping[str, ProjectQuotas]
"""By project."""

_UNREAD: Final = ProjectQuotas()


class Standing(Enum):
    """What the limits say about a meter or a candidate, in a user's words."""

    OK = "fits"
    ADVISED = "fits only in part"
    CLAMPED = "clamped"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One meter of one candidate beside its limit.

    Attributes:
        limit: None: not known; below 0: unlimited.
        worker_count: The largest one that fits, at least 1.
    """

    meter: Meter
    limit: int | None
    standing: Standing
    worker_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateQuota:
    """What the limits say about one candidate.

    Attributes:
        asked_worker_count: The candidate's own.
        worker_count: What its job is created with: the device quotas' clamp, never below 1.
    """

    demand: Demand
    standing: Standing
    readings: tuple[Reading, ...] = ()
    asked_worker_count: int = 1
    worker_count: int = 1

    @property
    def index(self) -> int:
        """The candidate's place in the walk."""
        return self.demand.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What a walk should know of quotas before it begins.

    Attributes:
        outcomes: One for each candidate, in the walk's order.
        problems: Why something could not be read, one line each.
    """

    outcomes: tuple[CandidateQuota, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_all_blocked(self) -> bool:
        """Whether no candidate fits, in which case all are tried: a meter may be wrong."""
        return bool(self.outcomes) and all(
            each.standing is Standing.BLOCKED for each in self.outcomes
        )

    @property
    def skipped(self) -> frozenset[int]:
        """Places in the walk that are not tried."""
        if self.is_all_blocked:
            return frozenset()
        return frozenset(each.index for each in self.outcomes if each.standing is Standing.BLOCKED)

    @property
    def refusals(self) -> Mapping[int, Refusal]:
        """What a walk keeps of each candidate that is skipped: as if its create were refused."""
        reason = RefusalReason.QUOTA
        return {
            each.index: Refusal(reason, SCOPE_OF[reason], " ".join(_lines(each)))
            for each in self.outcomes
            if each.index in self.skipped
        }

    @property
    def worker_counts(self) -> Mapping[int, int]:
        """The smaller `worker_count` of each candidate that is clamped, by its place."""
        return {
            each.index: each.worker_count
            for each in self.outcomes
            if each.worker_count != each.asked_worker_count
        }

    @property
    def lines(self) -> tuple[str, ...]:
        """What the user should know, one line each; empty where nothing is short or unread."""
        said = [line for each in self.outcomes for line in _lines(each)]
        if self.is_all_blocked:
            said.append("No candidate fits its quotas; all are tried all the same.")
        if said:
            said.append(f"{LIMITS_ARE_NOT_USAGE} More: {_REQUEST_MORE}")
        return (*said, *self.problems)


def preflight(candidates: Sequence[Demand], readings: Readings) -> Preflight:
    """Hold each candidate's demand against its project's limits.

    Args:
        candidates: As `demand_of` reads them off their plans, in the walk's order.
        readings: By project; one that is missing is unknown.
    """
    outcomes = tuple(judged(each, readings) for each in candidates)
    problems = (
        f"The quotas of project {project} are unknown: {quotas.problem}"
        for project, quotas in readings.items()
        if quotas.problem
    )
    return Preflight(outcomes=outcomes, problems=tuple(problems))


def judged(demand: Demand, readings: Readings) -> CandidateQuota:
    """What its project's limits say about one candidate."""
    quotas = readings.get(demand.project, _UNREAD)
    asked = demand.worker_count
    if demand.exempt:
        return CandidateQuota(
            demand=demand,
            standing=Standing.OK,
            asked_worker_count=asked,
            worker_count=asked,
        )
    found = tuple(
        _read(meter, quotas.limit(meter.metric, demand.location), asked)
        for meter in meters_of(demand)
    )
    standing = _worst(reading.standing for reading in found)
    clamps = [reading.worker_count for reading in found if reading.standing is Standing.CLAMPED]
    return CandidateQuota(
        demand=demand,
        standing=standing,
        readings=found,
        asked_worker_count=asked,
        worker_count=min(clamps) if clamps and standing is Standing.CLAMPED else asked,
    )


_SEVERITY: Final = (
    Standing.BLOCKED,
    Standing.CLAMPED,
    Standing.ADVISED,
    Standing.UNKNOWN,
    Standing.OK,
)


def _worst(standings: Iterable[Standing]) -> Standing:
    return min(standings, key=_SEVERITY.index, default=Standing.UNKNOWN)


def _read(meter: Meter, limit: int | None, asked: int) -> Reading:
    standing, count = Standing.OK, asked
    if limit is None:
        standing = Standing.UNKNOWN
    elif 0 <= limit < meter.fixed or (limit == 0 and meter.asked):
        # Not even what the job holds with its fewest replicas.
        standing = Standing.BLOCKED
    elif 0 <= limit < meter.asked:
        count = 1 + (limit - meter.fixed) // meter.per_worker
        standing = Standing.CLAMPED if meter.kind is Kind.DEVICE else Standing.ADVISED
    return Reading(meter=meter, limit=limit, standing=standing, worker_count=max(1, count))


def _lines(outcome: CandidateQuota) -> list[str]:
    where = f"candidate {outcome.index + 1} ({outcome.demand.place})"
    shown = {
        Standing.BLOCKED: "cannot be created",
        Standing.CLAMPED: f"has {outcome.worker_count} of {outcome.asked_worker_count} replicas",
        Standing.ADVISED: f"keeps its {outcome.asked_worker_count} replicas",
    }
    return [
        f"By its quotas {where} {shown[outcome.standing]}: {_sentence(reading, outcome.demand)}"
        for reading in outcome.readings
        if outcome.standing in shown and reading.standing is outcome.standing
    ] + [
        f"By its quotas {where} may be refused: {_sentence(reading, outcome.demand)}"
        for reading in outcome.readings
        if reading.standing is Standing.ADVISED
        and outcome.standing is Standing.CLAMPED
        and reading.worker_count < outcome.worker_count
    ]


def _sentence(reading: Reading, demand: Demand) -> str:
    meter = reading.meter
    name = meter.metric.rpartition("/")[2]
    figure = f"{meter.asked} for {demand.worker_count} replicas" if meter.workers else meter.asked
    return (
        f"{name} allows {reading.limit} {meter.kind.value} in {demand.location}; "
        f"the job takes {figure}."
    )
