"""What a whole installation on this machine asks of itself goes through no proxy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.cli.children import Children
from prefect_vertex.cli.local import LocalStack, free_port, health_check


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"items": [{"name": "a"}]}')

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """A server on this machine that answers anything."""
    server = HTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The office's, which does not answer here."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "intranet")


def test_servers_here_are_asked_directly(url: str, tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        stack = LocalStack(children, tmp_path)
        stack.storage_url = url
        with health_check(url) as answers:
            assert answers()
        assert stack.list_objects("a-bucket") == ["a"]


def test_programs_here_are_told_to_do_the_same(tmp_path: Path) -> None:
    """And to go on as before with all else."""
    with Children(tmp_path) as children:
        env = LocalStack(children, tmp_path).env

    assert env["no_proxy"] == env["NO_PROXY"] == "intranet,127.0.0.1,localhost"
