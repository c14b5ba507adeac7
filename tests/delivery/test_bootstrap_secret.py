"""How a replica gets the Prefect API's key: from Secret Manager, before anything needs it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import google_crc32c
import pytest

from prefect_vertex.delivery.packing import bootstrap_source, pack_source

VERSION = "projects/p/secrets/prefect/versions/latest"
FULL_NAME = "projects/42/secrets/prefect/versions/7"
SHOW = ("sh", "-c", "printenv PREFECT_API_KEY PREFECT_API_AUTH_STRING >&2")

Answer = tuple[int, bytes]


def holding(content: bytes, checksum: int | None = None) -> Answer:
    """Secret Manager's answer for a version that holds this."""
    crc = google_crc32c.value(content) if checksum is None else checksum
    payload = {"data": base64.b64encode(content).decode(), "dataCrc32c": str(crc)}
    return 200, json.dumps({"name": FULL_NAME, "payload": payload}).encode()


def refusal(status: int, message: str) -> Answer:
    return status, json.dumps({"error": {"code": status, "message": message}}).encode()


def secret_env(address: str, name: str = "API_KEY", **more: str) -> dict[str, str]:
    return {
        "SECRET_MANAGER_EMULATOR_HOST": address,
        f"PREFECT_VERTEX_{name}_SECRET": VERSION,
        **more,
    }


def test_the_key_is_there_before_the_api_is_asked(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    """The line end that `echo` adds to a secret is not part of it."""
    manager = serve(lambda _: holding(b"pnu_hidden\n"))
    api = serve(lambda _: (200, b"true"))

    ended = bootstrap(*SHOW, env=secret_env(manager.url, PREFECT_API_URL=api.url))

    assert ended.stderr == "pnu_hidden\n"
    assert ended.stdout == f"prefect-vertex: the Prefect API is asked with what {FULL_NAME} holds\n"
    assert [asked.path for asked in manager.asked] == [f"/v1/{VERSION}:access"]
    assert [asked.headers["Authorization"] for asked in api.asked] == ["Bearer pnu_hidden"]


def test_an_auth_string_is_used_as_one(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    manager = serve(lambda _: holding(b"a:b"))
    api = serve(lambda _: (200, b"true"))
    env = secret_env(manager.url, "API_AUTH_STRING", PREFECT_API_URL=api.url)

    ended = bootstrap(*SHOW, env=env)

    assert ended.stderr == "a:b\n"
    assert [asked.headers["Authorization"] for asked in api.asked] == ["Basic YTpi"]


def test_a_look_before_the_setup_has_the_key_too(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    """And the setup's own commands inherit it, as they would inherit one in the job."""
    manager = serve(lambda _: holding(b"pnu_hidden"))
    api = serve(lambda asked: (404, b"") if "/input/" in asked.path else (200, b"{}"))
    env = secret_env(
        manager.url,
        PREFECT_API_URL=api.url,
        PREFECT__FLOW_RUN_ID="run",
        PREFECT_VERTEX_ATTEMPT="1",
        PREFECT_VERTEX_SETUP_COMMAND='["test $PREFECT_API_KEY = pnu_hidden"]',
    )

    ended = bootstrap("true", env=env)

    assert "setup_command" not in ended.stderr
    assert "/input/" in api.asked[0].path
    assert {asked.headers["Authorization"] for asked in api.asked} == {"Bearer pnu_hidden"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(
            refusal(404, f"Secret [{VERSION}] not found."),
            ["HTTP 404", "not found.", "correct prefect_api_key_secret, or add the version"],
            id="absent",
        ),
        pytest.param(
            refusal(403, "Permission 'secretmanager.versions.access' denied."),
            ["HTTP 403", "versions.access' denied", "needs roles/secretmanager.secretAccessor"],
            id="refused",
        ),
        pytest.param(
            refusal(400, f"Secret Version [{FULL_NAME}] is in DISABLED state."),
            ["HTTP 400", "is in DISABLED state"],
            id="disabled",
        ),
        pytest.param((403, b"<html>"), ["HTTP 403 Forbidden; "], id="a proxy's page"),
        pytest.param(holding(b"\xff\xfe"), ["does not hold one line of UTF-8 text"], id="binary"),
        pytest.param(holding(b" \n"), ["does not hold one line of UTF-8 text"], id="nothing"),
        pytest.param(holding(b"one\ntwo"), ["does not hold one line of UTF-8"], id="two lines"),
    ],
)
def test_what_will_not_change_is_one_line_at_once(
    bootstrap: Callable[..., Any], serve: Callable[..., Any], answer: Answer, words: list[str]
) -> None:
    manager = serve(lambda _: answer)

    # The metadata server is the same one: it is asked for the account's name.
    env = secret_env(manager.url, GCE_METADATA_HOST=manager.address)
    ended = bootstrap("echo", "ran", env=env)

    assert (ended.code, ended.stdout) == (77, "")
    assert ended.stderr.count("\n") == 1
    assert not [part for part in words if part not in ended.stderr]
    assert len([asked for asked in manager.asked if asked.path.startswith("/v1/")]) == 1


@pytest.mark.parametrize(
    "first",
    [
        pytest.param((0, b""), id="a connection that is cut"),
        pytest.param((503, b""), id="a service that is away"),
        pytest.param((429, b""), id="too many requests"),
        pytest.param((200, b"<html>"), id="a page"),
        pytest.param((200, b'{"name": "x"}'), id="an answer without payload"),
        pytest.param(holding(b"pnu_damaged", checksum=1), id="a damaged answer"),
    ],
)
def test_what_may_change_is_asked_again(
    bootstrap: Callable[..., Any], serve: Callable[..., Any], first: Answer
) -> None:
    answers = iter([first, holding(b"pnu_hidden")])
    manager = serve(lambda _: next(answers))

    ended = bootstrap(*SHOW, env=secret_env(manager.address))

    assert ended.stderr == "pnu_hidden\n"


def test_what_does_not_change_is_given_up(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    manager = serve(lambda _: holding(b"pnu_damaged", checksum=1))

    ended = bootstrap("echo", "ran", env=secret_env(manager.url), hasty=True)

    assert (ended.code, ended.stdout) == (77, "")
    assert "the checksum of the answer is wrong" in ended.stderr
    assert "pnu_damaged" not in ended.stderr


def test_an_answer_without_a_checksum_is_taken(
    bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    body = {"name": FULL_NAME, "payload": {"data": base64.b64encode(b"pnu_hidden").decode()}}
    manager = serve(lambda _: (200, json.dumps(body).encode()))

    assert bootstrap(*SHOW, env=secret_env(manager.url)).stderr == "pnu_hidden\n"


# --- in the cloud --------------------------------------------------------------------------------


@pytest.fixture
def cloud_bootstrap(bootstrap_env: dict[str, str]) -> Callable[..., Any]:
    """Run the bootstrap with Secret Manager's own address replaced, and nothing else."""

    def run(address: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        real = '"https://secretmanager.googleapis.com"'
        assert bootstrap_source().count(real) == 1
        packed = pack_source(bootstrap_source().replace(real, repr(address)))
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", packed, *SHOW],
            env={**bootstrap_env, "PREFECT_VERTEX_API_KEY_SECRET": VERSION, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


METADATA = {
    "token": b'{"access_token": "t0ken"}',
    "email": b"runner@p.iam.gserviceaccount.com",
    "scopes": b"https://a/devstorage.read_only",
}


def test_it_is_read_as_the_replica_s_own_account(
    serve: Callable[..., Any], cloud_bootstrap: Callable[..., Any]
) -> None:
    metadata = serve(lambda asked: (200, METADATA[asked.path.rpartition("/")[2]]))
    manager = serve(lambda _: holding(b"pnu_hidden"))

    ended = cloud_bootstrap(manager.url, {"GCE_METADATA_HOST": metadata.address})

    assert ended.stderr == "pnu_hidden\n"
    assert [asked.headers["Authorization"] for asked in manager.asked] == ["Bearer t0ken"]


def test_a_refusal_names_the_account_that_needs_the_role(
    serve: Callable[..., Any], cloud_bootstrap: Callable[..., Any]
) -> None:
    metadata = serve(lambda asked: (200, METADATA[asked.path.rpartition("/")[2]]))
    manager = serve(lambda _: refusal(403, "Permission denied."))

    ended = cloud_bootstrap(manager.url, {"GCE_METADATA_HOST": metadata.address})

    assert ended.returncode == 77
    assert (
        "account runner@p.iam.gserviceaccount.com, scopes https://a/devstorage.read_only: "
        "it needs roles/secretmanager.secretAccessor there" in ended.stderr
    )
    assert "t0ken" not in ended.stderr + ended.stdout


def test_without_a_token_it_says_what_the_token_was_for(
    cloud_bootstrap: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    metadata = serve(lambda _: (404, b""))
    real = "RETRY_SECONDS = 60\n"
    packed = pack_source(bootstrap_source().replace(real, "RETRY_SECONDS = 0\n"))

    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", packed, "true"],
        env={
            "PATH": "/usr/bin:/bin",
            "PREFECT_VERTEX_API_KEY_SECRET": VERSION,
            "GCE_METADATA_HOST": metadata.address,
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 77
    assert "no access token from the metadata server to read the Prefect API's secret" in (
        ended.stderr
    )


# --- never in a line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"PREFECT_API_KEY": "pnu_hidden\n"}, id="key"),
        pytest.param({"PREFECT_API_KEY": "pnu_hid'den\n"}, id="key with a quote"),
        pytest.param(
            {"PREFECT_CLIENT_CUSTOM_HEADERS": '{"X-Gate": "pnu_hidden\\n"}'}, id="headers"
        ),
    ],
)
def test_a_header_that_cannot_be_sent_is_not_shown(
    bootstrap: Callable[..., Any], serve: Callable[..., Any], env: dict[str, str]
) -> None:
    """The standard library would quote it, key and all."""
    api = serve(lambda _: (200, b"true"))

    ended = bootstrap("true", env={"PREFECT_API_URL": api.url, **env})

    assert ended.code == 78
    assert "Invalid header value" in ended.stderr
    assert "pnu_" not in ended.stderr + ended.stdout
