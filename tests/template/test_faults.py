"""A user's mistake is one line that names the variable, and no exception inside Prefect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prefect.exceptions import ObjectNotFound

from prefect_vertex.errors import PlanError, SchedulingError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.template import VertexJobConfiguration, base_job_template, patience

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]

GOOD = {"region": "europe-west4", "image": "i:1", "project": "forecasts"}


def fault_of(configuration: VertexJobConfiguration) -> PlanError:
    with pytest.raises(PlanError) as caught:
        configuration.run_spec()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("variables", "variable", "words"),
    [
        (
            {"worker_count": "two"},
            "worker_count",
            "worker_count is 'two', expected a valid integer",
        ),
        ({"worker_count": 0}, "worker_count", "greater than or equal to 1"),
        (
            {"maximum_run_time_hours": "long"},
            "maximum_run_time_hours",
            "is 'long', expected a valid",
        ),
        ({"maximum_run_time_hours": 0}, "maximum_run_time_hours", "greater than 0"),
        ({"maximum_run_time_hours": float("inf")}, "maximum_run_time_hours", "finite"),
        ({"strategy": ["SPOT", None]}, "strategy", "strategy[1] is None, expected a text"),
        ({"validate_hardware": "maybe"}, "validate_hardware", "'error' or 'warn'"),
        ({"python_command": "python3.11"}, "python_command", "expected a valid list"),
        ({"python_command": []}, "python_command", "at least 1 item"),
        ({"setup_command": [1]}, "setup_command", "setup_command.0 is 1"),
        ({"env": ["A=1"]}, "env", "env is not a mapping"),
        ({"labels": "team"}, "labels", "labels is not a mapping"),
        ({"cancel_grace_seconds": -1}, "cancel_grace_seconds", "greater than or equal to 0"),
        ({"stall_timeout_seconds": 0}, "stall_timeout_seconds", "greater than 0"),
        ({"region": 3}, "region", "region is 3, expected a valid string"),
        ({"machine_typ": "x"}, "machine_typ", "the closest is 'machine_type'"),
        ({"capacity.a": 1, "capacity.a.b": 2}, "capacity", "reaches into"),
        (
            {"credentials": "{{ prefect.blocks.gcp-credentials.gone }}"},
            "",
            "Block not found: 'gone' of type 'gcp-credentials'",
        ),
        ({"credentials": "{{ prefect.blocks.gone }}"}, "", "Invalid block placeholder format"),
        ({"credentials": {"$ref": {"block_document_id": "gone"}}}, "", "Block not found"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_rendered_is_kept_as_the_fault(
    resolved: Resolved,
    variables: dict[str, Any],
    variable: str,
    words: str,
) -> None:
    configuration = resolved(**variables)
    assert configuration.fault is fault_of(configuration)
    assert configuration.fault.variable == variable
    assert words in str(configuration.fault)


@pytest.mark.parametrize(
    ("variables", "variable", "words"),
    [
        ({"region": None}, "region", "region is not set. Set region"),
        ({"project": None}, "project", "project is not set"),
        ({"command": "echo 'x"}, "command", "No closing quotation"),
        ({"strategy": "SPOTT"}, "strategy", "closest is SPOT"),
        ({"scheduling": "SPOT"}, "scheduling", "expected a mapping"),
        ({"code_uri": "gs://b/o"}, "code_sha256", "code_uri is set but code_sha256 is not"),
        ({"code_sha256": "a" * 64}, "code_uri", "code_sha256 is set but code_uri is not"),
        ({"code_uri": "/tmp/x", "code_sha256": "a" * 64}, "code_uri", "expected gs://"),  # noqa: S108
        ({"code_uri": "gs://b/o", "code_sha256": "abc"}, "code_sha256", "64 hexadecimal digits"),
        ({"staging_bucket": "s3://b"}, "staging_bucket", "expected gs://"),
        ({"base_output_directory": "b/x"}, "base_output_directory", "expected gs://"),
        ({"service_account_name": "default"}, "service_account_name", "not a service account"),
        ({"credentials": "my-block"}, "credentials", "credentials is a str"),
        ({"credentials": {"service_account_info": "{"}}, "credentials", "not the JSON of a key"),
        ({"credentials": {"service_account_info": [1]}}, "credentials", "not the JSON of a key"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_can_be_rendered_but_not_run_is_refused_by_the_spec(
    resolved: Resolved,
    variables: dict[str, Any],
    variable: str,
    words: str,
) -> None:
    configuration = resolved(**{"project": "forecasts", **variables})
    assert configuration.fault is None
    assert fault_of(configuration).variable == variable
    assert words in str(fault_of(configuration))


@pytest.mark.parametrize(
    "secret",
    [
        {"env": ["pnu_1"]},
        {"credentials": {"$ref": "pnu_1"}},
        {"worker_pools": '[{"container_spec": {"env": {"K": "pnu_1"}}}]'},
        {"worker_pools": ['{"env": {"K": "pnu_1"}}']},
        {"job_spec_patch": {"op": "add", "value": "pnu_1"}},
    ],
    ids=str,
)
def test_no_value_of_env_or_credentials_stands_in_a_message(
    resolved: Resolved,
    secret: dict[str, Any],
) -> None:
    assert "pnu_1" not in str(fault_of(resolved(**secret)))


def test_a_faulty_configuration_can_still_name_its_run(a_world: AWorld) -> None:
    world = a_world(deployment={}, run={"worker_count": "two"})
    configuration = world.resolve()
    roles = {item.role for item in configuration._related_resources()}
    assert roles >= {"flow", "flow-run", "deployment"}
    assert configuration.labels["prefect.io/flow-run-id"] == str(world.flow_run.id)
    assert configuration.run_policy() == RunPolicy()


def test_a_deployment_that_is_gone_is_not_the_users_mistake(a_world: AWorld) -> None:
    """Prefect's cleanup tells it from other errors by this exception."""
    world = a_world(deployment={}, run={})
    world.deployment = None
    with pytest.raises(ObjectNotFound):
        world.resolve()


@pytest.mark.parametrize(("status", "is_fault"), [(422, True), (503, False), (429, False)])
def test_trouble_of_the_api_is_not_the_users_mistake(
    a_world: AWorld,
    status: int,
    is_fault: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(patience, "BUDGET_SECONDS", 0.05)
    world = a_world(run={**GOOD, "credentials": {"$ref": {"block_document_id": "x"}}})

    async def refuse(block_document_id: object) -> None:
        request = httpx.Request("GET", f"http://127.0.0.1/api/block_documents/{block_document_id}")
        response = httpx.Response(status, request=request)
        raise httpx.HTTPStatusError("no", request=request, response=response)

    world.client.read_block_document = refuse
    if is_fault:
        assert "no block's id: x" in str(world.resolve().fault)
    else:
        with pytest.raises(httpx.HTTPStatusError):
            world.resolve()


def test_rendering_for_ad_hoc_submission_raises_the_mistake(a_world: AWorld) -> None:
    """There Prefect's code is called by the user's own, which should see it."""
    with pytest.raises(PlanError, match="worker_count is 'two'"):
        asyncio.run(
            VertexJobConfiguration.from_template_and_values(
                base_job_template=base_job_template(),
                values={"worker_count": "two"},
                client=a_world().client,
            ),
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"worker_cout": 3}, "no key 'worker_cout'; the closest is 'worker_count'"),
        ({"job_spec": "x"}, "job_spec is 'x', expected a valid dictionary"),
    ],
)
def test_a_template_with_a_wrong_job_configuration_is_named(
    a_world: AWorld,
    change: dict[str, Any],
    words: str,
) -> None:
    template = base_job_template()
    template["job_configuration"] |= change
    assert words in str(fault_of(a_world(template=template, run=GOOD).resolve()))


def test_a_template_that_is_none_is_named(a_world: AWorld) -> None:
    template: dict[str, Any] = {"variables": {}}
    assert "could not be rendered" in str(a_world(template=template, run={}).resolve().fault)


def test_a_name_that_an_open_template_does_not_have_is_a_warning(a_world: AWorld) -> None:
    template = base_job_template()
    del template["variables"]["additionalProperties"]
    configuration = a_world(template=template, run={**GOOD, "machine_typ": "x"}).resolve()
    assert configuration.fault is None
    (warning,) = configuration.warnings
    assert warning.startswith("job variable 'machine_typ' is not one of this work pool's")
    assert warning.endswith("the closest is 'machine_type'. It has no effect.")


def test_nulls_written_into_the_template_are_unset(a_world: AWorld) -> None:
    template = base_job_template()
    configuration = template["job_configuration"]
    for name in set(configuration) - {"job_spec", "region", "project"}:
        configuration[name] = None
    configuration["job_spec"]["scheduling"] = None
    spec = a_world(template=template, run=GOOD).resolve().run_spec()
    assert spec.candidates[0].worker_count == 1


def test_an_error_of_scheduling_keeps_its_kind(resolved: Resolved) -> None:
    with pytest.raises(SchedulingError):
        resolved(scheduling={"max_wait_duration": "5s"}).run_spec("p")
