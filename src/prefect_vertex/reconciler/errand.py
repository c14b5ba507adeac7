"""An errand: one run's job is created here, and the run is let go to the pool's workers.

It is what ad-hoc submission does.  The create takes the same steps as in a worker, in a reconciler
that knows this run alone: it neither lists the pool's jobs nor touches another run.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import anyio

from prefect_vertex.lifecycle.run import (
    BUNDLE_LABEL,
    INSTANCE_LABEL,
    RELEASED,
    RunState,
    RunView,
)
from prefect_vertex.reconciler.intake import taken
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.wiring import Surroundings
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.template import VertexJobConfiguration


async def run_errand(
    surroundings: Surroundings,
    run_id: str,
    configuration: VertexJobConfiguration,
    *,
    bundle: str = "",
) -> None:
    """Create a Pending run's job, then let the run go.

    It returns once the job exists, or the run has ended without one.  A create that is refused for
    now, or unanswered, is waited for as in a worker.

    Args:
        surroundings: This process's adapters.
        run_id: The run; this process holds it.
        configuration: What it asks for.
        bundle: Where its code is, one of the values of `BUNDLE_LABEL`; empty: nothing is said.
    """
    # Logs and pictures are for whoever watches it.
    world = replace(surroundings.world(), log_source=None, journal=None, pages=None)
    if bundle:
        with suppress(PrefectUnavailableError):  # what it says until then is on the safe side
            await world.runs.label(run_id, {BUNDLE_LABEL: bundle})
    async with Reconciler(world) as reconciler:
        ticket = await taken(reconciler, surroundings, run_id, configuration)
        async with anyio.create_task_group() as group:
            group.start_soon(_attend, reconciler, run_id)
            await ticket.wait_started()
            await reconciler.settled()
            group.cancel_scope.cancel()
    # From here on nothing may raise: the base class would crash a run that has a live job.
    with suppress(PrefectUnavailableError):  # Prefect calls this process offline soon enough
        await _let_go(world, run_id)


async def _attend(reconciler: Reconciler, run_id: str) -> None:
    """Look at the run when it is due or no longer waits, until cancelled."""
    while True:
        await anyio.sleep(reconciler.interval)
        care = reconciler.book[run_id]
        try:
            view = await reconciler.world.runs.read(run_id)
        except PrefectUnavailableError:
            continue
        due = care.look_at is None or care.look_at <= datetime.now(UTC)
        if view is None or view.state is not RunState.PENDING or (due and not care.busy):
            reconciler.nudge(run_id)


async def _let_go(world: World, run_id: str) -> None:
    view = await world.runs.read(run_id)
    if view is None or view.is_final or view.holder != world.signature:
        return
    await world.runs.label(run_id, {INSTANCE_LABEL: RELEASED})
    await _warn_if_unwatched(world, view)


async def _warn_if_unwatched(world: World, view: RunView) -> None:
    """Say where nobody would see a job that ends before the flow starts."""
    if (await world.runs.roster()).online <= {world.worker_name}:
        text = (
            "No worker of the work pool is online: until one is (`prefect worker start`), a job "
            "that fails before the flow starts leaves this flow run Pending, and cancelling it "
            "leaves the job."
        )
        world.runs.log(view, logging.WARNING, text)
