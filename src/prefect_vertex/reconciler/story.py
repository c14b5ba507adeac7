"""What a flow run's artifacts depend on, so that no process draws what another has drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Key = tuple[str, str]
"""A job's location and id."""

_EDITION = 1
"""Of the artifacts' form: with a new one, those of live runs are drawn anew."""


def digest_of(
    jobs: Mapping[Key, JobSnapshot], *, serial: int, state: RunState, is_over: bool
) -> str:
    """What a run's artifacts depend on, as one word that any process finds alike.

    Args:
        jobs: Those of the run, by key.
        serial: Of the walk's trail; 0 where it has nothing to tell.
        state: The run's.
        is_over: Whether its end is known, and that of its jobs.
    """
    story = (
        _EDITION,
        sorted((*key, job.phase.name, str(job.error)) for key, job in jobs.items()),
        sorted(url for job in jobs.values() for url in job.web_access_uris.values()),
        serial,
        state.name,
        is_over,
    )
    return hashlib.sha256(repr(story).encode()).hexdigest()[:16]
