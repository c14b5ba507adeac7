"""Jobs as JSON: what a test in another process wants to know of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.quotas import strategy_of
from prefect_vertex.emulator.replica import Replica


def job_view(job: EmulatedJob, *, deleted: bool = False) -> Mapping[str, Any]:
    """One job; moments in seconds since 1970, null for what has not come.

    `starts` has one entry for each container that was started: one for each replica, where nothing
    was started twice.
    """
    record = job.record
    message = record.message
    return {
        "name": job.name,
        "job_id": record.name.job_id,
        "location": record.name.place.location,
        "display_name": record.row.display_name,
        "state": record.row.state,
        "labels": dict(record.row.labels),
        "strategy": strategy_of(record.spec),
        "machine_types": [pool.machine_spec.machine_type for pool in record.spec.worker_pool_specs],
        "create_time": record.created.timestamp(),
        "start_time": _moment(message, "start_time"),
        "end_time": _moment(message, "end_time"),
        "error": (
            {"code": message.error.code, "message": message.error.message}
            if message.HasField("error")
            else None
        ),
        "deleted": deleted,
        "starts": [_start_view(replica) for replica in job.starts],
    }


def _start_view(replica: Replica) -> Mapping[str, Any]:
    end = replica.ended.result() if replica.ended.done() else None
    return {
        "replica": replica.name,
        "started_at": _seconds(replica.started_at),
        "ended_at": _seconds(replica.ended_at),
        "status": end.status if end else None,
        "start_error": end.start_error if end else "",
    }


def _moment(message: Any, field: str) -> float | None:
    return getattr(message, field).ToNanoseconds() / 1e9 if message.HasField(field) else None


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None
