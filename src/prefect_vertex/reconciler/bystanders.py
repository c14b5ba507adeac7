"""Bystanders: the tasks that tell of runs and their jobs, and decide nothing about them."""

from __future__ import annotations

import logging
from typing import Protocol

from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.chronicler import Chronicler
from prefect_vertex.reconciler.faults import log_fault
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.streams import Streams
from prefect_vertex.reconciler.upkeep import Upkeep

logger = logging.getLogger(__name__)


class Bystander(Protocol):
    """Whoever wants to see a run after each look at it."""

    def note(self, care: Care) -> None:
        """See it; asks nobody."""
        ...


def note(care: Care, *bystanders: Bystander | None) -> None:
    """Show them a run; what goes wrong with one of them is no matter of the run's."""
    for bystander in bystanders:
        try:
            if bystander is not None:
                bystander.note(care)
        except Exception as error:  # noqa: BLE001 - it would end the task that attends all runs
            text = "What became of flow run %s may not be told fully."
            log_fault(logger, error, text, care.run_id)


def streams_of(world: World, upkeep: Upkeep) -> Streams | None:
    """What brings replicas' lines into runs' logs, where they can be read."""
    if world.log_source is None or world.journal is None:
        return None
    return Streams(world, world.log_source, world.journal, is_gone=upkeep.is_process_gone)


def chronicler_of(world: World, upkeep: Upkeep) -> Chronicler | None:
    """What draws runs' artifacts, where they are wanted."""
    if world.pages is None:
        return None
    return Chronicler(world, world.pages, world.prices, is_gone=upkeep.is_process_gone)
