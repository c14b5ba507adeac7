"""The Prefect API is asked before the command starts, the way Prefect would ask it."""

from __future__ import annotations

import base64
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest


def test_an_api_that_answers_lets_the_command_start(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    api = serve(lambda _: (200, b"true"))

    ended = bootstrap("echo", "started", env={"PREFECT_API_URL": f"{api.url}/api/"})

    assert (ended.code, ended.stdout, ended.stderr) == (0, "started\n", "")
    assert [asked.path for asked in api.asked] == ["/api/health"]


def test_an_api_that_is_down_ends_the_replica_with_74(
    bootstrap: Callable[..., Any], unused_address: str
) -> None:
    """The line says what was tried and where the name leads, and shows no password."""
    url = f"http://user:hidden@{unused_address}/api"

    ended = bootstrap("echo", "started", env={"PREFECT_API_URL": url}, hasty=True)

    assert (ended.code, ended.stdout) == (74, "")
    assert "refused" in ended.stderr
    assert "127.0.0.1 is 127.0.0.1" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "hidden" not in ended.stderr


def test_what_is_no_address_is_told_without_its_password(bootstrap: Callable[..., Any]) -> None:
    ended = bootstrap("true", env={"PREFECT_API_URL": "user:hidden@host/api"}, hasty=True)

    assert ended.code == 74
    assert "PREFECT_API_URL does not resolve" in ended.stderr
    assert "hidden" not in ended.stderr


def test_a_name_without_an_address_is_told_as_such(bootstrap: Callable[..., Any]) -> None:
    ended = bootstrap("true", env={"PREFECT_API_URL": "http://prefect.invalid/api"}, hasty=True)

    assert ended.code == 74
    assert "prefect.invalid does not resolve" in ended.stderr


def test_an_api_that_restarts_is_waited_for(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    answers = iter([(0, b""), (502, b""), (200, b"true")])
    api = serve(lambda _: next(answers))

    ended = bootstrap("true", env={"PREFECT_API_URL": api.url})

    assert (ended.code, len(api.asked)) == (0, 3)


def test_a_gateway_that_keeps_complaining_is_no_api(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    api = serve(lambda _: (503, b""))

    ended = bootstrap("true", env={"PREFECT_API_URL": api.url}, hasty=True)

    assert (ended.code, "HTTP 503" in ended.stderr) == (74, True)


@pytest.mark.parametrize(("status", "lines"), [(401, 1), (403, 1), (404, 0)])
def test_any_other_answer_shows_that_it_is_there(
    bootstrap: Callable[..., Any], serve: Callable[..., Any], status: int, lines: int
) -> None:
    """Prefect Cloud may have no such path; a refused key is mentioned, the run will tell more."""
    api = serve(lambda _: (status, b""))

    ended = bootstrap("true", env={"PREFECT_API_URL": api.url})

    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.count("refuses this container's key") == lines


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"PREFECT_API_KEY": "k"}, "Bearer k"),
        ({"PREFECT_API_AUTH_STRING": "a:b"}, "Basic " + base64.b64encode(b"a:b").decode()),
        ({"PREFECT_API_KEY": "k", "PREFECT_API_AUTH_STRING": "a:b"}, "Basic YTpi"),
        ({}, None),
        ({"PREFECT_API_KEY": "k", "PREFECT_API_URL": "http://a%40:b@{}"}, "Basic YUA6Yg=="),
    ],
)
def test_it_is_asked_with_prefect_s_own_credentials(
    bootstrap: Callable[..., Any],
    serve: Callable[..., Any],
    env: dict[str, str],
    expected: str | None,
) -> None:
    api = serve(lambda _: (200, b""))
    given = {"PREFECT_API_URL": "http://{}", "PREFECT_CLIENT_CUSTOM_HEADERS": '{"X-Gate": "open"}'}
    given |= env
    given["PREFECT_API_URL"] = given["PREFECT_API_URL"].format(api.address)

    bootstrap("true", env=given)
    (asked,) = api.asked

    assert asked.headers.get("Authorization") == expected
    assert asked.headers.get("X-Gate") == "open"


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"PREFECT_CLIENT_CUSTOM_HEADERS": "{"}, id="headers"),
        pytest.param({"PREFECT_API_SSL_CERT_FILE": "/nonexistent.pem"}, id="certificate"),
        pytest.param({"PREFECT_API_URL": "prefect.example"}, id="address"),
    ],
)
def test_settings_that_cannot_be_used_are_no_network_fault(
    bootstrap: Callable[..., Any], unused_address: str, env: dict[str, str]
) -> None:
    ended = bootstrap("true", env={"PREFECT_API_URL": f"http://{unused_address}", **env})

    assert ended.code == 78
    assert ended.stderr.startswith("prefect-vertex: Prefect's API settings are unusable")


def test_a_command_without_prefect_asks_nothing(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    api = serve(lambda _: (200, b""))

    assert bootstrap("true", env={"PREFECT_API_URL": ""}).code == 0
    assert api.asked == []


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Key and self-signed certificate of 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    key, file = folder / "key.pem", folder / "cert.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", *options, *names, "-keyout", key, "-out", file],
        check=True,
        capture_output=True,
    )
    return key, file


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


class _QuietServer(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust the certificate hangs up; that is the test."""


@pytest.fixture
def secure_api(certificate: tuple[Path, Path]) -> Iterator[str]:
    key, file = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    httpd = _QuietServer(("127.0.0.1", 0), _Healthy)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"https://127.0.0.1:{httpd.server_port}/api"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_certificate_that_nobody_vouches_for_is_refused(
    bootstrap: Callable[..., Any], secure_api: str
) -> None:
    ended = bootstrap("true", env={"PREFECT_API_URL": secure_api}, hasty=True)

    assert (ended.code, "CERTIFICATE_VERIFY_FAILED" in ended.stderr) == (74, True)


def test_prefect_s_tls_settings_are_honoured(
    bootstrap: Callable[..., Any], secure_api: str, certificate: tuple[Path, Path]
) -> None:
    url = {"PREFECT_API_URL": secure_api}
    trusted = {**url, "PREFECT_API_SSL_CERT_FILE": str(certificate[1])}
    unchecked = {**url, "PREFECT_API_TLS_INSECURE_SKIP_VERIFY": "True"}

    assert bootstrap("true", env=trusted, hasty=True).code == 0
    assert bootstrap("true", env=unchecked, hasty=True).code == 0
