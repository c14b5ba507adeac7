"""Credentials from a block's values, a file or the machine; never a secret in a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from prefect_vertex.errors import AccessDeniedError, PlanError, PrefectVertexError
from prefect_vertex.planning.credentials import read_credentials
from prefect_vertex.vertex.credentials import load_credentials

EMAIL = "flows@key-project.iam.gserviceaccount.com"


def _load(values: dict[str, Any] | None) -> Any:
    return load_credentials(read_credentials(values))


@pytest.mark.parametrize("values", [None, {}, {"service_account_info": None, "project": None}])
def test_no_values_mean_the_workers_own(values: dict[str, Any] | None) -> None:
    assert read_credentials(values).key == ""


def test_a_keys_content_gives_scope_project_and_account(info: dict[str, Any]) -> None:
    loaded = _load({"service_account_info": info})

    assert loaded.google.scopes == ["https://www.googleapis.com/auth/cloud-platform"]
    assert loaded.project == "key-project"
    assert loaded.service_account_email == EMAIL
    assert loaded.universe_domain == "googleapis.com"


def test_the_blocks_own_project_wins(info: dict[str, Any]) -> None:
    assert _load({"service_account_info": info, "project": "other"}).project == "other"


def test_a_sovereign_cloud_is_named_by_its_key(info: dict[str, Any]) -> None:
    loaded = _load({"service_account_info": {**info, "universe_domain": "s3nsapis.fr"}})

    assert loaded.universe_domain == "s3nsapis.fr"


def test_text_object_and_secret_types_mean_the_same_key(info: dict[str, Any]) -> None:
    sources = [
        read_credentials({"service_account_info": value})
        for value in (
            info,
            json.dumps(info),
            SecretStr(json.dumps(info)),
            {**info, "private_key": SecretStr(info["private_key"])},
        )
    ]

    assert len({source.key for source in sources}) == 1


def test_another_key_is_another_credential(info: dict[str, Any]) -> None:
    one = read_credentials({"service_account_info": info})
    other = read_credentials({"service_account_info": {**info, "private_key_id": "z"}})

    assert one.key != other.key


def test_a_project_alone_does_not_make_other_credentials(info: dict[str, Any]) -> None:
    one = read_credentials({"service_account_info": info})
    other = read_credentials({"service_account_info": info, "project": "p"})

    assert one.key == other.key
    assert read_credentials({"project": "p"}).key == ""


def test_a_file_is_read_when_it_is_needed(info: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(info))

    loaded = _load({"service_account_file": str(path)})

    assert (loaded.project, loaded.service_account_email) == ("key-project", EMAIL)


def test_no_repr_shows_a_secret(info: dict[str, Any], private_key: str) -> None:
    source = read_credentials({"service_account_info": info})
    line = private_key.splitlines()[1]

    assert line not in repr(source)
    assert line not in repr(load_credentials(source))
    assert line not in source.key


@pytest.mark.parametrize(
    "values",
    [
        {"service_account_info": "{not json, TOPSECRET"},
        {"service_account_info": ["TOPSECRET"]},
        {"service_account_info": {"client_email": "e", "private_key": "TOPSECRET"}},
        {"service_account_info": {"private_key": "TOPSECRET", "token_uri": "u", "client_email": 1}},
        {"service_account_info": {"type": "authorized_user", "refresh_token": "TOPSECRET"}},
        {"service_account_info": {"a": "TOPSECRET"}, "service_account_file": "f"},
    ],
    ids=["no JSON", "no object", "no token_uri", "no key", "another type", "both kinds"],
)
def test_bad_values_are_refused_in_one_line_without_the_secret(values: dict[str, Any]) -> None:
    with pytest.raises(PrefectVertexError) as caught:
        _load(values)

    assert isinstance(caught.value, PlanError | AccessDeniedError)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "TOPSECRET" not in str(seen)
        seen = seen.__cause__
    assert "\n" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("content", [None, "no json", "[]", '{"type": "external_account"}'])
def test_a_bad_file_is_named(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(AccessDeniedError, match=r"key\.json"):
        _load({"service_account_file": str(path)})


@pytest.mark.usefixtures("no_adc")
def test_a_machine_without_credentials_is_told_what_was_looked_for_and_what_to_set() -> None:
    with pytest.raises(AccessDeniedError) as caught:
        _load(None)

    text = str(caught.value)
    assert "GOOGLE_APPLICATION_CREDENTIALS (not set)" in text
    assert "gcloud auth application-default login" in text
    assert "prefect-vertex emulator start" in text
    assert "\n" not in text


@pytest.mark.usefixtures("no_adc")
def test_a_variable_that_names_no_file_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")

    with pytest.raises(AccessDeniedError, match=r"/nowhere/key\.json"):
        _load(None)


@pytest.mark.usefixtures("no_adc")
def test_the_machines_own_credentials_come_from_googles_variable(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(info))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    loaded = _load(None)

    assert (loaded.key, loaded.project) == ("", "key-project")
    assert loaded.google.scopes == ["https://www.googleapis.com/auth/cloud-platform"]


def test_a_key_s_own_project_goes_before_the_one_that_is_billed(info: dict[str, Any]) -> None:
    loaded = _load({"service_account_info": {**info, "quota_project_id": "billed"}})

    assert loaded.project == "key-project"
