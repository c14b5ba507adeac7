"""What a person reads of a run besides its state: log lines and events, by Prefect's own queues."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prefect.client.schemas.actions import LogCreate
from prefect.events import emit_event
from prefect.logging.loggers import flow_run_logger
from prefect.settings import PREFECT_LOGGING_TO_API_MAX_LOG_SIZE
from prefect.utilities.slugify import slugify

from prefect_vertex.lifecycle.lines import Line
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.planning.spelling import storable

LABELLED = ("reason", "location", "attempt", "state", "replica", "exit_status")
"""Entries of an event's payload that are labels of its resource too."""

CUT_MARK = "... [truncated]"
"""Ends a text that was too long, as Prefect does it."""

_EVENT_NAMESPACE = uuid.UUID("3f2b0f4e-6d0a-5b5e-9c39-0c6c3f6c8a11")


def write_line(run: RunView, work_pool_name: str, level: int, message: str) -> None:
    """Write a line to the run's log."""
    logger = flow_run_logger(flow_run_id=uuid.UUID(run.id), flow_run_name=run.name)
    logger.getChild("worker", extra={"work_pool_name": work_pool_name}).log(level, message)


def as_logs(run: RunView, lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Lines with times of their own, as the API takes them; a long one is cut as Prefect does."""
    return [
        LogCreate(
            name=line.logger,
            level=line.level,
            message=cut(line.text),
            timestamp=line.timestamp,
            flow_run_id=uuid.UUID(run.id),
        ).model_dump(mode="json")
        for line in lines
    ]


def cut(text: str) -> str:
    """A text that the API takes."""
    # A quarter: characters take up to four bytes, and JSON's escapes more.
    longest = max(int(PREFECT_LOGGING_TO_API_MAX_LOG_SIZE.value()) // 4 - 500, 100)
    return text if len(text) <= longest else f"{text[:longest]}{CUT_MARK}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """Who tells of a run: what events name beside it, as Prefect's own workers name it.

    Attributes:
        pool_id: The work pool's; empty: it is not named.
        worker_name: Empty: it is not named.
    """

    pool_name: str
    pool_id: str = ""
    worker_name: str = ""
    worker_type: str = "vertex-custom-job"

    def related(self, run: RunView) -> list[dict[str, str]]:
        """The run and what it belongs to (ids and roles as in Prefect 3.9.1's workers/base.py)."""
        ids = {
            "flow-run": (run.id, run.name),
            "flow": (run.flow_id, ""),
            "deployment": (run.deployment_id, ""),
            "work-pool": (self.pool_id, self.pool_name),
        }
        found = [
            _resource(f"prefect.{role}.{key}", role, name)
            for role, (key, name) in ids.items()
            if key
        ]
        if self.worker_name:
            worker = f"prefect.worker.{self.worker_type}.{slugify(self.worker_name)}"
            found.append(_resource(worker, "worker", self.worker_name))
        return found + [_resource(f"prefect.tag.{tag}", "tag") for tag in run.tags]


def emit_job_event(
    run: RunView,
    event: str,
    key: str,
    payload: Mapping[str, str],
    *,
    teller: Teller,
    at: datetime | None = None,
) -> None:
    """Emit an event about the run's job; the same run, event and key are one event.

    An automation's trigger sees only labels of resources, so what it may ask for stands there too.

    Args:
        run: Whose.
        event: Its name.
        key: What tells it from others of that name.
        payload: What it says.
        teller: Who says it.
        at: When it happened; None: now.
    """
    payload = {name: storable(value) for name, value in payload.items()}
    resource = payload.get("resource_name", run.id)
    labels = {f"prefect-vertex.{name}": payload[name] for name in LABELLED if payload.get(name)}
    emit_event(
        event=event,
        occurred=at,
        resource={
            "prefect.resource.id": f"prefect-vertex.job.{resource}",
            "prefect.resource.name": payload.get("display_name", run.name),
            **labels,
        },
        related=teller.related(run),
        payload=payload,
        id=uuid.uuid5(_EVENT_NAMESPACE, f"{run.id}/{event}/{key}"),
    )


def _resource(resource_id: str, role: str, name: str = "") -> dict[str, str]:
    labels = {"prefect.resource.id": resource_id, "prefect.resource.role": role}
    return {**labels, "prefect.resource.name": name} if name else labels
