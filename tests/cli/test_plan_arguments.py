"""How `prefect-vertex plan` reads its arguments, and what files say of credentials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.plan_site import KEY

from prefect_vertex.cli.identity import known_identity
from prefect_vertex.cli.plan import parse_job_variables
from prefect_vertex.errors import PlanError, PrefectVertexError
from prefect_vertex.template import CredentialValues


def test_values_are_read_as_prefect_reads_them() -> None:
    """JSON where it is JSON, else text; a dot reaches into a mapping later on."""
    read = {
        "a=1": 1,
        "a=true": True,
        "a=null": None,
        'a={"x": [1]}': {"x": [1]},
        "a=n1-standard-4": "n1-standard-4",
        "a=b=c": "b=c",
        "a=": "",
    }
    assert {text: parse_job_variables([text])["a"] for text in read} == read
    assert parse_job_variables(["env.A=5", "b=x"]) == {"env.A": 5, "b": "x"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("credentials", "{{ prefect.blocks.gcp-credentials.mine }}"),
        ("image", "{region}-docker.pkg.dev/p/i:1"),
        ("staging_bucket", "{region}"),
        ("env.A", "{x"),
        ("env.A", '"x'),
        ("labels.a", "[x"),
    ],
)
def test_a_placeholder_and_a_text_of_env_are_no_json(name: str, text: str) -> None:
    assert parse_job_variables([f"{name}={text}"]) == {name: text}


@pytest.mark.parametrize("text", ["region", "=x", 'env={"A": }', "regions=[a, b"])
def test_what_is_no_variable_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="--job-variable"):
        parse_job_variables([text])


IMPERSONATED = {
    "type": "impersonated_service_account",
    "service_account_impersonation_url": (
        "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
        "a@b.iam.gserviceaccount.com:generateAccessToken"
    ),
    "quota_project_id": "quota",
}


@pytest.mark.parametrize(
    ("content", "named", "known"),
    [
        (KEY, "", ("of-the-key", KEY["client_email"])),
        (KEY, "of-the-variable", ("of-the-variable", KEY["client_email"])),
        ({"type": "authorized_user", "quota_project_id": "quota"}, "", ("quota", "")),
        (IMPERSONATED, "", ("quota", "a@b.iam.gserviceaccount.com")),
        (None, "of-the-variable", ("of-the-variable", "")),
        (None, "", ("", "")),
    ],
    ids=["key", "key and variable", "user", "impersonated", "variable", "nothing"],
)
@pytest.mark.parametrize("place", ["variable", "gcloud"])
def test_the_machine_s_own_credentials_are_known_from_their_file(
    content: Any,
    named: str,
    known: tuple[str, str],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of GOOGLE_APPLICATION_CREDENTIALS, else gcloud's; the variable names the project."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    if named:
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", named)
    if content is not None:
        path = tmp_path / "application_default_credentials.json"
        if place == "variable":
            path = tmp_path / "mine.json"
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        path.write_text(json.dumps(content))

    assert known_identity(CredentialValues()) == known


def test_a_block_s_own_file_and_project_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's own project is not that of a block."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-machine")
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY))
    block = CredentialValues(service_account_file=str(path))
    assert known_identity(block) == ("of-the-key", KEY["client_email"])
    block = CredentialValues(service_account_file=str(path), own_project="of-the-block")
    assert known_identity(block) == ("of-the-block", KEY["client_email"])


@pytest.mark.parametrize(
    "content",
    [None, "not JSON: -----BEGIN", '{"private_key": "-----BEGIN"}'],
    ids=["missing", "no JSON", "no key"],
)
def test_a_file_that_cannot_be_read_is_named(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PrefectVertexError) as refused:
        known_identity(CredentialValues(service_account_file=str(path)))
    assert str(path) in str(refused.value)
    assert "BEGIN" not in str(refused.value)
