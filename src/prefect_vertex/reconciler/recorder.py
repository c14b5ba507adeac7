"""Recorder: keeps a record of each launch in the staging bucket.

It is a task of its own that begins once a job is there, so that no create and no outcome waits for
the bucket. A record that cannot be written costs one warning in the run's log; one that is there
already stays as it is, so that nothing is lost by writing it twice. A process that is killed right
after a create leaves none.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio

from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.lifecycle.run import RECORDS_LABEL, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.addresses import told
from prefect_vertex.planning.launches import (
    build_record,
    record_text,
    record_uri,
    records_folder,
)
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.faults import log_fault
from prefect_vertex.reconciler.launches import Launch
from prefect_vertex.reconciler.ports import World
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.vertex.objects import Objects

logger = logging.getLogger(__name__)

SECONDS: Final = 60.0
"""Of one record, repetitions included."""

LAST_SECONDS: Final = 5.0
"""How long a process that ends may take for what it has still to write."""

MAX_WRITERS: Final = 4
"""Records that are written at the same time."""

MAX_WAITING: Final = 1_000
"""Records that wait for the bucket; a launch beyond them gets none."""


def launch_of(care: Care, view: RunView, job: JobSnapshot) -> Launch | None:
    """What a job was launched with; None where nobody here knows, or no record is wanted.

    Only what this very process has sent is told: a job that another one created may have been
    planned from something else.
    """
    plan, assignment = care.sent, care.assignment
    if plan is None or assignment is None or assignment.facts is None:
        return None
    if plan.attempt != job.attempt or plan.target.location != job.resource_name.location:
        return None
    if not plan.candidate.staging_folder:
        return None
    return Launch(
        run=view,
        plan=plan,
        job=job,
        facts=assignment.facts,
        candidates=assignment.names,
        bootstrap=assignment.bootstrap,
    )


class Recorder:
    """Writes records.

    Args:
        world: Whose launches.
        objects: Where to.
    """

    def __init__(self, world: World, objects: Objects) -> None:
        self._world = world
        self._objects = objects
        self._waiting: dict[tuple[str, int], Launch] = {}
        self._begun: set[tuple[str, int]] = set()
        self._wanted = anyio.Event()

    def note(self, care: Care) -> None:
        """Take a new launch over, if there is one; asks nobody."""
        launch, care.launch = care.launch, None
        if launch is None:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._warn(launch, f"{MAX_WAITING} others wait for the bucket.")
            return
        self._waiting[launch.run.id, launch.plan.attempt] = launch
        self._wanted.set()

    async def run_forever(self) -> None:
        """Write what is noted until cancelled."""
        limiter = anyio.CapacityLimiter(MAX_WRITERS)
        async with anyio.create_task_group() as group:
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                for key in self._waiting.keys() - self._begun:
                    self._begun.add(key)
                    group.start_soon(self._keep, key, limiter)

    async def finish(self) -> None:
        """Write what is left before the process ends, for a few seconds.

        Of what is left after them the run's log says that it is not kept.
        """
        limiter = anyio.CapacityLimiter(MAX_WRITERS)
        with anyio.move_on_after(LAST_SECONDS, shield=True):
            async with anyio.create_task_group() as group:
                for key in list(self._waiting):
                    group.start_soon(self._keep, key, limiter)
        for launch in self._waiting.values():
            why = f"There was no answer within {LAST_SECONDS:g} s before this process ended."
            self._warn(launch, why)
        self._waiting.clear()
        self._begun.clear()

    async def _keep(self, key: tuple[str, int], limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            launch = self._waiting[key]
            try:
                with anyio.fail_after(SECONDS):
                    await self._write(launch)
            except TimeoutError:
                self._warn(launch, f"There was no answer within {SECONDS:.0f} s.")
            except PrefectVertexError as error:
                self._warn(launch, str(error))
            except Exception as error:  # noqa: BLE001 - the task keeps everybody's records
                text = "The launch record of flow run %s was not written."
                log_fault(logger, error, text, key[0])
                self._warn(launch, f"{type(error).__name__}: {told(error)}")
            self._waiting.pop(key, None)
            self._begun.discard(key)

    async def _write(self, launch: Launch) -> None:
        plan, run_id = launch.plan, launch.run.id
        folder = plan.candidate.staging_folder
        uri = record_uri(folder, run_id, plan.attempt)
        record = build_record(
            plan,
            launch.facts,
            job=launch.job.resource_name,
            created_at=launch.job.create_time,
            candidates=launch.candidates,
            bootstrap=launch.bootstrap,
        )
        content = record_text(record).encode("utf-8", "backslashreplace")
        await self._objects.put_once(uri, content, key=plan.target.credentials_key)
        self._world.runs.log(launch.run, logging.INFO, f"Launch record: {uri}")
        where = records_folder(folder, run_id)
        if launch.run.labels.get(RECORDS_LABEL) != where:
            try:
                await self._world.runs.label(run_id, {RECORDS_LABEL: where})
            except PrefectUnavailableError as error:
                logger.info("Flow run %s: its page will not name its records. %s", run_id, error)

    def _warn(self, launch: Launch, why: str) -> None:
        text = f"No launch record of attempt {launch.plan.attempt} was kept. {why}"
        self._world.runs.log(launch.run, logging.WARNING, text)
