"""A Prefect server in memory, as far as `FlowRuns` sees one.

The server keeps the transition rules of Prefect 3.9.1 (tests/runs compares the two): it refuses a
second Pending state of the same name, takes a Pending state over a finished run as readily as over
a waiting one, and takes Cancelled over everything.  What it takes but nobody should propose is
noted in `misdeeds`.
"""

from __future__ import annotations

import inspect
import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import anyio.lowlevel

from prefect_vertex.lifecycle.history import PastState, overtaken
from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    LEADER_LABEL,
    RANK_LABEL,
    RunState,
    RunView,
)
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.spec import Target
from prefect_vertex.runs.port import PrefectUnavailableError, Proposal, Roster
from prefect_vertex.testing import FakeJobGateway, ManualClock

T = TypeVar("T")
Mischief = Callable[[str], tuple[Exception, bool] | None]
"""For a method: an error, and whether the call takes effect all the same."""

WAITING = {RunState.SCHEDULED, RunState.PENDING}


class WallClock:
    """The reconciler's clock, moved by a `ManualClock`; right, or some time ahead."""

    def __init__(self, manual: ManualClock, ahead: timedelta = timedelta()) -> None:
        self.manual = manual
        self.ahead = ahead

    def now(self) -> datetime:
        """The time, aware."""
        return self.manual.utc() + self.ahead


class AsRead:
    """An adapter as a worker has it whose clock is wrong: what it reads is dated by that clock."""

    def __init__(self, adapter: Any, ahead: timedelta) -> None:
        self._adapter = adapter
        self._ahead = ahead

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._adapter, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **fields: Any) -> Any:
            return self._dated(await method(*args, **fields))

        return call

    def _dated(self, answer: Any) -> Any:
        if isinstance(answer, RunView | JobSnapshot):
            return replace(answer, observed_at=answer.observed_at + self._ahead)
        if isinstance(answer, list | tuple):
            return type(answer)(self._dated(each) for each in answer)
        if isinstance(answer, dict):
            return {key: self._dated(each) for key, each in answer.items()}
        return answer


class Gateway(FakeJobGateway):
    """The fake, and outages.

    Every call of a method in `down` ends with the error there.  `mischief` may name an error for
    any call, to come before or after its effect.
    """

    down: dict[str, Exception]
    mischief: Mischief | None = None

    def __init__(self, target: Target, *, clock: ManualClock, list_lag_seconds: float) -> None:
        super().__init__(target, clock=clock, list_lag_seconds=list_lag_seconds)
        self.down = {}

    async def _call(self, method: str, effect: Callable[[], T]) -> T:
        if method in self.down:
            self.calls[method] += 1
            raise self.down[method]
        fault = self.mischief(method) if self.mischief is not None else None
        if fault is not None and not fault[1]:
            raise fault[0]
        answer = await super()._call(method, effect)
        if fault is not None:
            raise fault[0]
        return answer


@dataclass
class Run:
    """One flow run on the server."""

    id: str
    deployment_id: str
    history: list[tuple[RunState, str, str, datetime]]
    labels: dict[str, str] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    identifier: str = ""
    lease_id: str = ""
    message: str = ""
    suspended: bool = False
    retries_in_process: bool = False
    ended_at: datetime | None = None

    @property
    def state(self) -> RunState:
        """Its state's type."""
        return self.history[-1][0]

    @property
    def name(self) -> str:
        """Its state's name."""
        return self.history[-1][1]

    @property
    def names(self) -> list[str]:
        """The names of all states that it was in."""
        return [name for _, name, _, _ in self.history]

    @property
    def attempt(self) -> int:
        """The attempt that its labels announce."""
        return int(self.labels.get(ATTEMPT_LABEL, "0"))


class FakeFlowRuns:
    """`FlowRuns` in memory."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._ids = itertools.count(1)
        self.rows: dict[str, Run] = {}
        self.follower_rows: dict[str, Run] = {}
        """Flow runs of replicas other than the leader, which are in no pool."""
        self.online: set[str] = set()
        self.offline: set[str] = set()
        self.leases: dict[str, datetime] = {}
        self.renewals: dict[str, list[datetime]] = defaultdict(list)
        self.down = False
        self.mischief: Mischief | None = None
        self.poison: dict[str, Exception] = {}
        self.calls: Counter[str] = Counter()
        self.logs: dict[str, list[str]] = defaultdict(list)
        self.events: dict[tuple[str, str, str], Mapping[str, str]] = {}
        self.told_at: dict[tuple[str, str, str], datetime | None] = {}
        self.signs: dict[str, datetime] = {}
        self.tables: dict[str, list[list[dict[str, str]]]] = defaultdict(list)
        self.misdeeds: list[str] = []
        self.refused: set[RunState] = set()
        """What is proposed in vain, as while somebody locks the run."""
        self._lost_answer: Exception | None = None

    # --- what a test says ----------------------------------------------------------------------

    def add(self, *, deployment_id: str = "a-deployment") -> Run:
        """A Scheduled run."""
        run_id = str(uuid.UUID(int=next(self._ids)))
        run = Run(run_id, deployment_id, [])
        self.rows[run_id] = run
        self.put(run_id, RunState.SCHEDULED)
        return run

    def add_follower(self, leader: Run, attempt: int, rank: int) -> Run:
        """A Running flow run of one of the leader's replicas."""
        labels = {LEADER_LABEL: leader.id, ATTEMPT_LABEL: str(attempt), RANK_LABEL: str(rank)}
        run = Run(str(uuid.UUID(int=next(self._ids))), "", [], labels=labels)
        self.follower_rows[run.id] = run
        self.put(run.id, RunState.RUNNING)
        return run

    def put(self, run_id: str, state: RunState, name: str = "", message: str = "") -> None:
        """Put a run into a state, as the server does, a person or its container."""
        run, now = (self.rows | self.follower_rows)[run_id], self._clock.now()
        name = name or state.value.capitalize()
        run.history.append((state, name, f"state-{next(self._ids)}", now))
        run.message = message
        run.ended_at = now if state.is_final else None

    # --- FlowRuns ------------------------------------------------------------------------------

    async def read(self, run_id: str) -> RunView | None:
        """See `FlowRuns.read`."""
        await self._call("read", run_id)
        return self._view(self.rows[run_id]) if run_id in self.rows else None

    async def came_from(self, run: RunView) -> RunState | None:
        """See `FlowRuns.came_from`."""
        await self._call("came_from", run.id)
        return self._before(self.rows[run.id])

    async def read_many(self, run_ids: Collection[str]) -> dict[str, RunView]:
        """See `FlowRuns.read_many`."""
        await self._call("read_many")
        known = [uuid.UUID(run_id) for run_id in run_ids]
        return {str(key): self._view(self.rows[str(key)]) for key in known if str(key) in self.rows}

    async def cancelling_or_ended(self, since: datetime) -> list[RunView]:
        """See `FlowRuns.cancelling_or_ended`."""
        views = await self._in_states("cancelling_or_ended", {RunState.CANCELLING})
        rows = self.rows.values()
        return views + [self._view(run) for run in rows if run.ended_at and run.ended_at >= since]

    async def unfinished(self) -> list[RunView]:
        """See `FlowRuns.unfinished`: also runs that wait for a retry."""
        begun = {RunState.PENDING, RunState.RUNNING, RunState.CANCELLING, RunState.PAUSED}
        views = await self._in_states("unfinished", begun)
        rows = self.rows.values()
        return views + [self._view(run) for run in rows if run.names[-1] == "AwaitingRetry"]

    async def restore(self, run: RunView) -> bool:
        """See `FlowRuns.restore`."""
        await self._call("restore", run.id)
        row = self.rows.get(run.id)
        if row is None or row.history[-1][2] != run.state_id:
            return False
        place = overtaken([PastState(state, name) for state, name, _, _ in row.history])
        if place is None:
            return False
        state, name, _, _ = row.history[place]
        self.put(run.id, state, name)
        return self._answer(value=True)

    async def propose(self, run_id: str, proposal: Proposal) -> bool:
        """See `FlowRuns.propose`."""
        await self._call("propose", run_id)
        run = self.rows.get(run_id) or self.follower_rows.get(run_id)
        if run is None or proposal.state in self.refused or not self._accepts(run, proposal):
            return False
        self.put(run_id, proposal.state, proposal.name, proposal.message)
        return self._answer(value=True)

    async def label(self, run_id: str, labels: Mapping[str, str]) -> None:
        """See `FlowRuns.label`."""
        await self._call("label", run_id)
        if run_id in self.rows:
            self.rows[run_id].labels.update(labels)
        self._answer(None)

    async def name_infrastructure(self, run_id: str, identifier: str) -> None:
        """See `FlowRuns.name_infrastructure`."""
        await self._call("name_infrastructure", run_id)
        if run_id in self.rows:
            self.rows[run_id].identifier = identifier

    async def hand_back(self, run_id: str) -> None:
        """See `FlowRuns.hand_back`."""
        await self._call("hand_back", run_id)
        self.rows[run_id].retries_in_process = False

    async def claim(self, run_id: str, key: str, value: str) -> str:
        """See `FlowRuns.claim`."""
        await self._call("claim", run_id)
        claims = self.rows[run_id].claims if run_id in self.rows else {}
        return self._answer(claims.setdefault(key, value))

    async def read_claim(self, run_id: str, key: str) -> str:
        """See `FlowRuns.read_claim`."""
        await self._call("read_claim", run_id)
        return self.rows[run_id].claims.get(key, "") if run_id in self.rows else ""

    async def has_claim(self, run_id: str, prefix: str) -> bool:
        """See `FlowRuns.has_claim`."""
        await self._call("read_claim", run_id)
        claims = self.rows[run_id].claims if run_id in self.rows else {}
        return any(key.startswith(prefix) for key in claims)

    async def followers(self, leader_ids: Collection[str]) -> list[RunView]:
        """See `FlowRuns.followers`: the link ends with the leader's run."""
        await self._call("followers")
        return self._unfinished_followers(set(leader_ids) & self.rows.keys())

    async def followers_of_deleted(
        self, leader_id: str, attempt: int, replicas: int
    ) -> list[RunView]:
        """See `FlowRuns.followers_of_deleted`."""
        await self._call("followers_of_deleted")
        ranks = {str(rank) for rank in range(1, replicas)}
        found = self._unfinished_followers({leader_id})
        return [
            view
            for view in found
            if view.attempt == attempt and view.labels.get(RANK_LABEL) in ranks
        ]

    async def renew_lease(self, lease_id: str) -> bool:
        """See `FlowRuns.renew_lease`."""
        await self._call("renew_lease")
        now = self._clock.now()
        if self.leases.get(lease_id, now) <= now:
            return False
        self.leases[lease_id] = now + timedelta(seconds=300)
        self.renewals[lease_id].append(now)
        return True

    async def roster(self) -> Roster:
        """See `FlowRuns.roster`."""
        await self._call("roster")
        online = frozenset(self.online - self.offline)
        heard_at = self._clock.now() if online else None
        return Roster(online=online, offline=frozenset(self.offline), heard_at=heard_at)

    async def last_sign(self, run: RunView) -> datetime:
        """See `FlowRuns.last_sign`."""
        await self._call("last_sign", run.id)
        return max(run.state_time, self.signs.get(run.id, run.state_time))

    async def publish(
        self, run: RunView, key: str, rows: Sequence[Mapping[str, str]], description: str
    ) -> None:
        """See `FlowRuns.publish`."""
        await self._call("publish", run.id)
        self.tables[key].append([dict(row) for row in rows])

    def log(self, run: RunView, level: int, message: str) -> None:
        """See `FlowRuns.log`."""
        self.logs[run.id].append(message)

    def emit(
        self,
        run: RunView,
        event: str,
        key: str,
        payload: Mapping[str, str],
        *,
        at: datetime | None = None,
    ) -> None:
        """See `FlowRuns.emit`."""
        self.events[run.id, event, key] = payload
        self.told_at[run.id, event, key] = at

    # --- inside --------------------------------------------------------------------------------

    async def _call(self, method: str, run_id: str = "") -> None:
        self.calls[method] += 1
        await anyio.lowlevel.checkpoint()
        if self.down:
            raise PrefectUnavailableError("The Prefect API answered 503 to GET /.")
        if run_id in self.poison:
            raise self.poison[run_id]
        fault = self.mischief(method) if self.mischief is not None else None
        if fault is not None and not fault[1]:
            raise fault[0]
        self._lost_answer = fault[0] if fault is not None else None

    def _answer(self, value: T) -> T:
        """Give the answer, unless it gets lost."""
        lost, self._lost_answer = self._lost_answer, None
        if lost is not None:
            raise lost
        return value

    def _unfinished_followers(self, leaders: set[str]) -> list[RunView]:
        rows = self.follower_rows.values()
        found = [run for run in rows if run.labels[LEADER_LABEL] in leaders]
        return [self._view(run) for run in found if not run.state.is_final]

    async def _in_states(self, method: str, states: set[RunState]) -> list[RunView]:
        await self._call(method)
        return [self._view(run) for run in self.rows.values() if run.state in states]

    @staticmethod
    def _before(run: Run) -> RunState | None:
        skipped = WAITING if run.state in WAITING else {run.state}
        return next((kind for kind, *_ in reversed(run.history) if kind not in skipped), None)

    def _view(self, run: Run) -> RunView:
        state, name, state_id, since = run.history[-1]
        asked = state in {RunState.CANCELLING, RunState.SCHEDULED}
        return RunView(
            id=run.id,
            name="a-run",
            state=state,
            state_name=name,
            state_id=state_id,
            state_time=since,
            observed_at=self._clock.now(),
            previous=self._before(run) if asked else None,
            suspended=run.suspended and state is RunState.PAUSED,
            retries_in_process=run.retries_in_process,
            lease_id=run.lease_id,
            identifier=run.identifier,
            deployment_id=run.deployment_id,
            labels=dict(run.labels),
        )

    def _accepts(self, run: Run, proposal: Proposal) -> bool:
        old, new = run.state, proposal.state
        if new is RunState.PENDING and proposal.name == run.name:
            return False
        final = {state for state in RunState if state.is_final}
        begun = {RunState.RUNNING, RunState.PAUSED}
        refused: dict[RunState, set[RunState]] = {
            RunState.PENDING: begun | {RunState.CANCELLING, RunState.CANCELLED},
            RunState.SCHEDULED: {RunState.CANCELLING},
            RunState.CRASHED: final | {RunState.CANCELLING},
            RunState.CANCELLED: set(),
        }
        if old in refused[new]:
            return False
        # Two workers may read the same Cancelling run in the same moment, and both be right.
        wrong = (old.is_final and old is not new) or (
            new is RunState.PENDING and old is not RunState.PENDING
        )
        if wrong or (run.suspended and old is RunState.PAUSED):
            self.misdeeds.append(f"{proposal.name} over {run.names[-1]}")
        return True
