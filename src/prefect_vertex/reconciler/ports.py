"""What the reconciler is given: its adapters, its pool, its figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from prefect_vertex.chronicle.prices import PriceList
from prefect_vertex.lifecycle.clocks import Leads
from prefect_vertex.lifecycle.run import signature_of
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.clock import Clock, SystemClock
from prefect_vertex.runs.journal import Journal
from prefect_vertex.runs.pages import Pages
from prefect_vertex.runs.port import FlowRuns
from prefect_vertex.vertex.gateway import JobGateway
from prefect_vertex.vertex.logs import LogSource
from prefect_vertex.vertex.objects import Objects


class Gateways(Protocol):
    """A gateway for each target."""

    def for_target(self, target: Target) -> JobGateway:
        """The gateway that speaks for this project and location with these credentials."""
        ...


class Slots(Protocol):
    """The worker's hands: its limit, for jobs that it adopts, and what it is taking."""

    def take(self, run_id: str) -> bool:
        """Count an adopted job; False while the limit is full, to be tried again."""
        ...

    def free(self, run_id: str) -> None:
        """Count it no more."""
        ...

    def is_submitting(self, run_id: str) -> bool:
        """Whether this worker has taken the run and not yet put it under care."""
        ...


class NoSlots:
    """A worker without a limit."""

    def take(self, run_id: str) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing to count."""
        return True

    def free(self, run_id: str) -> None:
        """Nothing to free."""

    def is_submitting(self, run_id: str) -> bool:  # noqa: ARG002
        """It takes no runs by itself."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How often, in seconds; see `settings.VertexSettings`."""

    tick_seconds: float = 5.0
    reads_per_minute: float = 300.0
    log_poll_seconds: float = 15.0
    sweep_seconds: float = 60.0
    lease_seconds: float = 300.0
    requeue_grace_seconds: float = 30.0
    unannounced_seconds: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The reconciler's surroundings.

    Attributes:
        pool_id: The work pool's id in Prefect; the pool's jobs carry it as a label.
        worker_name: As Prefect knows this worker.
        instance: This process, told apart from an earlier one of the same name.
        home: Where the pool's jobs are looked for besides the places that runs name.
        log_source: Where jobs' log entries are read; None: nowhere.
        journal: The runs' logs, to write their lines into; None where none are read.
        pages: Where the runs' artifacts go; None: there are none.
        objects: Where launch records are kept; None: nowhere.
        prices: For estimates of what a run's machines cost; None: there are none.
        leads: How far this machine's clock is ahead of others; learned from what is read.
        has_console: Whether a person finds the jobs in Google Cloud's console.
    """

    runs: FlowRuns
    gateways: Gateways
    pool_id: str
    worker_name: str
    instance: str
    home: Callable[[], frozenset[Target]] = frozenset
    log_source: LogSource | None = None
    journal: Journal | None = None
    pages: Pages | None = None
    objects: Objects | None = None
    prices: PriceList | None = None
    has_console: bool = True
    slots: Slots = field(default_factory=NoSlots)
    clock: Clock = field(default_factory=SystemClock)
    leads: Leads = field(default_factory=Leads)
    figures: Figures = field(default_factory=Figures)

    @property
    def signature(self) -> str:
        """What a run's label says of its holder: `<worker name>/<instance>`."""
        return signature_of(self.worker_name, self.instance)


def worker_of(signature: str) -> str:
    """The worker's name in a holder's signature."""
    return signature.rpartition("/")[0]
