"""Builders with defaults: a test says only what it is about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.chronicle.chronicle import Chronicle, Sources, build_chronicle
from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot, PoolMachines
from prefect_vertex.lifecycle.states import phase_of
from prefect_vertex.planning import naming
from prefect_vertex.planning.naming import ResourceName

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def at() -> Callable[[float], datetime]:
    """So many seconds after noon."""
    return lambda seconds: NOON + timedelta(seconds=seconds)


@pytest.fixture(scope="session")
def machines() -> Callable[..., tuple[PoolMachines, ...]]:
    """The pools of so many replicas."""

    def build(replicas: int = 1, machine_type: str = "n1-standard-4", **fields: Any) -> Any:
        counts = [1] if replicas == 1 else [1, replicas - 1]
        return tuple(
            PoolMachines(pool=pool, replicas=count, machine_type=machine_type, **fields)
            for pool, count in enumerate(counts)
        )

    return build


@pytest.fixture(scope="session")
def a_job(
    at: Callable[[float], datetime], machines: Callable[..., Any]
) -> Callable[..., JobSnapshot]:
    """A job that was created at noon; times are seconds after that."""

    def build(
        state: str = "RUNNING",
        *,
        attempt: int = 1,
        created: float = 0,
        started: float | None = None,
        ended: float | None = None,
        error: tuple[int, str] | None = None,
        **fields: Any,
    ) -> JobSnapshot:
        values: dict[str, Any] = {"machines": machines(), "strategy": "STANDARD", **fields}
        location = values.pop("location", "us-central1")
        word = f"JOB_STATE_{state}"
        return JobSnapshot(
            resource_name=ResourceName("123", location, f"400{attempt}"),
            display_name=f"a-run-a{attempt}",
            phase=phase_of(word),
            state=word,
            observed_at=at(3600),
            create_time=at(created),
            start_time=at(started) if started is not None else None,
            end_time=at(ended) if ended is not None else None,
            error=JobError(code=error[0], message=error[1]) if error else None,
            labels={naming.ATTEMPT_LABEL: str(attempt)},
            **values,
        )

    return build


@pytest.fixture(scope="session")
def a_run() -> Callable[..., RunView]:
    """A run."""

    def build(state: RunState = RunState.RUNNING, **labels: str) -> RunView:
        return RunView(
            id="0f1e2d3c-1111-4222-8333-444455556666",
            name="keen-otter",
            state=state,
            state_name=state.value.capitalize(),
            state_id="a-state",
            state_time=NOON,
            observed_at=NOON,
            labels={f"prefect-vertex.{name}": text for name, text in labels.items()},
        )

    return build


@pytest.fixture(scope="session")
def told(
    at: Callable[[float], datetime], a_run: Callable[..., RunView]
) -> Callable[..., Chronicle]:
    """The chronicle of some jobs, an hour after noon."""

    def build(*jobs: JobSnapshot, **sources: Any) -> Chronicle:
        values: dict[str, Any] = {"run": a_run(), "now": at(3600), **sources}
        return build_chronicle(Sources(jobs=jobs, **values))

    return build
