"""A command that was typed in a way that means nothing, and how that is told."""

from __future__ import annotations

from cyclopts import CycloptsError, UnusedCliTokensError

from prefect_vertex.errors import PlanError


class WrongUseError(PlanError):
    """Options that are missing, contradict each other or cannot be read; exit code 2."""


def told(error: CycloptsError) -> str:
    """What is printed of a command line that cannot be read: what is wrong, and who knows better.

    The same on a terminal as in a pipe, and as long as it is: nothing is folded or coloured.
    """
    text = " ".join(str(error).split())
    if isinstance(error, UnusedCliTokensError):
        text = f"Nothing takes {' '.join(error.unused_tokens or ())!r} here."
    command = " ".join(["prefect-vertex", *(error.command_chain or ())])
    hint = f"`{command} --help` says what there is."
    return f"prefect-vertex: {text}\n  {hint}\n"
