"""WrongUseError: a command that was typed in a way that means nothing."""

from __future__ import annotations

from prefect_vertex.errors import PlanError


class WrongUseError(PlanError):
    """Options that are missing, contradict each other or cannot be read; exit code 2."""
