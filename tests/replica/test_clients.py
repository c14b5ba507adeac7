"""What asks the Prefect API leaves no connection open when it is gone."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.replica.crew import Crew
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.progress import ProgressArtifact

ANSWER = b"HTTP/1.1 418 Tea\r\nContent-Length: 2\r\n\r\n{}"
RUN = UUID(int=7)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/api"
        with temporary_settings({PREFECT_API_URL: url}):
            yield server


def answer(server: socket.socket) -> None:
    """Answer one request, and wait until the other side closes."""
    connection, _ = server.accept()
    with connection:
        connection.settimeout(10)
        while not connection.recv(65536).endswith((b"\r\n\r\n", b"}")):
            pass
        connection.sendall(ANSWER)
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Crew(Membership(rank=0, world_size=2, leader_id=str(RUN))).leader(),
        lambda: ProgressArtifact(RUN).show(50.0, "half"),
    ],
    ids=["runs", "progress"],
)
def test_a_connection_is_closed_with_what_asked(
    listener: socket.socket, ask: Callable[[], Any]
) -> None:
    """Rather than dropped open, of which Python warns."""
    with ThreadPoolExecutor() as threads, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        answered = threads.submit(answer, listener)
        with pytest.raises(httpx.HTTPStatusError) as refusal:
            ask()
        del refusal
        gc.collect()
        answered.result()

    assert [str(each.message) for each in caught] == []
