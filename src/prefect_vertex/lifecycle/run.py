"""RunView: a small frozen copy of a flow run, as one read of the Prefect API showed it.

It also names the labels by which a run carries its own story, so that any worker can go on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from prefect_vertex.planning.durations import whole_number


class RunState(Enum):
    """Prefect's nine state types (3.9.1)."""

    SCHEDULED = "SCHEDULED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    CRASHED = "CRASHED"

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self in _FINAL


_FINAL = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.CRASHED})

INSTANCE_LABEL = "prefect-vertex.instance"
"""The worker process that last held the run."""
HELD_LABEL = "prefect-vertex.held"
"""The id of the Pending state in which that process said so."""
PROJECT_LABEL = "prefect-vertex.project"
LOCATION_LABEL = "prefect-vertex.location"
ATTEMPT_LABEL = "prefect-vertex.attempt"
"""The attempt that was about to be created, written before the create is sent."""
SETTLED_LABEL = "prefect-vertex.settled"
"""An announced attempt that is known to have no job, so that the next holder need not wait."""
WAIT_LABEL = "prefect-vertex.wait"
"""The id of the Pending state in which that attempt was announced."""
POLICY_LABEL = "prefect-vertex.policy"
"""How patient to be with the run; see `policy.format_policy`."""
VERDICT_LABEL = "prefect-vertex.verdict"
"""`<attempt>:<reason>`: why this product cancels the attempt's job, written before the cancel;
`:sent` follows once Vertex AI has taken that."""
STRAY_LABEL = "prefect-vertex.stray"
"""Ids of jobs that this product cancels because another has their place, written before that."""
CANDIDATE_LABEL = "prefect-vertex.candidate"
"""`<attempt>:<index>:<replicas>`: the announced attempt's candidate, and its job's replicas."""
LEADER_LABEL = "prefect-vertex.leader"
"""On a follower's flow run: the leader's id; its attempt stands in the label for that."""
RANK_LABEL = "prefect-vertex.rank"
START_LABEL = "prefect-vertex.start"
"""On a follower's flow run of a later start of its replica in the same attempt: from 2."""
TOLD_LABEL = "prefect-vertex.told-to-end"
"""On a follower's flow run that SIGTERM has ended: no fault of its flow's."""
WALK_LABEL = "prefect-vertex.walk"
"""What was tried before that attempt; see `capacity.trail`."""
NAMES_LABEL = "prefect-vertex.candidates"
"""How messages name the candidates, in order, as JSON."""
RECORDS_LABEL = "prefect-vertex.records"
"""`gs://…` of the folder of the run's launch records, once there is one."""
BUNDLE_LABEL = "prefect-vertex.bundle"
"""On an ad-hoc run: where its code is, as one of the next three."""
BUNDLE_AWAITED = "awaited"
"""Its submitter is still about to store it."""
BUNDLE_STORED = "stored"
"""Where the run's own job variables say, so that any worker can run it."""
BUNDLE_OF_RETRY = "of-retry"
"""Stored, but known to the submitter of this retry alone: a run's job variables never change."""
RELEASED = "/released"
"""In place of a holder's signature: it has let the run go, to any worker of the pool."""
DRAWN_LABEL = "prefect-vertex.drawn"
"""Up to where the run's artifacts tell everything: the id of its final state, or while it runs a
digest of its story, so that a worker that starts need not draw all that live."""

START_CLAIM = "prefect-vertex-start-a"
"""Begins the key of a start claim, which is a replica's; `<attempt>-r<rank>` follows."""

WORKER_LABEL = "prefect.worker.name"
"""Prefect's own label, written by the base class after Pending."""

QUEUED_STATE = "InfrastructurePending"
PROVISIONING_STATE = "Provisioning"
WITH_JOB_STATES = frozenset({QUEUED_STATE, PROVISIONING_STATE})
"""Names of Pending states that are shown only once the attempt's job exists."""
AWAITING_STATE = "AwaitingCapacity"
"""Name of the Pending state between two attempts; only the run's holder proposes it."""
SUBMITTING_STATE = "Submitting"
"""Prefect's own name for a run whose infrastructure is asked for."""


def signature_of(worker_name: str, instance: str) -> str:
    """What a run's label says of its holder."""
    return f"{worker_name}/{instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One read of one flow run.

    Attributes:
        state_name: What the user sees, such as InfrastructurePending.
        state_id: Changes with every state; tells "still the same" from "again the same".
        state_time: When the state was entered.
        previous: Where the run came from, for Cancelling and Scheduled; for the latter the last
            type that was not Pending either.  None: from nowhere, or not read.
        suspended: A pause that ended the process, to be resumed by a new submission.
        retries_in_process: The run waits for a retry in a live container; no worker is offered it.
        lease_id: The deployment's concurrency lease that the run holds, if any.
        identifier: `infrastructure_pid`, empty while unknown.
        labels: Prefect's and ours, values as text.
    """

    id: str
    name: str
    state: RunState
    state_name: str
    state_id: str
    state_time: datetime
    observed_at: datetime
    previous: RunState | None = None
    suspended: bool = False
    retries_in_process: bool = False
    lease_id: str = ""
    identifier: str = ""
    deployment_id: str = ""
    flow_id: str = ""
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        """The highest attempt that was about to be created, 0 before the first."""
        return self._number(ATTEMPT_LABEL)

    @property
    def settled_attempt(self) -> int:
        """An announced attempt that is known to have no job, 0 if none is."""
        return self._number(SETTLED_LABEL)

    @property
    def place(self) -> tuple[str, str]:
        """Project and location of the last announced attempt, empty before the first."""
        return self.labels.get(PROJECT_LABEL, ""), self.labels.get(LOCATION_LABEL, "")

    @property
    def holder(self) -> str:
        """The signature of the process that last held the run, empty if none said so."""
        return self.labels.get(INSTANCE_LABEL, "")

    @property
    def holder_is_current(self) -> bool:
        """Whether that process spoke in the wait that the run is in.

        Else another has taken the run since, and has not said so yet.
        """
        if self.state is not RunState.PENDING or self.state_name in WITH_JOB_STATES:
            return True
        if self.state_name == AWAITING_STATE:
            return True
        return self.state_id in {self.labels.get(HELD_LABEL), self.labels.get(WAIT_LABEL)}

    @property
    def others_can_run(self) -> bool:
        """Whether any worker of the pool could create the run's next job.

        An ad-hoc run is born Pending, before its code is where a container could fetch it.
        """
        if self.deployment_id:
            return True
        bundle = self.labels.get(BUNDLE_LABEL, "")
        if bundle:
            return bundle == BUNDLE_STORED
        return bool(self.attempt or self.holder or WORKER_LABEL in self.labels)

    @property
    def waits_for_next(self) -> bool:
        """Whether it has become Pending anew since its last attempt was announced.

        Then the last attempt's job, however it ended, says nothing about this wait: somebody holds
        the run and is about to announce the next attempt.
        """
        announced_in = self.labels.get(WAIT_LABEL, "")
        if self.state is not RunState.PENDING or not announced_in:
            return False
        return self.state_name not in WITH_JOB_STATES and self.state_id != announced_in

    def _number(self, label: str) -> int:
        return whole_number(self.labels.get(label, "")) or 0

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.state.is_final

    def candidate(self, attempt: int) -> tuple[int, int] | None:
        """That attempt's candidate and its job's replicas; None if it is not the announced one."""
        number, *rest = self.labels.get(CANDIDATE_LABEL, "").split(":")
        if number != str(attempt) or len(rest) != 2:  # noqa: PLR2004 - a pair
            return None
        index, replicas = (whole_number(text) for text in rest)
        return None if index is None or replicas is None else (index, replicas)

    @property
    def replicas(self) -> int:
        """How many replicas its last announced attempt has; 1 before the first."""
        return (self.candidate(self.attempt) or (0, 1))[1]

    def verdict(self, attempt: int) -> str:
        """Why this product cancels that attempt's job; empty if it does not."""
        return self._verdict(attempt)[0]

    def is_verdict_sent(self, attempt: int) -> bool:
        """Whether Vertex AI is known to have taken that cancel."""
        return self._verdict(attempt)[1]

    def _verdict(self, attempt: int) -> tuple[str, bool]:
        number, _, rest = self.labels.get(VERDICT_LABEL, "").partition(":")
        reason, _, sent = rest.partition(":")
        return (reason, bool(sent)) if number == str(attempt) else ("", False)

    @property
    def strays(self) -> frozenset[str]:
        """Ids of the jobs that this product cancels because another has their place."""
        return frozenset(self.labels.get(STRAY_LABEL, "").split())
