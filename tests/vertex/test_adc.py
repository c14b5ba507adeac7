"""The machine's own credentials, of every kind, with real google-auth objects and no network."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from prefect_vertex.planning.credentials import read_credentials
from prefect_vertex.vertex.credentials import load_credentials


def load(values: dict[str, Any] | None) -> Any:
    return load_credentials(read_credentials(values))


# --- every kind of the machine's own credentials -------------------------------------------------

USER = {
    "type": "authorized_user",
    "client_id": "client",
    "client_secret": "hidden",
    "refresh_token": "hidden",
}
IMPERSONATION = (
    "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
    "target@p.iam.gserviceaccount.com:generateAccessToken"
)
POOL = "projects/1/locations/global/workloadIdentityPools/w"
EXTERNAL = {
    "type": "external_account",
    "audience": f"//iam.googleapis.com/{POOL}/providers/p",
    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    "token_url": "https://sts.googleapis.com/v1/token",
    "credential_source": {"file": "/nowhere/token"},
}
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "a person's": (USER, ""),
    "a person's, billed to a project": (
        {**USER, "quota_project_id": "billed"},
        "",
    ),
    "impersonated": (
        {
            "type": "impersonated_service_account",
            "service_account_impersonation_url": IMPERSONATION,
            "source_credentials": USER,
            "delegates": [],
        },
        "target@p.iam.gserviceaccount.com",
    ),
    "external": (EXTERNAL, ""),
    "external, as a service account": (
        {**EXTERNAL, "service_account_impersonation_url": IMPERSONATION},
        "target@p.iam.gserviceaccount.com",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("no_adc")
def test_any_kind_of_adc_is_taken_with_the_account_that_it_acts_as(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """A person has no account that a job could run as."""
    content, account = KINDS[kind]
    path = tmp_path / "adc.json"
    path.write_text(json.dumps(content))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "adc-project")

    loaded = load(None)

    assert (loaded.key, loaded.project) == ("", "adc-project")
    assert loaded.service_account_email == account
    assert "hidden" not in repr(loaded)


@pytest.mark.usefixtures("no_adc")
def test_a_person_s_project_is_the_one_that_is_billed_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "adc.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    found = []
    for content in (USER, {**USER, "quota_project_id": "billed"}):
        path.write_text(json.dumps(content))
        found.append(load(None).project)
    found.append(load({"project": "of-block"}).project)

    assert found == ["", "billed", "of-block"]


# --- on a machine of Google's --------------------------------------------------------------------

_SHOW = """
from prefect_vertex.planning.credentials import read_credentials
from prefect_vertex.vertex.credentials import load_credentials
loaded = load_credentials(read_credentials(None))
print(type(loaded.google).__module__, loaded.project, repr(loaded.service_account_email))
"""


class _Metadata(BaseHTTPRequestHandler):
    """A metadata server for an account of a given address."""

    email: ClassVar[str] = ""

    def do_GET(self) -> None:
        account = {"email": self.email, "scopes": ["s"], "aliases": ["default"]}
        answers = {
            "/computeMetadata/v1/project/project-id": "attached-project",
            "/computeMetadata/v1/universe/universe-domain": "googleapis.com",
            "/computeMetadata/v1/instance/service-accounts/default/": json.dumps(account),
        }
        path = self.path.partition("?")[0]
        body = answers.get(path, '{"access_token": "t", "expires_in": 3600}').encode()
        self.send_response(200)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/json" if b"{" in body else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.mark.parametrize(
    ("email", "account"),
    [
        ("worker@p.iam.gserviceaccount.com", "worker@p.iam.gserviceaccount.com"),
        ("p.svc.id.goog", ""),
    ],
    ids=["an account", "a workload identity pool"],
)
def test_an_attached_account_has_its_address_and_is_never_the_word_default(
    tmp_path: Path, email: str, account: str
) -> None:
    """In a process of its own: google-auth reads the metadata server's address when imported."""
    handler = type("Handler", (_Metadata,), {"email": email})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    address = f"127.0.0.1:{server.server_port}"
    try:
        shown = subprocess.run(
            [sys.executable, "-c", _SHOW],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
                "CLOUDSDK_CONFIG": str(tmp_path),
                "GCE_METADATA_HOST": address,
                "GCE_METADATA_IP": address,
            },
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert shown.stdout.split() == [
        "google.auth.compute_engine.credentials",
        "attached-project",
        repr(account),
    ]
