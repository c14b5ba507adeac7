"""The walk from plain values to a message, and the proof that it reaches every field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.fields import check_keys, message_values, without_nulls

SPEC: Descriptor = types.CustomJobSpec.pb(types.CustomJobSpec()).DESCRIPTOR


def values(given: object) -> dict[str, Any]:
    return message_values(SPEC, given, "job_spec")


def leaves(
    descriptor: Descriptor,
    path: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], FieldDescriptor]]:
    """Every scalar, enum and duration at or below a message, by its path of field names."""
    for field in descriptor.fields:
        here = (*path, field.name)
        message = field.message_type
        if message is None or message.full_name == "google.protobuf.Duration":
            yield here, field
        else:
            yield from leaves(message, here)


def example(field: FieldDescriptor) -> Any:
    """A value that is not the field's default."""
    if field.message_type is not None:
        return "90s"
    if field.enum_type is not None:
        return field.enum_type.values[-1].name
    return {FieldDescriptor.TYPE_BOOL: True, FieldDescriptor.TYPE_STRING: "text"}.get(field.type, 7)


def spec_with(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A job spec with this one field set, in lists where the message has them."""
    descriptor, fields = SPEC, []
    for name in path:
        field = descriptor.fields_by_name[name]
        fields.append(field)
        descriptor = field.message_type or descriptor
    for field in reversed(fields):
        value = {field.name: [value] if field.is_repeated else value}
    assert isinstance(value, dict)
    return value


LEAVES = dict(leaves(SPEC))


def test_the_walk_knows_the_messages_it_should() -> None:
    tops = {path[:2] for path in LEAVES} | {path[:3] for path in LEAVES}
    assert ("worker_pool_specs", "container_spec", "env") in tops
    assert ("worker_pool_specs", "python_package_spec", "package_uris") in tops
    assert ("worker_pool_specs", "machine_spec", "reservation_affinity") in tops
    assert ("worker_pool_specs", "nfs_mounts", "server") in tops
    assert ("worker_pool_specs", "lustre_mounts", "filesystem") in tops
    assert ("psc_interface_config", "dns_peering_configs", "domain") in tops


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_every_field_of_the_installed_client_reaches_the_message(path: tuple[str, ...]) -> None:
    """A field of a new client release is walked too, so it cannot vanish unseen."""
    given = spec_with(path, example(LEAVES[path]))
    message = types.CustomJobSpec(values(given))
    sent = MessageToDict(types.CustomJobSpec.pb(message), preserving_proto_field_name=True)
    for name in path:
        sent = sent[name]
        sent = sent[0] if isinstance(sent, list) else sent
    assert sent in {example(LEAVES[path]), str(example(LEAVES[path]))}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"netwrk": "x"}, "job_spec has no field 'netwrk'; the closest is 'network'"),
        (
            {"worker_pool_specs": [{}, {"machineSpec": {}}]},
            r"worker_pool_specs\[1\] has no field 'machineSpec'; the closest is 'machine_spec'",
        ),
        (
            {"worker_pool_specs": [{"machine_spec": {"gpu": 1}}]},
            r"worker_pool_specs\[0\]\.machine_spec has no field 'gpu'",
        ),
        ({"scheduling": {"time_out": 1}}, "scheduling has no field 'time_out'.*'timeout'"),
        ({"psc_interface_config": {"x": None}}, "psc_interface_config has no field 'x'"),
    ],
)
def test_an_unknown_key_is_named_with_its_path_and_the_closest(given: Any, words: str) -> None:
    for walk in (values, lambda spec: check_keys(SPEC, spec, "job_spec")):
        with pytest.raises(PlanError, match=words) as caught:
            walk(given)
        assert caught.value.variable == "job_spec"


@pytest.mark.parametrize(
    ("given", "words", "variable"),
    [
        ({"network": 3}, "network is 3, expected text", "network"),
        ({"enable_web_access": "yes"}, "expected true or false", "enable_web_access"),
        ({"scheduling": "SPOT"}, "scheduling is 'SPOT', expected a mapping", "scheduling"),
        ({"reserved_ip_ranges": "a"}, "is 'a', expected a list", "reserved_ip_ranges"),
        (
            {"worker_pool_specs": [{"disk_spec": {"boot_disk_size_gb": 1.5}}]},
            "boot_disk_size_gb is 1.5, expected a whole number",
            "boot_disk_size_gb",
        ),
        (
            {"worker_pool_specs": [{"container_spec": {"image_uri": ["a"]}}]},
            "expected text",
            "image",
        ),
        ({"scheduling": {"strategy": "SPOTT"}}, "closest is SPOT", "strategy"),
        ([], "job_spec is .*, expected a mapping", "job_spec"),
    ],
)
def test_a_value_of_another_type_is_refused(given: Any, words: str, variable: str) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        values(given)
    assert caught.value.variable == variable
    assert "\n" not in str(caught.value)


def test_two_tasks_in_one_pool_are_refused() -> None:
    pool = {"container_spec": {"image_uri": "i"}, "python_package_spec": {"python_module": "m"}}
    with pytest.raises(PlanError, match="both container_spec and python_package_spec"):
        values({"worker_pool_specs": [pool]})


def test_numbers_and_truths_may_be_written_as_text() -> None:
    assert values(
        {
            "enable_web_access": "True",
            "worker_pool_specs": [{"replica_count": "3", "disk_spec": {"boot_disk_size_gb": 1e2}}],
        },
    ) == {
        "enable_web_access": True,
        "worker_pool_specs": [{"replica_count": 3, "disk_spec": {"boot_disk_size_gb": 100}}],
    }


@pytest.mark.parametrize("written", ["spot", "Spot", 4, "4"])
def test_an_enum_is_taken_in_any_case_or_by_number(written: object) -> None:
    assert values({"scheduling": {"strategy": written}}) == {"scheduling": {"strategy": 4}}


def test_a_number_newer_than_the_enum_is_sent() -> None:
    message = types.CustomJobSpec(values({"scheduling": {"strategy": 99}}))
    sent = MessageToDict(types.CustomJobSpec.pb(message), preserving_proto_field_name=True)
    assert sent["scheduling"]["strategy"] == 99


def test_a_duration_is_read() -> None:
    assert values({"scheduling": {"max_wait_duration": "PT1H"}}) == {
        "scheduling": {"max_wait_duration": timedelta(hours=1)},
    }


def test_a_map_field_is_a_mapping_of_its_values() -> None:
    job: Descriptor = types.CustomJob.pb(types.CustomJob()).DESCRIPTOR
    assert message_values(job, {"labels": {"a": "b"}}, "job") == {"labels": {"a": "b"}}
    with pytest.raises(PlanError, match=re.escape("job.labels is ['a'], expected a mapping")):
        message_values(job, {"labels": ["a"]}, "job")


def test_nulls_and_what_they_empty_are_dropped_but_pools_keep_their_place() -> None:
    given = {
        "network": None,
        "base_output_directory": {"output_uri_prefix": None},
        "worker_pool_specs": [{"disk_spec": {}, "replica_count": 1}, None, {}],
    }
    assert without_nulls(given) == {"worker_pool_specs": [{"replica_count": 1}, {}, {}]}
    assert given["network"] is None
