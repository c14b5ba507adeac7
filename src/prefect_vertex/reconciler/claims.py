"""Claims: who may do what must be done once, decided by the Prefect server."""

from __future__ import annotations

from collections.abc import Callable

from prefect_vertex.reconciler.ports import World

MAX_CLAIMS = 99
"""How many owners of one thing may follow each other, each gone before it was done."""


def numbered(key: str, number: int) -> str:
    """The key for the so many-th owner of a thing."""
    return key if number == 1 else f"{key}-{number}"


async def win(world: World, run_id: str, key: str, *, is_gone: Callable[[str], bool]) -> bool:
    """Claim a key for this process; the next in line for one whose owner is gone.

    Args:
        world: Its adapters.
        run_id: Whose claim.
        key: Letters, digits and dashes.
        is_gone: Whether a process is certainly gone, by its signature.
    """
    for number in range(1, MAX_CLAIMS + 1):
        owner = await world.runs.claim(run_id, numbered(key, number), world.signature)
        if owner == world.signature:
            return True
        if not owner or not is_gone(owner):
            return False
    return False
