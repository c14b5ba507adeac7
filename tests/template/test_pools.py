"""The templates of work_pool_templates/, and what a worker says of a pool that has an older one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types
from prefect.client.schemas.objects import WorkPool
from prefect.utilities.schema_tools.validation import validate

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexVariables, base_job_template
from prefect_vertex.template.carried_over import lacking, template_warning
from prefect_vertex.template.names import unused
from prefect_vertex.template.pool import POOL_TEMPLATES, base_job_template_json
from prefect_vertex.worker import VertexWorker

FOLDER = Path(__file__).parents[2] / "work_pool_templates"
FIXTURES = Path(__file__).parent / "fixtures"

AWorld = Callable[..., Any]


def file_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def plans_of(world: Any) -> list[JobPlan]:
    spec = world.resolve().run_spec(default_project="forecasts")
    return [build_plan(spec, each, attempt=1, bootstrap="pass") for each in spec.candidates]


# --- the files ------------------------------------------------------------------------------------


def test_there_is_a_file_for_each_template_and_no_other() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(POOL_TEMPLATES)


@pytest.mark.parametrize("name", POOL_TEMPLATES)
def test_a_file_is_what_the_package_writes(name: str) -> None:
    """`python -m prefect_vertex.template --write work_pool_templates` brings them up to date."""
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text == base_job_template_json(name)


def test_the_usual_pool_s_file_is_the_template_of_a_new_pool() -> None:
    assert file_of("vertex-forecast") == VertexWorker.get_default_base_job_template()


def test_the_module_prints_one_and_writes_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "prefect_vertex.template"]
    printed = subprocess.run(
        [*command, "vertex-gpu"], capture_output=True, text=True, check=True, timeout=60
    )
    subprocess.run([*command, "--write", str(tmp_path)], check=True, timeout=60)

    assert printed.stdout == base_job_template_json("vertex-gpu")
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json" for name in POOL_TEMPLATES}


@pytest.mark.parametrize("name", POOL_TEMPLATES)
def test_its_defaults_fit_its_own_schema(name: str) -> None:
    """Else the server would refuse the pool."""
    schema = file_of(name)["variables"]
    defaults = {
        variable: each["default"]
        for variable, each in schema["properties"].items()
        if "default" in each
    }
    validate(defaults, schema, raise_on_error=True, preprocess=False, ignore_required=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vertex-forecast", ("n1-standard-4", 0, 1, ["STANDARD"])),
        ("vertex-cpu", ("n2-standard-8", 0, 1, ["STANDARD"])),
        ("vertex-gpu", ("g2-standard-8", 1, 1, ["STANDARD"])),
        ("vertex-spot", ("n1-standard-4", 0, 1, ["SPOT", "STANDARD"])),
        ("vertex-replicas", ("n2-standard-8", 0, 4, ["STANDARD"])),
    ],
)
def test_it_plans_what_its_name_says(
    a_world: AWorld, name: str, expected: tuple[str, int, int, list[str]]
) -> None:
    """With nothing but a region and an image besides."""
    run = {"region": "us-central1", "image": "i:1"}
    plans = plans_of(a_world(template=file_of(name), run=run))

    pools = plans[0].request.custom_job.job_spec.worker_pool_specs
    machine = pools[0].machine_spec
    strategies = [
        plan.request.custom_job.job_spec.scheduling.strategy.name or "STANDARD" for plan in plans
    ]
    found = (
        machine.machine_type,
        machine.accelerator_count,
        sum(pool.replica_count for pool in pools),
        [text.replace("STRATEGY_UNSPECIFIED", "STANDARD") for text in strategies],
    )
    assert found == expected
    assert [plan.warnings for plan in plans] == [()] * len(plans)


def test_the_emulator_s_needs_nothing_more(a_world: AWorld) -> None:
    (plan,) = plans_of(a_world(template=file_of("vertex-emulator"), run={}))
    assert plan.request.parent == "projects/emulated-project/locations/us-central1"


# --- the form -------------------------------------------------------------------------------------


def test_every_variable_has_a_title_and_a_description_and_is_used() -> None:
    template = base_job_template()
    for name, each in template["variables"]["properties"].items():
        assert each["title"], name
        assert each["description"].endswith(".") or "https://" in each["description"], name
    assert unused(template) == ()
    assert lacking(template) == ()


def test_the_form_begins_with_what_every_pool_sets() -> None:
    names = list(base_job_template()["variables"]["properties"])
    assert names[:4] == ["region", "project", "image", "hardware"]
    assert names[-2:] == ["name", "command"]
    assert sorted(names) == sorted(VertexVariables.model_fields)


def test_every_field_says_its_place() -> None:
    """A server on PostgreSQL stores the template as JSONB, which forgets the order of keys."""
    properties = base_job_template()["variables"]["properties"]
    assert [each["position"] for each in properties.values()] == list(range(len(properties)))
    assert [key["position"] for key in properties["capacity"]["properties"].values()] == [*range(6)]


def test_a_field_of_one_type_has_no_tabs_and_no_tab_is_a_word_of_python_s() -> None:
    """Prefect's form makes a tab of each alternative, and calls those without a title str."""
    properties = base_job_template()["variables"]["properties"]
    tabs = {
        name: [kind.get("title") or kind["type"] for kind in each["anyOf"]]
        for name, each in properties.items()
        if "anyOf" in each
    }
    assert tabs == {
        "hardware": ["Choice", "null"],
        "gpu_type": ["Choice", "Text", "null"],
        "strategy": ["Choice", "Text", "List", "null"],
        "credentials": ["Block", "Reference", "null"],
        "validate_hardware": ["Choice", "null"],
        "replicas": ["Choice", "null"],
        "max_wait_duration": ["Text", "Number", "null"],
    }


def test_choices_are_choices() -> None:
    """The form offers them in a list."""
    properties = base_job_template()["variables"]["properties"]
    offered = {
        name: kind["enum"]
        for name, each in properties.items()
        for kind in each.get("anyOf", [each])
        if "enum" in kind
    }
    assert offered["hardware"] == ["cpu", "gpu"]
    assert offered["validate_hardware"] == ["error", "warn"]
    assert offered["replicas"] == ["flow", "command"]
    assert offered["strategy"] == ["STANDARD", "SPOT", "FLEX_START"]
    assert {"T4", "L4", "H100"} <= set(offered["gpu_type"])


def test_an_optional_field_can_be_typed_into_at_once() -> None:
    """With null as its default, Prefect's form shows a switch that says None instead."""
    properties = base_job_template()["variables"]["properties"]
    assert [name for name, each in properties.items() if each.get("default", "") is None] == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("scheduling", [field.name for field in types.Scheduling.pb().DESCRIPTOR.fields]),
        ("psc_interface_config", [f.name for f in types.PscInterfaceConfig.pb().DESCRIPTOR.fields]),
        (
            "reservation_affinity",
            [f.name for f in types.ReservationAffinity.pb().DESCRIPTOR.fields],
        ),
        ("capacity", [field.name for field in fields(CapacityPolicy)]),
    ],
)
def test_a_mapping_s_fields_are_those_that_it_may_hold(name: str, known: list[str]) -> None:
    """Prefect's newer form has no editor for an optional mapping that names none."""
    shown = base_job_template()["variables"]["properties"][name]
    assert set(shown["properties"]) == set(known)
    assert all(each["title"] for each in shown["properties"].values())


def test_the_form_says_what_capacity_is_where_it_is_empty() -> None:
    said = base_job_template()["variables"]["properties"]["capacity"]["properties"]
    for each in fields(CapacityPolicy):
        expected = f"Empty: {each.default:g}." if each.default else "0 or empty: no limit."
        assert expected in said[each.name]["description"]


@pytest.mark.parametrize(
    "variables",
    [
        {
            "scheduling": {
                "strategy": "spot",
                "timeout": 3600,
                "restart_job_on_worker_restart": None,
            }
        },
        {"capacity": {"max_attempts": 12, "max_wall_seconds": 7200.5}},
        {"scheduling": {"strateg": "SPOT"}},
        {"strategy": "spot", "gpu_type": "nvidia_l4"},
    ],
)
def test_the_server_leaves_what_a_mapping_holds_to_the_plan(variables: dict[str, Any]) -> None:
    """Which names the closest key where one is unknown."""
    schema = base_job_template()["variables"]
    validate(variables, schema, raise_on_error=True, allow_none_with_default=True)


def test_each_mapping_has_keys_with_dots() -> None:
    """`env.NAME` and the like pass the server, though unknown names do not."""
    (pattern,) = base_job_template()["variables"]["patternProperties"]
    matched = {
        name
        for name in VertexVariables.model_fields
        if re.match(pattern, f"{name}.anything") is not None
    }
    assert {"env", "labels", "scheduling", "capacity"} <= matched
    assert not {"region", "image", "regions", "credentials"} & matched


# --- older templates ------------------------------------------------------------------------------


def a_pool(template: dict[str, Any], kind: str = "vertex-custom-job") -> WorkPool:
    return WorkPool(
        name="my pool",
        type=kind,
        default_queue_id="7a7b7c7d-1111-4222-8333-444455556666",
        base_job_template=template,
    )


def without(*names: str) -> dict[str, Any]:
    template = base_job_template()
    for name in names:
        del template["variables"]["properties"][name]
        template["job_configuration"].pop(name, None)
    return template


def test_nothing_is_said_of_the_template_of_today() -> None:
    assert template_warning(a_pool(base_job_template())) == ""


def test_an_older_template_is_told_in_one_line_with_the_command() -> None:
    line = template_warning(a_pool(without("capacity", "regions")))

    assert "Work pool 'my pool'" in line
    assert "older than this package" in line
    assert "it lacks regions, capacity." in line
    assert "get-default-base-job-template --type vertex-custom-job --file template.json" in line
    assert "prefect work-pool update 'my pool' --base-job-template template.json" in line
    assert "\n" not in line


@pytest.mark.parametrize("name", ["prefect_gcp_0_6_22", "prefect_bundled"])
def test_a_pool_of_prefect_gcp_s_worker_is_told_that_it_works(name: str) -> None:
    template = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    line = template_warning(a_pool(template, kind="vertex-ai"))

    assert "was made for prefect-gcp's worker and works with this one as it is" in line
    assert "worker_count" in line
    assert ("enable_web_access" in line) is (name == "prefect_bundled")
    assert "older than this package" not in line


def test_a_variable_that_nothing_uses_is_told() -> None:
    """It can be set, and does nothing."""
    template = base_job_template()
    template["job_configuration"]["job_spec"].pop("network")
    template["variables"]["properties"]["colour"] = {"type": "string"}

    line = template_warning(a_pool(template))

    assert line.startswith("Work pool 'my pool' declares variables without effect")
    assert ": network, colour." in line


@pytest.mark.parametrize("template", [{}, {"variables": {}}, {"job_configuration": {}}])
def test_a_pool_without_a_template_lacks_everything(template: dict[str, Any]) -> None:
    assert set(lacking(template)) == set(VertexVariables.model_fields)
    assert "region" in template_warning(a_pool(template))
