"""Google's REST APIs: an answer is a value, and an emulator's address replaces Google's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn

import pytest

from prefect_vertex.errors import AccessDeniedError
from prefect_vertex.vertex.rest import GoogleRest, read_answer

pytestmark = pytest.mark.anyio


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/plain":
            self._send(502, b"<html>Bad gateway</html>")
        elif self.path.startswith("/storage/v1/b/mine"):
            self._send(200, json.dumps({"seen": self.path}).encode())
        else:
            self._send(404, json.dumps({"error": {"message": "No such\nbucket."}}).encode())

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self._send(200, self.rfile.read(length))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def rest() -> Iterator[GoogleRest]:
    """Cloud Storage is a local server; nobody has credentials."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/"
    yield GoogleRest(nobody, {"STORAGE_EMULATOR_HOST": address})
    server.shutdown()
    server.server_close()
    thread.join()


async def nobody(key: str) -> NoReturn:
    raise AccessDeniedError("There are none.", hint="Make some.")


async def test_an_emulator_is_asked_without_credentials(rest: GoogleRest) -> None:
    answer = await rest.ask("storage", "storage/v1/b/mine", params={"permissions": ["a", "b"]})
    posted = await rest.ask("storage", "any", body={"permissions": ["a"]})

    assert answer.ok
    assert answer.body == {"seen": "/storage/v1/b/mine?permissions=a&permissions=b"}
    assert posted.body == {"permissions": ["a"]}


async def test_a_refusal_is_a_value_of_one_line(rest: GoogleRest) -> None:
    missing = await rest.ask("storage", "storage/v1/b/other")
    broken = await rest.ask("storage", "plain")

    assert (missing.ok, missing.status, missing.problem) == (False, 404, "No such bucket.")
    assert (broken.ok, broken.status, broken.problem) == (False, 502, "HTTP status 502")


async def test_credentials_that_cannot_be_had_are_an_answer(rest: GoogleRest) -> None:
    answer = await rest.ask("iam", "v1/projects/p")

    assert (answer.ok, answer.status, answer.asked) == (False, 0, True)
    assert answer.problem == "There are none. Make some."


async def test_a_service_that_does_not_answer_is_an_answer() -> None:
    rest = GoogleRest(nobody, {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"})
    answer = await rest.ask("storage", "storage/v1/b/mine")

    assert (answer.ok, answer.status) == (False, 0)
    assert answer.problem == "http://127.0.0.1:9 did not answer (ConnectionError)."


async def test_beside_an_emulator_the_other_services_are_not_asked() -> None:
    """They would be asked about a project that is only in the emulator."""
    rest = GoogleRest(nobody, {"VERTEX_AI_EMULATOR_HOST": "127.0.0.1:8411"})
    answer = await rest.ask("iam", "v1/projects/p")

    assert not rest.can_ask("iam")
    assert (answer.asked, answer.ok) == (False, False)


def test_the_reason_of_a_refusal_is_read_from_its_details() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}]
    answer = read_answer(403, {"error": {"message": "Not used.", "details": details}})

    assert (answer.reason, answer.problem) == ("SERVICE_DISABLED", "Not used.")
    assert read_answer(500, None).problem == "HTTP status 500"
    assert read_answer(500, {"error": "odd"}).problem == "HTTP status 500"
