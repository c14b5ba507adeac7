"""The smoke's jobs: created, watched, and all gone afterwards."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
from google.api_core import exceptions as api_errors
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1 import types
from google.cloud.aiplatform_v1.services.job_service.async_client import JobServiceAsyncClient
from google.cloud.storage import Client
from tests.cloud.site import Pace, Site

from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import (
    ATTEMPT_LABEL,
    FLOW_RUN_LABEL,
    WORK_POOL_LABEL,
    ResourceName,
)
from prefect_vertex.vertex.gateways import Gateways

PROGRAM = Path(__file__).with_name("program.py").read_text()
SMOKE_LABEL = "prefect-vertex_smoke"
MACHINE = "n1-standard-4"
SCHEDULING = {"disable_retries": True, "timeout": "1200s"}
"""A job that nobody looks after any more ends by itself."""
CALL_SECONDS = 30.0

_LOGGER = logging.getLogger(__name__)


class NotSeenError(Exception):
    """Something did not happen in the time that it was given; the message says what."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a container noted of itself."""

    replica: str
    start: str
    kind: str
    at: float
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Orders:
    """What the containers of one pool do; see `program`."""

    then: str
    after: str = ""
    status: int = 0


@dataclass(slots=True)
class SmokeJob:
    """One job of the smoke.

    Attributes:
        listed_after: Seconds from the create's answer to the first list that had it; None: not yet.
        error_after: Seconds from the job's end to the first look that showed its error.
    """

    what: str
    created: JobSnapshot
    prefix: str
    listed_after: float | None = None
    error_after: float | None = None
    last: JobSnapshot = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.created


@contextmanager
def _reported(attempt: str) -> Iterator[None]:
    try:
        yield
    except (PrefectVertexError, api_errors.GoogleAPICallError, NotSeenError) as error:
        _LOGGER.warning("Could not %s: look at it by hand. %s", attempt, error)


class Lab:
    """Creates jobs on a site, and looks after them.

    Args:
        site: Where.
        pace: How long things may take.
        gateways: Opened and closed by the caller.
    """

    def __init__(self, site: Site, pace: Pace, gateways: Gateways) -> None:
        self.id = uuid4().hex[:8]
        self.site = site
        self.pace = pace
        self.gateways = gateways
        self.gateway = gateways.for_target(site.target)
        self.jobs: list[SmokeJob] = []
        self._bucket: Any = None

    @property
    def pool_id(self) -> str:
        """What stands for a work pool's id in the labels of all its jobs."""
        return f"smoke-{self.id}"

    async def client(self) -> JobServiceAsyncClient:
        """Google's own client on the gateway's connection, for what no gateway asks."""
        return (await self.gateways._connect(self.site.target, CALL_SECONDS)).client

    def pool(self, orders: Orders, prefix: str, **machine_spec: Any) -> dict[str, Any]:
        """A worker pool spec of one replica."""
        spec = {
            "bucket": self.site.bucket,
            "prefix": prefix,
            "beat": self.pace.beat,
            "after": orders.after,
            "then": orders.then,
            "status": orders.status,
        }
        container = {
            "image_uri": self.site.image,
            "command": ["python3", "-c", PROGRAM, json.dumps(spec)],
        }
        machine = {"machine_type": MACHINE, **machine_spec}
        return {"machine_spec": machine, "replica_count": 1, "container_spec": container}

    async def submit(
        self,
        what: str,
        *orders: Orders,
        machine_spec: Mapping[str, Any] | None = None,
        scheduling: Mapping[str, Any] | None = None,
        **job_spec: Any,
    ) -> SmokeJob:
        """Create a job with a pool for each of the orders, and see when a list shows it.

        Raises:
            ServiceError: Refused, or not answered.
        """
        prefix = f"prefect-vertex-smoke/{self.id}/{what}"
        run_id = str(uuid4())
        request = types.CreateCustomJobRequest(
            parent=self.site.target.parent,
            custom_job={
                "display_name": f"prefect-vertex-smoke-{self.id}-{what}",
                "labels": {
                    FLOW_RUN_LABEL: run_id,
                    WORK_POOL_LABEL: self.pool_id,
                    ATTEMPT_LABEL: "1",
                    SMOKE_LABEL: what,
                },
                "job_spec": {
                    "worker_pool_specs": [
                        self.pool(each, prefix, **(machine_spec or {})) for each in orders
                    ],
                    "scheduling": {**SCHEDULING, **(scheduling or {})},
                    "service_account": self.site.service_account,
                    **job_spec,
                },
            },
        )
        await self.gateway.submission_turn()
        job = SmokeJob(what, await self.gateway.create(request), prefix)
        self.jobs.append(job)
        answered = time.monotonic()
        with anyio.move_on_after(self.pace.error):
            while not await self.gateway.find(run_id):  # noqa: ASYNC110 - it is about a service
                await anyio.sleep(self.pace.look / 5)
            job.listed_after = time.monotonic() - answered
        return job

    async def until(
        self, job: SmokeJob, holds: Callable[[JobSnapshot], Any], within: float, what: str
    ) -> JobSnapshot:
        """Look at a job until something holds.

        Raises:
            NotSeenError: It did not in that time.
        """
        deadline = time.monotonic() + within
        while True:
            job.last = await self.gateway.describe(job.created.resource_name)
            if holds(job.last):
                return job.last
            if time.monotonic() > deadline:
                raise NotSeenError(f"{job.what} stayed {job.last.state}: no {what} in {within:g} s")
            await anyio.sleep(self.pace.look)

    async def end(self, job: SmokeJob, within: float | None = None) -> JobSnapshot:
        """Wait for a job's end, and for its error where it has one.

        Raises:
            NotSeenError: It did not end in that time.
        """
        await self.until(job, lambda seen: seen.is_terminal, within or self.pace.end, "end")
        if job.last.phase in {JobPhase.FAILED, JobPhase.CANCELLED}:
            try:
                seen = await self.until(job, lambda seen: seen.error, self.pace.error, "error")
            except NotSeenError:
                return job.last
            assert seen.end_time is not None
            job.error_after = (datetime.now(UTC) - seen.end_time).total_seconds()
        return job.last

    async def cancel(self, job: SmokeJob) -> None:
        """Ask for a job's end."""
        await self.gateway.cancel(job.created.resource_name)

    async def notes(self, job: SmokeJob) -> list[Note]:
        """What its containers have noted so far, in their order."""
        return await anyio.to_thread.run_sync(self._read_notes, job.prefix)

    async def note(self, job: SmokeJob, kind: str) -> Note:
        """The first note of a kind.

        Raises:
            NotSeenError: There was none in the time that a job has to begin, or it ended before.
        """
        deadline = time.monotonic() + self.pace.begin
        while True:
            ended = job.last.is_terminal
            for note in await self.notes(job):
                if note.kind == kind:
                    return note
            if ended:
                raise NotSeenError(f"{job.what} ended as {job.last.state} without a {kind} note")
            if time.monotonic() > deadline:
                raise NotSeenError(f"{job.what}: no {kind} note in {self.pace.begin:g} s")
            job.last = await self.gateway.describe(job.created.resource_name)
            await anyio.sleep(self.pace.look)

    def _read_notes(self, prefix: str) -> list[Note]:
        notes = []
        for blob in self._blobs(prefix):
            replica, start, name = blob.name.removeprefix(f"{prefix}/").split("/")
            _, at, kind = name.split("-")
            # Of the others the name says it all, and there are hundreds.
            has_more = kind == "started"
            data = json.loads(blob.download_as_bytes(timeout=CALL_SECONDS)) if has_more else {}
            notes.append(Note(replica, start, kind, float(at), data))
        return sorted(notes, key=lambda note: note.at)

    def _blobs(self, prefix: str) -> list[Any]:
        if self._bucket is None:
            # The emulator's address is Google's own convention, which wants no credentials.
            emulated = "STORAGE_EMULATOR_HOST" in os.environ
            credentials = AnonymousCredentials() if emulated else None  # type: ignore[no-untyped-call]  # google-auth's
            client = Client(project=self.site.project, credentials=credentials)
            self._bucket = client.bucket(self.site.bucket)
        return list(self._bucket.list_blobs(prefix=f"{prefix}/", timeout=CALL_SECONDS))

    async def clean(self) -> None:
        """End every job that still lives; delete jobs and notes, unless they are to be kept.

        What goes wrong with one leaves the others no less cleaned.
        """
        names = {job.created.resource_name for job in self.jobs}
        # Also a job whose create was answered by nobody.
        with _reported("list the smoke's live jobs"):
            names |= {job.resource_name for job in await self.gateway.list_live(self.pool_id)}
        for name in names:
            with _reported(f"cancel {name}"):
                await self.gateway.cancel(name)
        for name in names:
            with _reported(f"see {name} ended"):
                await self._gone(name)
        if not self.site.keep:
            with _reported("delete the notes"):
                await anyio.to_thread.run_sync(self._delete_notes)

    async def _gone(self, name: ResourceName) -> None:
        deadline = time.monotonic() + self.pace.end
        while not (seen := await self.gateway.describe(name)).is_terminal:
            if time.monotonic() > deadline:
                raise NotSeenError(f"it is still {seen.state} after {self.pace.end:g} s")
            await anyio.sleep(self.pace.look)
        if not self.site.keep:
            await self.gateway.delete(name)

    def _delete_notes(self) -> None:
        for blob in self._blobs(f"prefect-vertex-smoke/{self.id}"):
            with suppress(api_errors.NotFound):
                blob.delete(timeout=CALL_SECONDS)
