"""Submitters: processes that send an ad-hoc run's job and take no runs.

Prefect lists them among the work pool's workers, and goes on calling one online for minutes after
its end.  Their names tell them from workers.
"""

from __future__ import annotations

from uuid import uuid4

_PREFIX = "VertexSubmitter "


def submitter_name() -> str:
    """A name for this process."""
    return f"{_PREFIX}{uuid4()}"


def is_submitter(worker_name: str) -> bool:
    """Whether a worker's name is a submitter's."""
    return worker_name.startswith(_PREFIX)
