"""Every field of a CustomJob can be set, in the template, by a variable and by a patch.

The fields are read from the installed client, so that a field of a new release is tried too: with
a value made up by its type. One that has to have a certain form is given it in `EXAMPLES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from prefect_vertex.planning.draft import OUTPUT_ONLY
from prefect_vertex.planning.plan import build_plan
from prefect_vertex.template import VertexJobConfiguration, base_job_template

AWorld = Callable[..., Any]
Path = tuple[str, ...]

JOB: Descriptor = types.CustomJob.pb(types.CustomJob()).DESCRIPTOR
IMAGE = "europe-docker.pkg.dev/p/flows/forecast:1"
HERE = "projects/p/locations/europe-west4"
POOLS = ("job_spec", "worker_pool_specs")

EXAMPLES: dict[str, Any] = {
    "display_name": "text",
    "labels": {"team": "text"},
    "encryption_spec.kms_key_name": f"{HERE}/keyRings/r/cryptoKeys/k",
    "job_spec.service_account": "runner@p.iam.gserviceaccount.com",
    "job_spec.tensorboard": f"{HERE}/tensorboards/1",
    "job_spec.experiment": f"{HERE}/metadataStores/default/contexts/e",
    "job_spec.experiment_run": f"{HERE}/metadataStores/default/contexts/e-1",
    "job_spec.network": "projects/1/global/networks/n",
    "job_spec.base_output_directory.output_uri_prefix": "gs://bucket/out",
    "job_spec.psc_interface_config.dns_peering_configs.domain": "internal.",
    "job_spec.worker_pool_specs.disk_spec.boot_disk_size_gb": 200,
    "job_spec.worker_pool_specs.replica_count": 3,
}
NEEDS: dict[str, dict[str, Any]] = {
    "job_spec.tensorboard": {"service_account": EXAMPLES["job_spec.service_account"]},
    "job_spec.reserved_ip_ranges": {"network": EXAMPLES["job_spec.network"]},
    "job_spec.scheduling.max_wait_duration": {"scheduling": {"strategy": "FLEX_START"}},
    "job_spec.scheduling.restart_job_on_worker_restart": {"scheduling": {"disable_retries": False}},
}
"""What a field is only taken with, beside it in the job spec."""

WHOLE: dict[str, dict[str, Any]] = {
    "nfs_mounts": {"server": "s", "path": "p", "mount_point": "m"},
    "lustre_mounts": {
        "instance_ip": "i",
        "volume_handle": "v",
        "filesystem": "f",
        "mount_point": "m",
    },
    "container_spec": {"image_uri": IMAGE},
    "python_package_spec": {
        "executor_image_uri": "e",
        "package_uris": ["gs://b/p"],
        "python_module": "m",
    },
    "env": {"name": "NAME", "value": "value"},
}
"""What a message needs besides the one field."""


def leaves(descriptor: Descriptor, path: Path = ()) -> Iterator[tuple[Path, FieldDescriptor]]:
    for field in descriptor.fields:
        here = (*path, field.name)
        message = field.message_type
        if len(here) == 1 and field.name in OUTPUT_ONLY:
            continue
        if (
            message is None
            or message.full_name == "google.protobuf.Duration"
            or message.GetOptions().map_entry
        ):
            yield here, field
        else:
            yield from leaves(message, here)


LEAVES = dict(leaves(JOB))
OF_THE_SPEC = [path for path in LEAVES if path[0] == "job_spec"]
OF_A_POOL = [path for path in LEAVES if path[:2] == POOLS]


def example(path: Path) -> Any:
    """A value that is not the field's default."""
    name, field = ".".join(path), LEAVES[path]
    if name in EXAMPLES:
        return EXAMPLES[name]
    if field.message_type is not None:
        return "90s"
    if field.enum_type is not None:
        return field.enum_type.values[-1].name
    return {FieldDescriptor.TYPE_BOOL: True, FieldDescriptor.TYPE_STRING: "text"}.get(field.type, 7)


def nested(descriptor: Descriptor, path: Path, value: Any) -> Any:
    """The message with this one field set, and with what it needs besides."""
    field = descriptor.fields_by_name[path[0]]
    if len(path) > 1:
        inner = field.message_type
        assert inner is not None
        value = {**WHOLE.get(path[0], {}), **nested(inner, path[1:], value)}
    return {path[0]: [value] if field.is_repeated else value}


def spec_with(path: Path) -> dict[str, Any]:
    """A job spec with this field; the pool with it is the second for what the first cannot have."""
    spec: dict[str, Any] = nested(JOB, path, example(path))["job_spec"]
    for key, value in NEEDS.get(".".join(path), {}).items():
        spec[key] = {**value, **spec.get(key, {})} if isinstance(value, dict) else value
    if path[:2] == POOLS:
        pool = spec["worker_pool_specs"][0]
        if "python_package_spec" not in pool:
            pool.setdefault("container_spec", WHOLE["container_spec"])
        if path[2] == "replica_count":
            spec["worker_pool_specs"].insert(0, {"container_spec": WHOLE["container_spec"]})
    return spec


def sent(configuration: VertexJobConfiguration) -> types.CustomJob:
    spec = configuration.run_spec(default_project="p")
    plan = build_plan(spec, spec.candidates[0], attempt=1, bootstrap="pass")
    return plan.request.custom_job


def has(message: Any, path: Path, value: Any) -> bool:
    """Whether the message, or one of a list in it, has the field with this value."""
    field = getattr(message, path[0])
    if len(path) > 1:
        each = field if LIST in type(field).__name__ else [field]
        return any(has(item, path[1:], value) for item in each)
    if isinstance(field, timedelta):
        return bool(f"{field.total_seconds():.0f}s" == value)
    if LIST in type(field).__name__:
        return value in list(field)
    return bool(getattr(field, "name", field) == value)


LIST = "Repeated"


def in_the_template(a_world: AWorld, path: Path) -> VertexJobConfiguration:
    template = base_job_template()
    job_spec = template["job_configuration"]["job_spec"]
    job_spec |= spec_with(path)
    made: VertexJobConfiguration = a_world(template=template, run=RUN).resolve()
    return made


RUN = {"region": "europe-west4", "image": IMAGE, "validate_hardware": "warn"}


@pytest.mark.parametrize("path", OF_THE_SPEC, ids=".".join)
def test_a_value_in_the_template_reaches_the_request(a_world: AWorld, path: Path) -> None:
    assert has(sent(in_the_template(a_world, path)), path, example(path))


@pytest.mark.parametrize("path", OF_THE_SPEC, ids=".".join)
def test_a_value_in_a_patch_reaches_the_request(a_world: AWorld, path: Path) -> None:
    operations = [
        {"op": "add", "path": f"/job_spec/{key}", "value": value}
        for key, value in spec_with(path).items()
    ]
    configuration = a_world(run={**RUN, "job_spec_patch": operations}).resolve()
    assert has(sent(configuration), path, example(path))


@pytest.mark.parametrize("path", OF_A_POOL, ids=".".join)
def test_a_value_in_worker_pools_reaches_the_request(a_world: AWorld, path: Path) -> None:
    pools = spec_with(path)["worker_pool_specs"]
    configuration = a_world(run={**RUN, "worker_pools": pools}).resolve()
    assert has(sent(configuration), path, example(path))


def test_the_fields_beside_the_spec_are_all_reached(a_world: AWorld) -> None:
    """Name and labels have variables of their own; a field of a newer client fails here."""
    assert {path[0] for path in LEAVES} == {
        *("display_name", "labels", "encryption_spec", "job_spec"),
    }
    template = base_job_template()
    key = EXAMPLES["encryption_spec.kms_key_name"]
    template["job_configuration"]["encryption_spec"] = {"kms_key_name": key}
    run = {**RUN, "name": "text", "labels": EXAMPLES["labels"]}
    job = sent(a_world(template=template, run=run).resolve())
    assert job.display_name.startswith("text-")
    assert job.labels["team"] == "text"
    assert job.encryption_spec.kms_key_name == key


@pytest.mark.parametrize("where", ["variable", "job_spec"])
def test_an_encryption_key_may_stand_in_three_places(a_world: AWorld, where: str) -> None:
    key = EXAMPLES["encryption_spec.kms_key_name"]
    template = base_job_template()
    run: dict[str, Any] = dict(RUN)
    if where == "variable":
        run["encryption_spec_key"] = key
    else:
        template["job_configuration"]["job_spec"]["encryption_spec"] = {"kms_key_name": key}
    job = sent(a_world(template=template, run=run).resolve())
    assert job.encryption_spec.kms_key_name == key


def test_the_fields_that_only_the_service_sets_are_fields() -> None:
    assert {field.name for field in JOB.fields} >= OUTPUT_ONLY


VARIABLES: dict[str, tuple[Path, Any]] = {
    "restart_job_on_worker_restart": (("scheduling", "restart_job_on_worker_restart"), True),
    "max_wait_duration": (("scheduling", "max_wait_duration"), "1800s"),
    "psc_interface_config": (
        ("psc_interface_config", "network_attachment"),
        "projects/p/regions/europe-west4/networkAttachments/a",
    ),
    "persistent_resource_id": (("persistent_resource_id",), "r-1"),
    "reservation_affinity": (
        ("worker_pool_specs", "machine_spec", "reservation_affinity", "reservation_affinity_type"),
        "ANY_RESERVATION",
    ),
    "tensorboard": (("tensorboard",), EXAMPLES["job_spec.tensorboard"]),
    "experiment": (("experiment",), EXAMPLES["job_spec.experiment"]),
    "base_output_directory": (("base_output_directory", "output_uri_prefix"), "gs://bucket/out"),
}
BESIDE: dict[str, dict[str, Any]] = {
    "restart_job_on_worker_restart": {"disable_retries": False},
    "max_wait_duration": {"strategy": "FLEX_START"},
    "tensorboard": {"service_account_name": EXAMPLES["job_spec.service_account"]},
}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_the_spec_reaches_the_request(a_world: AWorld, name: str) -> None:
    path, value = VARIABLES[name]
    given: Any = value
    if name in {"psc_interface_config", "reservation_affinity"}:
        given = {path[-1]: value}
    job = sent(a_world(run={**RUN, **BESIDE.get(name, {}), name: given}).resolve())
    assert has(job.job_spec, path, value)
