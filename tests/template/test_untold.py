"""No secret is told, whichever variable it went into and whatever is wrong with that.

Neither one of a block, nor a password in an address that somebody wrote there.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.cli.plan import planned
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.masking import MASK
from prefect_vertex.template import VertexVariables, base_job_template

AWorld = Callable[..., Any]

MINIMUM = {"region": "europe-west4", "image": "i:1", "project": "p"}
REFERENCE = "{{ prefect.blocks.secret.t }}"
QUOTED = 'hunter2\'s "Pass-Word"'
SECRETS = [QUOTED, "0123456789", "hunter2" * 20, "hunter2-hunter2"]


def ways(name: str) -> list[tuple[dict[str, Any], str]]:
    """Job variables in which a reference stands in one of them, and what the secret is."""
    values: list[Any] = [
        f"run --password '{REFERENCE}'",
        f"{'x' * 30} {REFERENCE}",
        ["run", f"--password={REFERENCE}"],
        {"key": REFERENCE},
        [[REFERENCE], {"key": [REFERENCE]}],
    ]
    several = {"regions": ["us-east1"], "validate_hardware": "warn", name: REFERENCE}
    return [
        *(({name: value}, QUOTED) for value in values),
        *(({name: REFERENCE}, secret) for secret in SECRETS[:3]),
        (several, QUOTED),
    ]


def told(world: Any) -> str:
    """All that a user may read of a run before it has a job."""
    configuration = world.resolve()
    try:
        plans = planned(configuration)
    except PlanError as error:
        lines = traceback.format_exception(error)
    else:
        lines = [line for each in plans for line in each.warnings]
    return "\n".join((*lines, *configuration.warnings, *configuration.titles)).lower()


def assert_tells_nothing(text: str, secret: str) -> None:
    """Five characters of a secret are too many."""
    lower = secret.lower()
    assert not [part for at in range(len(lower) - 4) if (part := lower[at : at + 5]) in text]


@pytest.mark.parametrize("name", VertexVariables.model_fields)
def test_no_secret_is_told_of_a_variable(a_world: AWorld, name: str) -> None:
    for variables, secret in ways(name):
        world = a_world(run={**MINIMUM, **variables}, blocks={"secret/t": {"value": secret}})
        assert_tells_nothing(told(world), secret)


ADDRESS = "postgres://scott:hunter2-hunter2@db.example/forecasts"


@pytest.mark.parametrize("name", VertexVariables.model_fields)
@pytest.mark.parametrize("is_default", [False, True])
def test_no_password_in_an_address_is_told_of_a_variable(
    a_world: AWorld, name: str, *, is_default: bool
) -> None:
    values: list[Any] = [
        *(ADDRESS, f"run '{ADDRESS}", f"{'x' * 30} {ADDRESS}"),
        [[ADDRESS], {"key": [f"--url={ADDRESS}'"]}],
    ]
    for value in values:
        template = base_job_template()
        run = {key: each for key, each in MINIMUM.items() if key != name}
        if is_default:
            template["variables"]["properties"][name]["default"] = value
        else:
            run[name] = value
        text = told(a_world(run=run, template=template))
        assert_tells_nothing(text, "hunter2-hunter2")


@pytest.mark.parametrize("password", ["hunter2-hunter2", "x"])
def test_a_password_in_an_address_stands_in_no_request(a_world: AWorld, password: str) -> None:
    """Of a variable nothing is shown, so that a script can ask for it; of others all else is."""
    address = f"http://scott:{password}@proxy:3128"
    variables = {
        "env": {"HTTP_PROXY": address, "PLAIN": "http://proxy:3128/a@b"},
        "command": f"run --proxy={address}",
        "setup_command": [f"pip install --proxy {address} x"],
        "worker_pools": [{"container_spec": {"env": [{"name": "REDIS", "value": address}]}}],
    }
    (plan,) = planned(a_world(run={**MINIMUM, **variables}).resolve())
    (pool,) = json.loads(plan.as_json())["custom_job"]["job_spec"]["worker_pool_specs"]

    container = pool["container_spec"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert {env[name] for name in ("HTTP_PROXY", "REDIS", "PREFECT_VERTEX_SETUP_COMMAND")} == {MASK}
    assert env["PLAIN"] == "http://proxy:3128/a@b"
    assert container["command"][-2:] == ["run", f"--proxy=http://{MASK}@proxy:3128"]


@pytest.mark.parametrize(
    "variables",
    [
        {"scheduling": {"timeout": REFERENCE}},
        {"scheduling": {"strategy": REFERENCE}},
        {"capacity": {"max_attempts": REFERENCE}},
        {"strategy": ["SPOT", REFERENCE]},
        {"strategy": ["SPOT", None], "regions": [REFERENCE]},
        {"candidates": [{}, {"strategy": REFERENCE}]},
        {"candidates": [{}, {"staging_bucket": f"s3://{REFERENCE}"}]},
        {"regions": ["us-east1"], "persistent_resource_id": REFERENCE},
        {"hardware": "cpu", "gpu_type": REFERENCE, "validate_hardware": "warn"},
        {"worker_pools": [{"disk_spec": {"boot_disk_type": REFERENCE}}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("secret", SECRETS, ids=["quotes", "digits", "long", "plain"])
def test_no_secret_is_told_of_what_a_variable_holds(
    a_world: AWorld, variables: dict[str, Any], secret: str
) -> None:
    world = a_world(run={**MINIMUM, **variables}, blocks={"secret/t": {"value": secret}})
    assert_tells_nothing(told(world), secret)


def test_what_is_wrong_is_still_told(a_world: AWorld) -> None:
    command = f"train --password '{REFERENCE}'"
    world = a_world(
        run={**MINIMUM, "command": command}, blocks={"secret/t": {"value": "it's-hunter2"}}
    )
    with pytest.raises(PlanError) as caught:
        world.resolve().run_spec()
    assert caught.value.variable == "command"
    assert "which a shell could not split: No closing quotation." in str(caught.value)


def test_without_a_secret_the_value_is_told(a_world: AWorld) -> None:
    world = a_world(
        run={**MINIMUM, "worker_count": "two", "env": {"T": REFERENCE}},
        blocks={"secret/t": {"value": "hunter2-hunter2"}},
    )
    with pytest.raises(PlanError, match="worker_count is 'two', expected a valid integer"):
        world.resolve().run_spec()
