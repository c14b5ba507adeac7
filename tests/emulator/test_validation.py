"""What CreateCustomJob refuses; only documented and observed wordings are compared in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.validation import check_custom_job

POOL_0 = "job_spec.worker_pool_specs[0]"


@pytest.fixture
def refusal() -> Callable[[CustomJob], str]:
    """The message of the INVALID_ARGUMENT that a job gets."""

    def check(job: CustomJob) -> str:
        with pytest.raises(ApiError) as error:
            check_custom_job(job)
        assert error.value.code.name == "INVALID_ARGUMENT"
        return error.value.message

    return check


@pytest.fixture
def on_machine(
    a_job: Callable[..., CustomJob], a_pool: Callable[..., dict[str, Any]]
) -> Callable[..., CustomJob]:
    """A job of one pool with that machine spec."""

    def build(machine_type: str, accelerator: str = "", count: int = 0) -> CustomJob:
        machine = {"machine_type": machine_type, "accelerator_count": count}
        if accelerator:
            machine["accelerator_type"] = accelerator
        return a_job(pools=[{**a_pool("true"), "machine_spec": machine}])

    return build


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"display_name": ""}, "custom_job.display_name"),
        ({"display_name": "ü" * 129}, "custom_job.display_name"),
        ({"job_spec": {"worker_pool_specs": []}}, "job_spec.worker_pool_specs"),
        ({"job_spec": {"worker_pool_specs": [{}]}}, "job_spec.worker_pool_specs"),
        ({"job_spec": {"persistent_resource_id": "1up"}}, "job_spec.persistent_resource_id"),
    ],
)
def test_missing_or_malformed_field_of_the_job_is_named(
    a_job: Callable[..., CustomJob],
    refusal: Callable[[CustomJob], str],
    change: dict[str, Any],
    field: str,
) -> None:
    assert f"1.Field: {field}; Message: " in refusal(a_job("true", **change))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"replica_count": 0}, f"{POOL_0}.replica_count"),
        ({"replica_count": 2}, f"{POOL_0}.replica_count"),
        ({"machine_spec": {}}, f"{POOL_0}.machine_spec.machine_type"),
        ({"container_spec": {"command": ["true"]}}, f"{POOL_0}.container_spec.image_uri"),
    ],
)
def test_missing_or_malformed_field_of_the_first_pool_is_named(
    a_job: Callable[..., CustomJob],
    a_pool: Callable[..., dict[str, Any]],
    refusal: Callable[[CustomJob], str],
    change: dict[str, Any],
    field: str,
) -> None:
    message = refusal(a_job(pools=[{**a_pool("true"), **change}]))

    assert f"1.Field: {field}; Message: " in message


def test_pool_without_a_task_is_refused(
    a_job: Callable[..., CustomJob], refusal: Callable[[CustomJob], str]
) -> None:
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}

    assert f"1.Field: {POOL_0}; Message: " in refusal(a_job(pools=[pool]))


def test_every_field_error_is_in_one_list(
    a_job: Callable[..., CustomJob],
    a_pool: Callable[..., dict[str, Any]],
    refusal: Callable[[CustomJob], str],
) -> None:
    """Rows are numbered from one, each ends with a tab and a space."""
    pair = "Both `accelerator_type` and `accelerator_count` should be specified or none."
    machine = {"machine_type": "n1-standard-4", "accelerator_type": "NVIDIA_TESLA_T4"}
    pools = [{**a_pool("true", replica_count=n), "machine_spec": machine} for n in (1, 3)]

    assert refusal(a_job(pools=pools)) == (
        "List of found errors:\t"
        f"1.Field: {POOL_0}.machine_spec.accelerator_type; Message: {pair}\t "
        f"2.Field: job_spec.worker_pool_specs[1].machine_spec.accelerator_type; Message: {pair}\t "
    )


def test_accelerator_count_without_a_type_is_refused(
    on_machine: Callable[..., CustomJob], refusal: Callable[[CustomJob], str]
) -> None:
    assert "should be specified or none" in refusal(on_machine("n1-standard-4", count=1))


@pytest.mark.parametrize(
    ("machine_type", "accelerator", "count"),
    [
        ("n1-standard-4", "", 0),
        ("e2-standard-4", "", 0),
        ("n1-standard-4", "NVIDIA_TESLA_T4", 4),
        ("n1-standard-96", "NVIDIA_TESLA_V100", 8),
        ("g2-standard-24", "NVIDIA_L4", 2),
        ("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),
        ("a3-highgpu-1g", "NVIDIA_H100_80GB", 1),
        ("g4-standard-384", "NVIDIA_RTX_PRO_6000", 8),
        ("cloud-tpu", "TPU_V3", 8),
    ],
)
def test_machine_that_is_offered_is_accepted(
    on_machine: Callable[..., CustomJob], machine_type: str, accelerator: str, count: int
) -> None:
    check_custom_job(on_machine(machine_type, accelerator, count))


@pytest.mark.parametrize(
    ("machine_type", "accelerator", "count", "message"),
    [
        (
            "n1-standard-4", "NVIDIA_TESLA_K80", 1,
            'Accelerator "NVIDIA_TESLA_K80" is not supported for machine type "n1-standard-4"',
        ),
        (
            "e2-standard-4", "NVIDIA_TESLA_T4", 1,
            'Accelerator "NVIDIA_TESLA_T4" is not supported for machine type "e2-standard-4"',
        ),
        (
            "g2-standard-8", "NVIDIA_L4", 8,
            (
                'The accelerator count "8" is not allowed. The allowed numbers of accelerator '
                '"NVIDIA_L4" to use with machine type "g2-standard-8" are: [1].'
            ),
        ),
    ],
)  # fmt: skip
def test_impossible_machine_is_refused_in_the_observed_words(
    on_machine: Callable[..., CustomJob],
    refusal: Callable[[CustomJob], str],
    *,
    machine_type: str,
    accelerator: str,
    count: int,
    message: str,
) -> None:
    assert refusal(on_machine(machine_type, accelerator, count)) == message


def test_machine_type_that_is_not_offered_is_named(
    on_machine: Callable[..., CustomJob], refusal: Callable[[CustomJob], str]
) -> None:
    assert "n1-standard-1" in refusal(on_machine("n1-standard-1"))


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"team": "forecast", "9": "", "a-b_c": "0-_"},
        {"équipe": "prévision", "組": "予測"},
        {"k" * 63: "v" * 63},
        {f"k{n}": "v" for n in range(64)},
    ],
)
def test_legal_labels_are_accepted(a_job: Callable[..., CustomJob], labels: dict[str, str]) -> None:
    check_custom_job(a_job("true", labels=labels))


@pytest.mark.parametrize(
    "labels",
    [
        {"Team": "forecast"},
        {"team": "Forecast"},
        {"prefect.io/flow": "x"},
        {"_team": "x"},
        {"": "x"},
        {"k" * 64: "v"},
        {"k": "v" * 64},
        {"組" * 43: "v"},
        {f"k{n}": "v" for n in range(65)},
    ],
)
def test_illegal_labels_are_refused_in_the_observed_words(
    a_job: Callable[..., CustomJob], refusal: Callable[[CustomJob], str], labels: dict[str, str]
) -> None:
    assert (
        "Message: There can be no more than 64 labels attached to a single resource. Label keys "
        "and values can only contain lowercase letters, numbers, dashes and underscores."
    ) in refusal(a_job("true", labels=labels))


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "env"),
        ({"env": [{"name": f"A{n}", "value": ""} for n in range(101)]}, "env"),
        ({"env": [{"name": "9A", "value": ""}]}, "env[0].name"),
        ({"env": [{"name": "a.b", "value": ""}]}, "env[0].name"),
        ({"env": [{"name": "A", "value": "x" * 131_070}]}, "env[0].value"),
        ({"env": [{"name": "A", "value": "\0"}]}, "env[0].value"),
        ({"args": ["ok", "x" * 131_072]}, "args[1]"),
        ({"args": ["ü" * 65_536]}, "args[0]"),
    ],
)
def test_environment_and_arguments_that_no_container_can_have_are_refused(
    a_job: Callable[..., CustomJob],
    a_pool: Callable[..., dict[str, Any]],
    refusal: Callable[[CustomJob], str],
    *,
    container: dict[str, Any],
    field: str,
) -> None:
    message = refusal(a_job(pools=[a_pool("true", **container)]))

    assert f"1.Field: {POOL_0}.container_spec.{field}; Message: " in message


def test_largest_environment_and_argument_are_accepted(
    a_job: Callable[..., CustomJob], a_pool: Callable[..., dict[str, Any]]
) -> None:
    env = [{"name": f"A{n}", "value": ""} for n in range(99)]
    env.append({"name": "B", "value": "x" * 131_069})

    check_custom_job(a_job(pools=[a_pool("true", env=env, args=["x" * 131_071])]))


def test_empty_pool_keeps_the_place_of_one_that_is_not_used(
    a_job: Callable[..., CustomJob], a_pool: Callable[..., dict[str, Any]]
) -> None:
    check_custom_job(a_job(pools=[a_pool("true"), {}, a_pool("true", replica_count=2)]))


def test_python_package_is_said_to_be_beyond_the_emulator(
    a_job: Callable[..., CustomJob],
) -> None:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "python_package_spec": {
            "executor_image_uri": "image",
            "package_uris": ["gs://bucket/package.tar.gz"],
            "python_module": "trainer.task",
        },
    }

    with pytest.raises(ApiError, match="python_package_spec") as error:
        check_custom_job(a_job(pools=[pool]))

    assert error.value.code.name == "UNIMPLEMENTED"
