"""PrefectFlowRuns while the Prefect API fails: nothing is known of any run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from prefect_vertex.lifecycle.run import RunState, RunView
from prefect_vertex.runs.port import FlowRuns, PrefectUnavailableError, Proposal
from prefect_vertex.runs.prefect import PrefectFlowRuns

pytestmark = pytest.mark.anyio
NOBODY = str(uuid4())
CRASH = Proposal(state=RunState.CRASHED, name="Crashed", message="It failed.")


A_VIEW = RunView(
    id=NOBODY,
    name="a-run",
    state=RunState.PENDING,
    state_name="Provisioning",
    state_id=NOBODY,
    state_time=datetime.now(UTC),
    observed_at=datetime.now(UTC),
)
CALLS: dict[str, Any] = {
    "read": lambda runs: runs.read(NOBODY),
    "read_many": lambda runs: runs.read_many([NOBODY]),
    "cancelling_or_ended": lambda runs: runs.cancelling_or_ended(datetime.now(UTC)),
    "unfinished": lambda runs: runs.unfinished(),
    "has_claim": lambda runs: runs.has_claim(NOBODY, "prefect-vertex-start-a1-r"),
    "followers": lambda runs: runs.followers([NOBODY]),
    "followers_of_deleted": lambda runs: runs.followers_of_deleted(NOBODY, 1, 2),
    "propose": lambda runs: runs.propose(NOBODY, CRASH),
    "label": lambda runs: runs.label(NOBODY, {}),
    "name_infrastructure": lambda runs: runs.name_infrastructure(NOBODY, "a-job"),
    "hand_back": lambda runs: runs.hand_back(NOBODY),
    "claim": lambda runs: runs.claim(NOBODY, "a-key", "me"),
    "read_claim": lambda runs: runs.read_claim(NOBODY, "a-key"),
    "renew_lease": lambda runs: runs.renew_lease(NOBODY),
    "roster": lambda runs: runs.roster(),
    "restore": lambda runs: runs.restore(A_VIEW),
    "last_sign": lambda runs: runs.last_sign(A_VIEW),
    "publish": lambda runs: runs.publish(A_VIEW, "a-key", [], ""),
}


@contextmanager
def answering(status: int, body: bytes = b"{}") -> Iterator[str]:
    """An API that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, *args: object) -> None:
            """Keep quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_asynchronous_method_of_the_port_is_tried_here() -> None:
    asked = {name for name in vars(FlowRuns) if not name.startswith("_")}

    assert asked == set(CALLS) | {"came_from", "log", "emit"}


FEW = ["unfinished", "propose"]
"""Where Prefect's client itself tries again, each call takes seconds."""


@pytest.mark.parametrize(
    ("status", "methods"),
    [(401, CALLS), (403, CALLS), (422, CALLS), (500, CALLS), (429, FEW), (503, FEW)],
)
async def test_an_api_that_answers_with_an_error_knows_nothing_of_any_run(
    status: int, methods: Iterable[str]
) -> None:
    with answering(status) as url, temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        async with PrefectClient(url) as client:
            runs = PrefectFlowRuns(client, "a-pool")
            for method in methods:
                with pytest.raises(PrefectUnavailableError, match=f"answered {status}"):
                    await CALLS[method](runs)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[1]", b'"text"'])
async def test_an_answer_that_is_not_prefects_is_a_failure_too(body: bytes) -> None:
    """A proxy's login page comes with 200."""
    with answering(200, body) as url:
        async with PrefectClient(url) as client:
            runs = PrefectFlowRuns(client, "a-pool")
            for call in (CALLS["read"], CALLS["cancelling_or_ended"], CALLS["roster"]):
                with pytest.raises(PrefectUnavailableError):
                    await call(runs)


async def test_that_a_lease_is_not_found_says_nothing_of_it() -> None:
    """Of one that it has lost the server says 410; 404 is a proxy's, or another server's."""
    with answering(404) as url:
        async with PrefectClient(url) as client:
            with pytest.raises(PrefectUnavailableError, match="answered 404"):
                await PrefectFlowRuns(client, "a-pool").renew_lease(NOBODY)


async def test_an_api_that_does_not_answer_knows_nothing_of_any_run() -> None:
    with answering(200) as url:
        pass
    async with PrefectClient(url) as client:
        runs = PrefectFlowRuns(client, "a-pool")
        for method in FEW:
            with pytest.raises(PrefectUnavailableError, match="did not answer"):
                await CALLS[method](runs)
