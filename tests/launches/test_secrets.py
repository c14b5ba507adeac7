"""No secret stands in a launch record, wherever it was put; secrets are known by their type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import BlockDocument, BlockSchema
from prefect.utilities.templating import resolve_block_document_references

from prefect_vertex.planning.launches import LaunchFacts, read_record, record_text
from prefect_vertex.planning.masking import MASK
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.template.composed import marked, without_marks
from prefect_vertex.template.declared import declared_secrets, parameters_without_secrets
from prefect_vertex.template.hidden import (
    NotingClient,
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


@pytest.mark.parametrize(
    ("secret", "value", "shown"),
    [
        ("pw", "pw", MASK),
        ("pw", ["pw", {"a": "pw"}], [MASK, {"a": MASK}]),
        ("pw", "powwow pw", "powwow pw"),
        ("pw", "run 'pw' \"pw\"", f"run '{MASK}' \"{MASK}\""),
        ("hunter2", "db://u:hunter2@h", f"db://u:{MASK}@h"),
        ("1234", 1234, MASK),
        ("1234", [1234.5, 12345, True], [1234.5, 12345, True]),
        ("0.5", 0.5, MASK),
        ("hunter2", {"hunter2": 1, "x-hunter2": 2}, {MASK: 1, f"x-{MASK}": 2}),
        ("pw1", {"pw1": 1, MASK: 2}, {MASK: 1, f"{MASK}'": 2}),
        ("True", True, True),
        ("***", "a *** b", "a *** b"),
    ],
)
def test_in_parameters_a_secret_is_masked_in_texts_keys_and_numbers(
    a_plan: APlan, a_record: ARecord, secret: str, value: Any, shown: Any
) -> None:
    record = a_record(a_plan(hidden=frozenset({secret})), parameters={"p": value})

    assert record["flow_run"]["parameters"] == {"p": shown}


@pytest.mark.parametrize("secret", ["name", "request", "prefect-vertex", "1", "a-run"])
def test_a_secret_that_is_a_word_of_ours_leaves_a_record_that_can_be_read(
    a_plan: APlan, a_record: ARecord, secret: str
) -> None:
    text = record_text(a_record(a_plan(hidden=frozenset({secret})), parameters={secret: 1}))

    assert read_record(json.loads(text), "x")["flow_run"]["parameters"].keys() == {secret}


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

    read = await client.read_block_document_by_name("db", "secret")
    assert read.name == "b"
    assert without_marks(read.data, set()) == {"value": "secret-db"}
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


def test_who_the_api_s_address_names_is_secret_and_an_address_alone_is_not() -> None:
    url = "http://me:hunter2@host/api"

    assert set(secret_texts({"env": {"PREFECT_API_URL": url}})) == {url, "me:hunter2", "hunter2"}
    assert set(secret_texts({"env": {"PREFECT_API_URL": "http://host/api"}})) == set()


def test_who_an_address_names_with_a_password_is_secret_in_any_variable() -> None:
    """Also in one that the template does not use; a reference to a secret may be shown."""
    given = {
        "env": {"PIP_INDEX_URL": "https://token@pypi.example/simple", "A": "http://h:80/a@b"},
        "unused": ["redis://:pw@h", "db://u:{{prefect.blocks.secret.db}}@h"],
    }

    assert without_secrets(given, ()) == {
        "env": {"PIP_INDEX_URL": f"https://{MASK}@pypi.example/simple", "A": "http://h:80/a@b"},
        "unused": [f"redis://{MASK}@h", "db://u:{{prefect.blocks.secret.db}}@h"],
    }


# --- parameters -----------------------------------------------------------------------------------

SECRET = {"type": "string", "format": "password", "writeOnly": True}
LOGIN = {"type": "object", "properties": {"user": {"type": "string"}, "password": SECRET}}
TREE = {"$ref": "#/definitions/Tree"}


def deep(levels: int, key: str = "k") -> dict[str, Any]:
    """A tree with a key at each level."""
    return {"key": key, "below": deep(levels - 1, key) if levels else None}


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        (SECRET, "pw", MASK),
        (SECRET, None, None),
        ({"anyOf": [SECRET, {"type": "null"}]}, "pw", MASK),
        ({"allOf": [{"$ref": "#/definitions/Login"}]}, {"user": "u", "password": "pw"}, ...),
        ({"$ref": "#/definitions/Login"}, {"user": "u", "password": "pw"}, ...),
        ({"type": "array", "items": SECRET}, ["a", "b"], [MASK, MASK]),
        ({"type": "array", "prefixItems": [{}, SECRET]}, ["a", "b", "c"], ["a", MASK, "c"]),
        ({"prefixItems": [SECRET], "items": {}}, ["a", "b"], [MASK, "b"]),
        ({"prefixItems": [{}], "items": SECRET}, ["a", "b"], ["a", MASK]),
        ({"items": [{}, SECRET], "additionalItems": SECRET}, ["a", "b", "c"], ["a", MASK, MASK]),
        ({"patternProperties": {"^s": SECRET}}, {"s": "x", "t": "y"}, {"s": MASK, "t": "y"}),
        ({"if": {}, "then": SECRET}, "pw", MASK),
        ({"type": "integer", "writeOnly": True, "format": "password"}, 7, MASK),
        ({"$ref": "#/definitions/Tree"}, deep(25), deep(25, MASK)),
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
        "definitions": {
            "Login": LOGIN,
            "Endless": {"$ref": "#/definitions/Endless"},
            "Tree": {"properties": {"below": {"anyOf": [TREE, {"type": "null"}]}, "key": SECRET}},
        },
    }
    given = {"p": value, "q": 1}
    found, unjudged = parameters_without_secrets(given, root, {"hunter2-hunter2"})

    expected = {"user": "u", "password": MASK} if kept is ... else kept
    assert found == {"p": expected, "q": 1}
    assert unjudged == ()


@pytest.mark.parametrize(
    ("schema", "value", "secrets"),
    [
        (SECRET, "pw", {"pw"}),
        ({"type": "integer", "writeOnly": True, "format": "password"}, 1234, {"1234"}),
        (SECRET, MASK, set()),
        ({"type": "array", "items": SECRET}, ["a1", "b2"], {"a1", "b2"}),
        ({"type": "object", "propertyNames": SECRET}, {"a1": 1}, {"a1"}),
        ({"type": "string"}, "a1", set()),
    ],
)
def test_a_declared_secret_is_hidden_wherever_else_it_stands(
    schema: dict[str, Any], value: Any, secrets: set[str]
) -> None:
    root = {"properties": {"p": schema, "q": {}}}
    given = {"p": value, "q": [*secrets]}

    assert declared_secrets(given, root) == secrets
    assert parameters_without_secrets(given, root, ())[0]["q"] == [MASK] * len(secrets)


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        (7, True),
        (None, True),
        ([1, {"a": 2.5}], True),
        ("", True),
        ("hunter2", False),
        ([1, {"a": "hunter2"}], False),
    ],
)
@pytest.mark.parametrize("schema", [None, {}, {"properties": {"other": {}}}], ids=str)
def test_a_parameter_with_a_text_that_no_schema_describes_is_left_out(
    schema: dict[str, Any] | None,
    value: Any,
    is_kept: bool,  # noqa: FBT001 - a row of a table
) -> None:
    """It may be a secret; what holds none is kept."""
    found, unjudged = parameters_without_secrets({"p": value}, schema, ())

    assert found == ({"p": value} if is_kept else {})
    assert unjudged == (() if is_kept else ("p",))


def test_a_representation_shows_no_parameters(facts: Callable[..., LaunchFacts]) -> None:
    assert "parameters={" not in repr(facts(parameters={"p": 1}))


# --- what a secret went into ----------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["hunter2", "pw", "1", "a b", '"x', "$HOME", "ü", 1234])
@pytest.mark.parametrize(
    "pieces",
    [("", ""), ("db://u:", "@h"), ("run --pw=", " --now"), ("export A='", "'")],
    ids=str,
)
@pytest.mark.anyio
async def test_a_text_that_a_secret_went_into_is_known_whatever_its_length(
    secret: Any, pieces: tuple[str, str]
) -> None:
    """Prefect, which puts it there, hands on what the block holds, as text or alone as it is."""

    class Client:
        async def read_block_document_by_name(self, **_: str) -> BlockDocument:
            return block({"value": secret}, "value")

    before, after = pieces
    text = f"{before}{{{{ prefect.blocks.secret.s }}}}{after}"
    client: Any = NotingClient(Client())  # type: ignore[arg-type] # as much of it as is used
    rendered = await resolve_block_document_references({"env": {"A": text}}, client=client)
    composed: set[str] = set()
    plain = without_marks(rendered, composed)

    expected = f"{before}{secret}{after}" if before else secret
    assert plain == {"env": {"A": expected}}
    assert str(expected) in composed
    if before.endswith("="):
        assert f"--pw={secret}" in composed
        assert "run" not in composed


def test_a_command_s_arguments_are_known_each() -> None:
    """A secret in one is split with it."""
    composed: set[str] = set()
    data = marked({"value": "--pw=a1 --user b2"}, ["value"])
    plain = without_marks({"command": f"run {data['value']}", "name": "run"}, composed)

    assert plain["command"] == "run --pw=a1 --user b2"
    assert {"--pw=a1", "--user", "b2"} <= composed
    assert "run" not in composed
