"""Every private name of Prefect's worker base class that this product leans on, in one place.

Each was read and tried in Prefect 3.9.1; tests/architecture/test_seams.py fails when one of them
moves.  The guards are here because the base class ends its process at the first 403, 429 or 500
that one flow run meets, and cancels every waiting `run()` with it.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import anyio
import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import PrefectSignal
from prefect.types import _datetime as prefect_datetime
from prefect.workers.base import (
    BaseJobConfiguration,
    BaseVariables,
    BaseWorker,
    BaseWorkerResult,
)

from prefect_vertex.planning.addresses import told
from prefect_vertex.runs.asking import about_stranger

C = TypeVar("C", bound=BaseJobConfiguration)
V = TypeVar("V", bound=BaseVariables)
R = TypeVar("R", bound=BaseWorkerResult)

SEAMS: tuple[str, ...] = (
    "_cancel_run",
    "_cancelling_observer",
    "_give_worker_labels_to_flow_run",
    "_has_successfully_synced",
    "_initiate_run",
    "_last_polled_time",
    "_limiter",
    "_mark_flow_run_as_cancelled",
    "_propose_crashed_state",
    "_release_limit_slot",
    "_submit_adhoc_run",
    "_submit_run",
    "_submitting_flow_run_ids",
    "_work_pool",
    "_work_pool_name",
)
"""The names; the test looks for each in the installed Prefect."""

API_TROUBLE: tuple[type[Exception], ...] = (httpx.HTTPError, ValueError)
"""What an API that fails raises; the second where an answer cannot be read: a page in its place."""


class GuardedWorker(BaseWorker[C, V, R], abc.ABC):
    """A worker whose process outlives the Prefect API's bad moments."""

    _api_trouble = ""

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Poll for runs; while the API fails, or enough are waiting, take none."""
        if self.is_saturated():
            # The rest stays Scheduled, where any worker can take it.
            self._last_polled_time = prefect_datetime.now("UTC")
            return []
        try:
            runs = await super().get_and_submit_flow_runs()
        except API_TROUBLE as error:
            self._say_trouble("poll for flow runs", error)
            return []
        self._say_recovered()
        return runs

    async def sync_with_backend(self) -> None:
        """Send the heartbeat; the first must succeed, so that a wrong key still fails at start."""
        if not self._has_successfully_synced:
            await super().sync_with_backend()
            await self.on_synced()
            return
        try:
            await super().sync_with_backend()
        except API_TROUBLE as error:
            self._say_trouble("send a heartbeat", error)
            return
        try:
            await self.on_synced()
        except API_TROUBLE as error:
            self._say_trouble("learn the pool's places", error)

    def send_heartbeats(self, ended: threading.Event) -> None:
        """Send heartbeats until the event is set; for a thread of its own.

        While its channel is up `sync_with_backend` sends none, and the channel closes as soon as
        the worker is asked to end, however long what it still has to do takes.  In a thread, so
        that bundling a large flow, which blocks the event loop, does not silence it either.
        """
        with get_client(sync_client=True) as client:
            while not ended.wait(self.heartbeat_interval_seconds):
                try:
                    client.send_worker_heartbeat(
                        self._work_pool_name, self.name, self.heartbeat_interval_seconds
                    )
                except API_TROUBLE as error:
                    self._say_trouble("send a heartbeat", error)

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Label the run with the worker's name; without it the run goes on.

        Whose it is, the reconciler writes itself before it creates anything.
        """
        try:
            await super()._give_worker_labels_to_flow_run(flow_run_id)
        except API_TROUBLE as error:
            self._logger.warning(
                "Flow run %s goes on without the labels that name its worker: %s",
                flow_run_id,
                _words_of(error),
            )

    async def _submit_run(self, flow_run: FlowRun) -> None:
        """Submit one run; its trouble is its own."""
        try:
            await super()._submit_run(flow_run)
        except (Exception, PrefectSignal) as error:  # noqa: BLE001 - one run must not end the process
            self._logger.warning(
                "Flow run %s could not be submitted and is tried again: %s",
                flow_run.id,
                _one_line(error),
            )
            self._submitting_flow_run_ids.discard(flow_run.id)
            self._release_limit_slot(flow_run.id)
            if self._cancelling_observer is not None:
                self._cancelling_observer.remove_in_flight_flow_run_id(flow_run.id)

    async def _mark_flow_run_as_cancelled(
        self, flow_run: FlowRun, state_updates: dict[str, Any] | None = None
    ) -> None:
        """End a run whose deployment is gone; the base class would keep its place in the limit."""
        try:
            await super()._mark_flow_run_as_cancelled(flow_run, state_updates)
        finally:
            self._release_limit_slot(flow_run.id)

    async def _cancel_run(self, flow_run_id: UUID) -> None:
        """Leave the cancellation to the reconciler: the base forces Cancelled on a live job."""
        self.on_cancelling(str(flow_run_id))

    def is_saturated(self) -> bool:
        """Whether enough runs wait to be submitted."""
        return False

    async def on_synced(self) -> None:
        """The work pool is known, or known anew."""

    def on_cancelling(self, flow_run_id: str) -> None:
        """A run is being cancelled."""

    @property
    def work_pool_id(self) -> str:
        """The pool's id, empty before the first sync."""
        return str(self._work_pool.id) if self._work_pool is not None else ""

    @property
    def is_synced(self) -> bool:
        """Whether the pool is known."""
        return self._work_pool is not None

    def take_slot(self, flow_run_id: str) -> bool:
        """Count an adopted run in `--limit`; False while it is full."""
        if self._limiter is None:
            return True
        try:
            self._limiter.acquire_on_behalf_of_nowait(UUID(flow_run_id))
        except anyio.WouldBlock:
            return False
        except RuntimeError:
            # It is counted already: the base class submitted it here.
            return True
        return True

    def free_slot(self, flow_run_id: str) -> None:
        """Count it no more."""
        self._release_limit_slot(UUID(flow_run_id))

    def is_submitting(self, flow_run_id: str) -> bool:
        """Whether this worker is about to submit the run, or has it under way."""
        return UUID(flow_run_id) in self._submitting_flow_run_ids

    def _say_trouble(self, attempted: str, error: Exception) -> None:
        text = f"Could not {attempted}: {_words_of(error)}"
        if text != self._api_trouble:
            self._logger.warning("%s The worker goes on.", text)
            self._api_trouble = text

    def _say_recovered(self) -> None:
        if self._api_trouble:
            self._logger.info("The Prefect API answers again.")
            self._api_trouble = ""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT cancel the current task where this process inherited it as ignored.

    A shell starts background commands so, and Prefect forwards a worker's first SIGTERM to itself
    as SIGINT, with the handler that it found: the worker would never end.
    """
    task = asyncio.current_task()
    in_main_thread = threading.current_thread() is threading.main_thread()
    found = signal.getsignal(signal.SIGINT)
    if task is None or not in_main_thread or not _is_ignored(found):
        yield
        return
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(task.cancel))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, found)


def _is_ignored(handler: object) -> bool:
    """Whether SIGINT does nothing, also behind the handler that `prefect worker start` sets."""
    if inspect.isfunction(handler):
        handler = inspect.getclosurevars(handler).nonlocals.get("original_handler")
    return handler is signal.SIG_IGN


def _words_of(error: Exception) -> str:
    return about_stranger(error) if isinstance(error, ValueError) else _one_line(error)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {told(error)}"


def base_attributes(worker: BaseWorker[Any, Any, Any]) -> set[str]:
    """Names that an instance of the installed Prefect's base class has; for the test."""
    return set(dir(worker)) | set(vars(worker))
