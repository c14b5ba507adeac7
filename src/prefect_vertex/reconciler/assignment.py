"""Assignment: what a run asks of the process that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prefect_vertex.capacity.ledger import digest_of, names_of
from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.capacity.refusals import Refusal
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.launches import LaunchFacts
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import Candidate, RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A run that this process holds: what it asks for, and how its jobs are written.

    Attributes:
        policy: How patient to be at the first candidate.
        policies: At each candidate; empty: everywhere the same.
        capacity: The limits of the walk over them.
        skipped: Candidates that are not tried, by their places, and why.
        facts: For its launch records; None: it gets none.
    """

    run_id: str
    spec: RunSpec
    policy: RunPolicy
    bootstrap: str
    warnings: tuple[str, ...] = ()
    policies: tuple[RunPolicy, ...] = ()
    capacity: CapacityPolicy = field(default_factory=CapacityPolicy)
    skipped: Mapping[int, Refusal] = field(default_factory=dict)
    facts: LaunchFacts | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """How messages name its candidates."""
        return names_of(self.spec.candidates)

    @property
    def digest(self) -> str:
        """What tells its candidates from another list of them."""
        return digest_of(self.spec.candidates)

    def policy_at(self, candidate: int) -> RunPolicy:
        """How patient to be while the run is at that candidate."""
        return self.policies[candidate] if self.policies else self.policy

    def plan(self, candidate: Candidate, attempt: int) -> JobPlan:
        """The complete request for one attempt at one place."""
        from prefect_vertex.planning.plan import build_plan

        return build_plan(self.spec, candidate, attempt=attempt, bootstrap=self.bootstrap)
