"""What a person reads of a run besides its state: log lines and events, by Prefect's own queues."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from prefect.events import emit_event
from prefect.logging.loggers import flow_run_logger

from prefect_vertex.lifecycle.run import RunView

_EVENT_NAMESPACE = uuid.UUID("3f2b0f4e-6d0a-5b5e-9c39-0c6c3f6c8a11")


def write_line(run: RunView, work_pool_name: str, level: int, message: str) -> None:
    """Write a line to the run's log."""
    logger = flow_run_logger(flow_run_id=uuid.UUID(run.id), flow_run_name=run.name)
    logger.getChild("worker", extra={"work_pool_name": work_pool_name}).log(level, message)


def emit_job_event(run: RunView, event: str, key: str, payload: Mapping[str, str]) -> None:
    """Emit an event about the run's job; the same run, event and key are one event."""
    resource = payload.get("resource_name", run.id)
    emit_event(
        event=event,
        resource={
            "prefect.resource.id": f"prefect-vertex.job.{resource}",
            "prefect.resource.name": payload.get("display_name", run.name),
        },
        related=[
            {
                "prefect.resource.id": f"prefect.flow-run.{run.id}",
                "prefect.resource.role": "flow-run",
                "prefect.resource.name": run.name,
            },
        ],
        payload=dict(payload),
        id=uuid.uuid5(_EVENT_NAMESPACE, f"{run.id}/{event}/{key}"),
    )
