"""Intake: a run that this process has just taken, until it is known what it asks for."""

from __future__ import annotations

import logging
import random
from typing import Protocol

import anyio

from prefect_vertex.errors import PrefectVertexError, ServiceError
from prefect_vertex.lifecycle.run import HELD_LABEL, INSTANCE_LABEL, RunState
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.loop import Reconciler
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.tickets import Ticket
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.template import VertexJobConfiguration
from prefect_vertex.template.patience import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS


class Assigner(Protocol):
    """As much of the adapters as is needed."""

    @property
    def create_budget_seconds(self) -> float:
        """How long an outage may last that costs no run."""
        ...

    async def assignment(self, run_id: str, configuration: VertexJobConfiguration) -> Assignment:
        """What a run asks for; raises `PrefectVertexError`."""
        ...


async def taken(
    reconciler: Reconciler,
    assigner: Assigner,
    run_id: str,
    configuration: VertexJobConfiguration,
) -> Ticket:
    """Put a run under care, or see to it that it crashes of what it asks for.

    Credentials that cannot be had for the moment are asked for again, as a create is: the machine's
    metadata server may not answer yet when a worker starts.

    Args:
        reconciler: Whose care.
        assigner: Reads what runs ask for.
        run_id: The run; this process moved it to Pending.
        configuration: What it asks for.

    Returns:
        Where its end is told; it may have come already.
    """
    policy = configuration.run_policy()
    deadline = anyio.current_time() + assigner.create_budget_seconds
    pause, is_told = FIRST_PAUSE_SECONDS, False
    held: Ticket | None = None
    try:
        while held is None or held.outcome is None:
            try:
                assignment = await assigner.assignment(run_id, configuration)
            except PrefectVertexError as error:
                trouble = error
            else:
                break
            # Runs that were submitted together do not come back together.
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - nothing secret
            if not _may_pass(trouble) or anyio.current_time() + wait > deadline:
                return reconciler.refuse(run_id, policy, str(trouble))
            held = held or reconciler.hold(run_id, policy)
            is_told = is_told or await _announced(
                reconciler.world, run_id, trouble, assigner.create_budget_seconds
            )
            await _wait(reconciler, run_id, held, wait)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        if held is not None and held.outcome is not None:
            return held
        return reconciler.take(assignment)
    finally:
        if held is not None:
            reconciler.drop(run_id, held)


def _may_pass(error: PrefectVertexError) -> bool:
    return isinstance(error, ServiceError) and error.retryable


async def _announced(world: World, run_id: str, error: PrefectVertexError, seconds: float) -> bool:
    """Say who holds the run, before another process takes it for nobody's, and what it waits for.

    Returns:
        Whether nothing is left to say.
    """
    try:
        view = await world.runs.read(run_id)
        if view is None or view.state is not RunState.PENDING:
            return True
        if view.holder_is_current and view.holder != world.signature:
            return True
        labels = {INSTANCE_LABEL: world.signature, HELD_LABEL: view.state_id}
        await world.runs.label(run_id, labels)
    except PrefectUnavailableError:
        return False
    world.runs.log(view, logging.WARNING, f"{error} Asking again, for up to {seconds:g} s.")
    return True


async def _wait(reconciler: Reconciler, run_id: str, held: Ticket, seconds: float) -> None:
    """Pause, and look whether the run was cancelled: an errand's reconciler does not by itself."""
    reconciler.nudge(run_id)
    with anyio.move_on_after(seconds):
        await held.wait_ended()
