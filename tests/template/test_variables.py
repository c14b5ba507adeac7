"""The base job template: complete, documented, accepted by the server, and each variable works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.schema_tools import is_valid_schema, validate
from prefect.utilities.templating import find_placeholders

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import build_plan
from prefect_vertex.template import VertexJobConfiguration, VertexVariables, base_job_template

ROOT = Path(__file__).parents[2]
TEMPLATE = base_job_template()
VARIABLES: dict[str, Any] = TEMPLATE["variables"]["properties"]
OPTIONAL = sorted(set(VARIABLES) - {"region", "image"})

Resolved = Callable[..., VertexJobConfiguration]


def refusals(values: dict[str, Any], *, at_run: bool = True) -> list[str]:
    """What the server finds wrong with job variables, by its own function and flags."""
    errors = validate(
        values,
        TEMPLATE["variables"],
        preprocess=True,
        ignore_required=not at_run,
        allow_none_with_default=True,
    )
    return [error.message for error in errors]


def outcome(configuration: VertexJobConfiguration) -> tuple[str, str]:
    """All that a variable can change: the request and the policy."""
    try:
        spec = configuration.run_spec(default_project="forecasts")
        told = ""
        for candidate in spec.candidates:
            plan = build_plan(spec, candidate, attempt=1, bootstrap="pass")
            told += f"{plan.as_json()}{plan.warnings}"
            told += f"{candidate.credentials_key}{candidate.checkpoint_dir}"
    except PlanError as error:
        return str(error), ""
    patience = (configuration.run_policy(), configuration.capacity_policy())
    return told, repr((*patience, configuration.preflight_quota))


def test_the_file_in_the_tree_is_the_default_template() -> None:
    """To write it anew: python -m prefect_vertex.template > work_pool_templates/..."""
    text = (ROOT / "work_pool_templates" / "vertex-forecast.json").read_text(encoding="utf-8")
    assert json.loads(text) == TEMPLATE


def test_the_module_prints_the_template() -> None:
    command = [sys.executable, "-m", "prefect_vertex.template"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == TEMPLATE


def test_each_call_gives_a_template_of_its_own() -> None:
    base_job_template()["job_configuration"]["job_spec"].clear()
    base_job_template()["variables"]["properties"].clear()
    VertexVariables.model_json_schema()["properties"]["credentials"].clear()
    assert base_job_template() == TEMPLATE


def test_every_placeholder_is_a_variable_and_every_variable_has_one() -> None:
    names = {placeholder.name for placeholder in find_placeholders(TEMPLATE["job_configuration"])}
    assert names == set(VARIABLES)


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_is_described_and_titled(name: str) -> None:
    schema = VARIABLES[name]
    assert schema["title"]
    assert schema["description"].endswith((".", "MachineSpec")) or "http" in schema["description"]
    assert name not in TEMPLATE["variables"].get("required", ())


def test_the_schema_is_valid_and_its_defaults_are_too() -> None:
    is_valid_schema(TEMPLATE["variables"], preprocess=False)
    defaults = {
        name: schema["default"] for name, schema in VARIABLES.items() if "default" in schema
    }
    assert refusals(defaults) == []


@pytest.mark.parametrize("at_run", [True, False])
@pytest.mark.parametrize("name", VARIABLES)
def test_the_server_accepts_null_for_every_variable(name: str, at_run: bool) -> None:  # noqa: FBT001
    assert refusals({name: None}, at_run=at_run) == []


@pytest.mark.parametrize("at_run", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        {"env.LEVEL": "1", "labels.team": "x"},
        {"credentials": {"$ref": {"block_document_id": "33333333-1111-4222-8333-444455556666"}}},
        {"credentials": {"service_account_info": {"type": "service_account"}, "project": "p"}},
        {"env": {"A": None}, "strategy": "spot", "maximum_run_time_hours": 0.5},
    ],
    ids=["dotted", "block", "block values", "values"],
)
def test_the_server_accepts_what_it_should(
    values: dict[str, Any],
    at_run: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert refusals(values, at_run=at_run) == []


@pytest.mark.parametrize(
    "values",
    [
        {"machine_typ": "x"},
        {"worker_count": 0},
        {"worker_count": "two"},
        {"validate_hardware": "x"},
    ],
)
def test_the_server_refuses_what_it_should(values: dict[str, Any]) -> None:
    assert refusals(values) != []


# Of each variable a value that no other test run has by default.
EFFECTS: dict[str, Any] = {
    "name": "mine",
    "env": {"LEVEL": "1"},
    "labels": {"team": "x"},
    "command": "python flow.py",
    "region": "us-central1",
    "regions": ["us-east1"],
    "project": "another",
    "image": "other:2",
    "credentials": {"service_account_info": {"client_email": "a@b.iam.gserviceaccount.com"}},
    "hardware": "gpu",
    "gpu_type": "L4",
    "machine_type": "n1-standard-8",
    "accelerator_type": "NVIDIA_TESLA_T4",
    "accelerator_count": 1,
    "validate_hardware": "warn",
    "boot_disk_type": "pd-ssd",
    "boot_disk_size_gb": 200,
    "worker_count": 3,
    "replicas": "command",
    "gang_start": False,
    "maximum_run_time_hours": 1.5,
    "strategy": "SPOT",
    "candidates": [{"strategy": "SPOT"}, {}],
    "capacity": {"max_attempts": 1},
    "preflight_quota": True,
    "disable_retries": False,
    "scheduling": {"timeout": "60s"},
    "network": "projects/1/global/networks/n",
    "reserved_ip_ranges": ["range"],
    "enable_web_access": True,
    "enable_dashboard_access": True,
    "base_output_directory": "gs://b/out",
    "staging_bucket": "b",
    "service_account_name": "s@p.iam.gserviceaccount.com",
    "code_uri": "gs://b/code.zip",
    "code_sha256": "a" * 64,
    "python_command": ["/opt/venv/bin/python"],
    "setup_command": ["true"],
    "prefect_api_key_secret": "projects/p/secrets/s/versions/1",
    "provisioning_timeout_seconds": 600,
    "start_grace_seconds": 10,
    "stall_timeout_seconds": 600,
    "cancel_grace_seconds": 10,
    "stream_output": False,
    "job_watch_poll_interval": 2,
    "restart_job_on_worker_restart": True,
    "max_wait_duration": "1800s",
    "psc_interface_config": {"network_attachment": "a"},
    "persistent_resource_id": "r",
    "reservation_affinity": {"reservation_affinity_type": "ANY_RESERVATION"},
    "encryption_spec_key": "projects/p/locations/europe-west4/keyRings/r/cryptoKeys/k",
    "tensorboard": "projects/p/locations/europe-west4/tensorboards/1",
    "experiment": "projects/p/locations/europe-west4/metadataStores/default/contexts/e",
    "worker_pools": [{}, {"disk_spec": {"boot_disk_size_gb": 300}}],
    "job_spec_patch": [{"op": "add", "path": "/job_spec/models", "value": ["m"]}],
}
TOGETHER: dict[str, dict[str, Any]] = {
    "replicas": {"worker_count": 2},
    "gang_start": {"worker_count": 2},
    "reserved_ip_ranges": {"network": "projects/1/global/networks/n"},
    "accelerator_type": {"accelerator_count": 1},
    "accelerator_count": {"accelerator_type": "NVIDIA_TESLA_T4"},
    "validate_hardware": {"accelerator_type": "NVIDIA_L4", "accelerator_count": 1},
    "prefect_api_key_secret": {"service_account_name": "s@p.iam.gserviceaccount.com"},
    "restart_job_on_worker_restart": {"disable_retries": False},
    "max_wait_duration": {"strategy": "FLEX_START", "hardware": "gpu", "gpu_type": "L4"},
    "tensorboard": {"service_account_name": "s@p.iam.gserviceaccount.com"},
    "code_uri": {"code_sha256": "a" * 64},
    "code_sha256": {"code_uri": "gs://b/code.zip"},
}


def test_every_variable_has_a_value_to_try() -> None:
    assert set(EFFECTS) == set(VARIABLES)


@pytest.mark.parametrize("name", EFFECTS)
def test_no_variable_is_without_effect(resolved: Resolved, name: str) -> None:
    beside = TOGETHER.get(name, {})
    changed = resolved(**{**beside, name: EFFECTS[name]})
    assert refusals({**beside, name: EFFECTS[name]}) == []
    assert outcome(changed) != outcome(resolved(**beside))


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_the_same_as_unset(resolved: Resolved, name: str) -> None:
    assert outcome(resolved(**{name: None})) == outcome(resolved())


def test_the_defaults_are_those_of_the_contract() -> None:
    expected = {
        "machine_type": None,
        "boot_disk_type": None,
        "boot_disk_size_gb": 100,
        "job_watch_poll_interval": None,
        "maximum_run_time_hours": 24,
        "worker_count": 1,
        "replicas": "flow",
        "gang_start": True,
        "python_command": ["python3"],
        "disable_retries": True,
        "provisioning_timeout_seconds": None,
        "start_grace_seconds": 900,
        "stall_timeout_seconds": None,
        "cancel_grace_seconds": 60,
        "validate_hardware": "error",
        "enable_web_access": False,
    }
    configuration = VertexJobConfiguration()
    for name, value in expected.items():
        schema = VARIABLES[name]
        assert schema.get("default") == value, name
        assert getattr(configuration, name, value) == value, name


def test_loading_the_template_loads_no_google_module() -> None:
    program = (
        "import sys, prefect_vertex.template\n"
        "heavy = ('google.protobuf', 'google.api_core', 'google.auth', 'grpc')\n"
        "found = [name for name in sys.modules if name.startswith(heavy)]\n"
        "sys.exit(str(found) if found else 0)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
