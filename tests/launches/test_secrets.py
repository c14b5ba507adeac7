"""No secret stands in a launch record, wherever it was put; secrets are known by their type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import BlockDocument, BlockSchema

from prefect_vertex.planning.launches import LaunchFacts, record_text
from prefect_vertex.planning.masking import MASK
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.template.hidden import (
    NotingClient,
    parameters_without_secrets,
    secret_texts,
    secrets_of_block,
    without_secrets,
)

APlan = Callable[..., JobPlan]
ARecord = Callable[..., dict[str, Any]]

KEY = 'pnu_SECRET"KEY\\123'
CARRIED: dict[str, Any] = {
    "env": {"PREFECT_API_KEY": KEY},
    "secret_env": frozenset({"PREFECT_API_KEY"}),
}
CONTAINER = "/job_spec/worker_pool_specs/0/container_spec"
ANYBODY = UUID(int=7)


def patch(path: str, value: Any) -> tuple[dict[str, Any], ...]:
    return ({"op": "add", "path": path, "value": value},)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(CARRIED, id="env"),
        pytest.param({**CARRIED, "env": {**CARRIED["env"], "B": f"$ {KEY}"}}, id="packed env"),
        pytest.param({**CARRIED, "env": {**CARRIED["env"], "B": f"x{KEY}"}}, id="part of env"),
        pytest.param({**CARRIED, "setup_command": (f"echo {KEY}",)}, id="setup_command"),
        pytest.param({**CARRIED, "command": ("run", KEY)}, id="command"),
        pytest.param({**CARRIED, "job_spec_patch": patch(f"{CONTAINER}/args", [KEY])}, id="args"),
        pytest.param({**CARRIED, "labels": {"a": KEY}}, id="labels"),
        pytest.param({"hidden": frozenset({KEY}), "env": {"DB": KEY}}, id="of a block"),
        pytest.param(
            {"hidden": frozenset({KEY}), "env": {"DB": f"db://u:{KEY}@h"}}, id="in an URL"
        ),
        pytest.param({"hidden": frozenset({KEY}), "env": {"DB": f"$x {KEY}"}}, id="packed block"),
        pytest.param(
            {"hidden": frozenset({KEY}), "setup_command": (f"pip install --token {KEY}",)},
            id="block in setup_command",
        ),
    ],
)
def test_no_secret_of_a_job_is_in_its_record(
    a_plan: APlan, a_record: ARecord, changes: dict[str, Any]
) -> None:
    """Neither as it is nor as JSON writes it, and what packs one is masked as a whole."""
    text = record_text(a_record(a_plan(**changes)))

    for part in ("SECRET", "secret-key", "KEY\\\\123"):
        assert part not in text
    assert MASK in text


def test_a_secret_of_a_job_is_in_no_other_part_either(a_plan: APlan, a_record: ARecord) -> None:
    plan = a_plan(hidden=frozenset({"hunter2-hunter2"}))
    record = a_record(
        plan, flow_run_name="run hunter2-hunter2", parameters={"p": ["x", "hunter2-hunter2"]}
    )

    assert "hunter2" not in record_text(record)
    assert record["flow_run"]["parameters"] == {"p": ["x", MASK]}


def test_a_variable_that_holds_a_part_is_masked_as_a_whole(a_plan: APlan) -> None:
    """So that a script can take it from the environment."""
    plan = a_plan(hidden=frozenset({"hunter2-hunter2"}), env={"DB": "db://u:hunter2-hunter2@h"})
    (pool,) = json.loads(plan.as_json())["custom_job"]["job_spec"]["worker_pool_specs"]

    assert {"name": "DB", "value": MASK} in pool["container_spec"]["env"]


# --- blocks ---------------------------------------------------------------------------------------


def block(data: dict[str, Any], *secret_fields: str) -> BlockDocument:
    schema = BlockSchema(
        checksum="", fields={"secret_fields": list(secret_fields)}, block_type_id=ANYBODY
    )
    return BlockDocument(
        name="b", data=data, block_schema_id=ANYBODY, block_schema=schema, block_type_id=ANYBODY
    )


@pytest.mark.parametrize(
    ("data", "fields", "secrets"),
    [
        ({"value": "hunter2"}, ("value",), {"hunter2"}),
        ({"value": {"a": "x1", "b": ["x2", 12345]}}, ("value",), {"x1", "x2", "12345"}),
        ({"user": "u", "password": "pw"}, ("password",), {"pw"}),
        ({"auth": {"user": "u", "token": "t"}}, ("auth.token",), {"t"}),
        ({"values": {"a": "1", "b": "2"}}, ("values.*",), {"1", "2"}),
        ({"value": "plain"}, (), set()),
        ({"value": None}, ("value", "gone.too"), set()),
        (
            {"info": {"project_id": "p", "client_email": "e", "private_key": "k"}},
            ("info.*",),
            {"k"},
        ),
    ],
)
def test_what_a_block_s_schema_calls_secret_is_secret(
    data: dict[str, Any], fields: tuple[str, ...], secrets: set[str]
) -> None:
    assert set(secrets_of_block(block(data, *fields))) == secrets


@pytest.mark.anyio
async def test_a_client_notes_the_secrets_of_the_blocks_that_are_read_through_it() -> None:
    class Client:
        api_url = "http://prefect"

        async def read_block_document_by_name(self, name: str, slug: str) -> BlockDocument:
            return block({"value": f"{slug}-{name}"}, "value")

    client: Any = NotingClient(Client())  # type: ignore[arg-type] # as much of it as is used

    assert (await client.read_block_document_by_name("db", "secret")).name == "b"
    assert client.secrets == {"secret-db"}
    assert client.api_url == "http://prefect"


# --- job variables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"env": {"PREFECT_API_KEY": "k", "A": "1"}}, {"env": {"PREFECT_API_KEY": MASK, "A": "1"}}),
        ({"env.prefect_api_auth_string": "u:p"}, {"env.prefect_api_auth_string": MASK}),
        (
            {"env": {"PREFECT_API_KEY": "{{ prefect.blocks.secret.k }}"}},
            {"env": {"PREFECT_API_KEY": "{{ prefect.blocks.secret.k }}"}},
        ),
        (
            {"worker_pools": [{"env": [{"name": "PREFECT_API_KEY", "value": "k"}]}]},
            {"worker_pools": [{"env": [{"name": "PREFECT_API_KEY", "value": MASK}]}]},
        ),
        (
            {"credentials": {"service_account_info": {"private_key": "k"}, "project": "p"}},
            {"credentials": {"service_account_info": MASK, "project": "p"}},
        ),
        (
            {"credentials": {"$ref": {"block_document_id": "7"}}},
            {"credentials": {"$ref": {"block_document_id": "7"}}},
        ),
        ({"image": "i:1", "setup_command": ["echo hunter2-hunter2"]}, None),
    ],
)
def test_job_variables_are_kept_without_their_secrets(
    given: dict[str, Any], kept: dict[str, Any] | None
) -> None:
    """A reference to a secret is none; what is known by its value goes too."""
    expected = kept or {"image": "i:1", "setup_command": [f"echo {MASK}"]}

    assert without_secrets(given, {"hunter2-hunter2"}) == expected


def test_secret_settings_are_found_by_name_wherever_they_are_set() -> None:
    places = {
        "env": {"PREFECT_API_KEY": "one", "TOKEN": "no"},
        "patch": [{"op": "add", "value": {"name": "PREFECT_API_AUTH_STRING", "value": "two"}}],
    }

    assert set(secret_texts(places)) == {"one", "two"}


# --- parameters -----------------------------------------------------------------------------------

SECRET = {"type": "string", "format": "password", "writeOnly": True}
LOGIN = {"type": "object", "properties": {"user": {"type": "string"}, "password": SECRET}}


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        (SECRET, "pw", MASK),
        (SECRET, None, None),
        ({"anyOf": [SECRET, {"type": "null"}]}, "pw", MASK),
        ({"allOf": [{"$ref": "#/definitions/Login"}]}, {"user": "u", "password": "pw"}, ...),
        ({"$ref": "#/definitions/Login"}, {"user": "u", "password": "pw"}, ...),
        ({"type": "array", "items": SECRET}, ["a", "b"], [MASK, MASK]),
        ({"type": "object", "additionalProperties": SECRET}, {"a": "b"}, {"a": MASK}),
        ({"$ref": "#/definitions/Endless"}, {"x": 1}, {"x": 1}),
        ({"$ref": "#/definitions/Missing"}, "x", "x"),
        ({"type": "string"}, "hunter2-hunter2", MASK),
        ({"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}),
    ],
)
def test_a_parameter_that_its_flow_declares_secret_is_masked(
    schema: dict[str, Any], value: Any, kept: Any
) -> None:
    root = {
        "properties": {"p": schema},
        "definitions": {"Login": LOGIN, "Endless": {"$ref": "#/definitions/Endless"}},
    }
    found = parameters_without_secrets({"p": value, "q": 1}, root, {"hunter2-hunter2"})

    expected = {"user": "u", "password": MASK} if kept is ... else kept
    assert found == {"p": expected, "q": 1}


def test_without_a_schema_parameters_are_kept(facts: Callable[..., LaunchFacts]) -> None:
    assert parameters_without_secrets({"p": {"a": [1]}}, None, ()) == {"p": {"a": [1]}}
    assert "parameters" not in repr(facts(parameters={"p": 1}))
