"""A follower waits long for a run of its own: one that gives up ends the work of all."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from uuid import UUID, uuid4

import anyio
import httpx
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from prefect_vertex.replica.__main__ import run
from prefect_vertex.replica.follower import follow
from prefect_vertex.replica.membership import Membership


@contextmanager
def busy_server(run_id: UUID, refusals: int) -> Iterator[str]:
    """A server that answers 503 so often, and then that the run has failed."""
    calls = itertools.count()
    state = {"type": "FAILED", "name": "Failed"}
    run = {"id": str(run_id), "flow_id": str(uuid4()), "name": "amber-lion", "state": state}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_busy = next(calls) < refusals
            body = b"{}" if is_busy else json.dumps(run).encode()
            self.send_response(503 if is_busy else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its parent's name
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_server_that_is_busy_for_minutes_does_not_end_a_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock on which every look takes 45 seconds."""
    moments = itertools.count(0, 45)
    clock = SimpleNamespace(monotonic=lambda: next(moments), sleep=lambda seconds: None)
    monkeypatch.setattr("prefect_vertex.replica.crew.time", clock)
    run_id = uuid4()
    member = Membership(rank=1, world_size=2, leader_id=str(run_id))
    with busy_server(run_id, refusals=4) as url:
        settings = {PREFECT_API_URL: f"{url}/api", PREFECT_CLIENT_MAX_RETRIES: 0}
        with temporary_settings(updates=settings):
            left = asyncio.run(follow(member))

    assert (left.code, left.why) == (0, "the leader's run had ended before this replica began")


def test_an_api_that_is_lost_in_the_middle_is_told_as_at_the_beginning() -> None:
    """Also where task groups wrap the error: it has an exit code of its own, 74."""

    async def ask() -> None:
        raise httpx.ConnectError("refused")

    async def work() -> None:
        async with anyio.create_task_group() as outer, anyio.create_task_group() as inner:
            inner.start_soon(ask)
            outer.start_soon(anyio.sleep, 0)

    with pytest.raises(httpx.ConnectError, match="refused"):
        run(work)
