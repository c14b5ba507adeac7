"""FlowRuns: what the reconciler asks of Prefect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from prefect_vertex.lifecycle.run import RunState, RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A state to propose, never forced."""

    state: RunState
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The names of a pool's workers by what Prefect's heartbeat says of them.

    A worker that was killed is called online for three more of its heartbeats.  A process that
    only submits its own flows is never among those online: it takes no runs.

    Attributes:
        heard_at: When the last heartbeat of any of them came in, by the server's clock.
    """

    online: frozenset[str] = frozenset()
    offline: frozenset[str] = frozenset()
    heard_at: datetime | None = None


class PrefectUnavailableError(Exception):
    """The Prefect API did not answer, or answered with an error: nothing is known of any run.

    It never leaves the reconciler: a tick that meets it ends, and the next one begins afresh.
    """


class FlowRuns(Protocol):
    """The pool's flow runs, as small as the reconciler needs them.

    Every method raises `PrefectUnavailableError` when the API fails; a run that does not exist is
    None or left out.
    """

    async def read(self, run_id: str) -> RunView | None:
        """Read one run, with its previous state where a decision needs it."""
        ...

    async def came_from(self, run: RunView) -> RunState | None:
        """The last state type that a waiting run was in before it waited; None for a new run."""
        ...

    async def read_many(self, run_ids: Collection[str]) -> dict[str, RunView]:
        """Read runs by id; one that is missing from the answer may still exist."""
        ...

    async def cancelling_or_ended(self, since: datetime) -> list[RunView]:
        """The pool's runs that are Cancelling, and those that ended at or after a time."""
        ...

    async def unfinished(self) -> list[RunView]:
        """All of the pool's runs that have begun and not ended; absence says nothing.

        A run that waits to be retried has begun: its container may have died while it waited.
        """
        ...

    async def restore(self, run: RunView) -> bool:
        """Give a waiting run back the state that a worker's late word took away, if one did.

        Returns:
            Whether it had to; then the run is to be read again. Safe to repeat.
        """
        ...

    async def propose(self, run_id: str, proposal: Proposal) -> bool:
        """Propose a state; whether the server accepted it. A refusal is no error."""
        ...

    async def label(self, run_id: str, labels: Mapping[str, str]) -> None:
        """Merge labels into the run's."""
        ...

    async def name_infrastructure(self, run_id: str, identifier: str) -> None:
        """Write `infrastructure_pid`."""
        ...

    async def hand_back(self, run_id: str) -> None:
        """Offer a scheduled run that waits for a dead process's retry to the workers."""
        ...

    async def claim(self, run_id: str, key: str, value: str) -> str:
        """Claim a key for ever, atomically; returns the value that holds it."""
        ...

    async def read_claim(self, run_id: str, key: str) -> str:
        """The value that holds a claim, empty if nobody does."""
        ...

    async def has_claim(self, run_id: str, prefix: str) -> bool:
        """Whether anybody holds a key that begins so."""
        ...

    async def followers(self, leader_ids: Collection[str]) -> list[RunView]:
        """The follower flow runs of these runs that have not ended, of all attempts."""
        ...

    async def followers_of_deleted(
        self, leader_id: str, attempt: int, replicas: int
    ) -> list[RunView]:
        """The same of one attempt of a run that does not exist any more, which unlinks them."""
        ...

    async def renew_lease(self, lease_id: str) -> bool:
        """Renew a concurrency lease; False if the server has lost it."""
        ...

    async def roster(self) -> Roster:
        """The pool's workers by Prefect's heartbeat."""
        ...

    async def last_sign(self, run: RunView) -> datetime:
        """When the run, or a subflow run of it, last changed, wrote a line or sent a heartbeat."""
        ...

    async def publish(
        self, run: RunView, key: str, rows: Sequence[Mapping[str, str]], description: str
    ) -> None:
        """Write a table artifact in the place of the run's last one of that key.

        The key holds lower case letters, digits and dashes.
        """
        ...

    def log(self, run: RunView, level: int, message: str) -> None:
        """Write a line to the run's log."""
        ...

    def emit(
        self,
        run: RunView,
        event: str,
        key: str,
        payload: Mapping[str, str],
        *,
        at: datetime | None = None,
    ) -> None:
        """Emit an event about the run's job; the same run, event and key are one event.

        Its time is `at`, or now.
        """
        ...
