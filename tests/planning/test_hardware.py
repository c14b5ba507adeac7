"""What `hardware`, `gpu_type` and `accelerator_count` choose, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types

from prefect_vertex.errors import MachineSpecError, PlanError
from prefect_vertex.planning.hardware import GPU_TYPES, resolve_machine
from prefect_vertex.planning.machines import (
    ACCELERATORS,
    MACHINES,
    check_machine,
    counts_of,
    machines_with,
)

KNOWN = {name: item.value for name, item in types.AcceleratorType.__members__.items()}


def resolved(
    hardware: str | None = None,
    gpu_type: str | None = None,
    *,
    warn_only: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    return resolve_machine(spec, hardware=hardware, gpu_type=gpu_type, warn_only=warn_only)[0]


def refused(hardware: str | None = None, gpu_type: str | None = None, **spec: Any) -> PlanError:
    with pytest.raises(PlanError) as caught:
        resolved(hardware, gpu_type, **spec)
    assert "\n" not in str(caught.value)
    return caught.value


def test_every_gpu_of_the_table_has_a_short_name() -> None:
    assert set(GPU_TYPES.values()) == set(ACCELERATORS)


@pytest.mark.parametrize("gpu_type", GPU_TYPES)
def test_what_a_gpu_type_resolves_to_is_allowed_by_the_table(gpu_type: str) -> None:
    for count in counts_of(GPU_TYPES[gpu_type]):
        spec = resolved(None, gpu_type, accelerator_count=count)
        check_machine(spec, KNOWN)
        assert spec["accelerator_type"] == GPU_TYPES[gpu_type]
        assert spec["accelerator_count"] == count


@pytest.mark.parametrize(
    ("gpu_type", "count", "machine"),
    [
        ("T4", 1, "n1-standard-8"),
        ("T4", 2, "n1-standard-8"),
        ("T4", 4, "n1-standard-16"),
        ("V100", 8, "n1-standard-16"),
        ("L4", 1, "g2-standard-8"),
        ("L4", 2, "g2-standard-24"),
        ("L4", 4, "g2-standard-48"),
        ("L4", 8, "g2-standard-96"),
        ("A100", 2, "a2-highgpu-2g"),
        ("A100", 16, "a2-megagpu-16g"),
        ("A100_80GB", 4, "a2-ultragpu-4g"),
        ("H100", 1, "a3-highgpu-1g"),
        ("H100_MEGA", None, "a3-megagpu-8g"),
        ("H200", None, "a3-ultragpu-8g"),
        ("B200", None, "a4-highgpu-8g"),
        ("GB200", None, "a4x-highgpu-4g"),
        ("RTX_PRO_6000", 2, "g4-standard-96"),
    ],
)
def test_the_usual_machine_of_each_gpu(gpu_type: str, count: int | None, machine: str) -> None:
    assert resolved("gpu", gpu_type, accelerator_count=count)["machine_type"] == machine


@pytest.mark.parametrize(
    "written", ["l4", "NVIDIA_L4", " L4 ", "nvidia-l4", "a100-80gb", "h100_80gb", "rtx pro"]
)
def test_a_gpu_type_is_taken_in_any_spelling(written: str) -> None:
    spec = resolved(None, written)
    assert spec["machine_type"] in machines_with(spec["accelerator_type"])


def test_gpu_alone_is_one_t4() -> None:
    assert resolved("gpu") == {
        "machine_type": "n1-standard-8",
        "accelerator_type": "NVIDIA_TESLA_T4",
        "accelerator_count": 1,
    }


def test_cpu_alone_is_a_machine_without_gpu() -> None:
    assert resolved("cpu") == {"machine_type": "n2-standard-8"}
    assert MACHINES["n2-standard-8"] == {}


@pytest.mark.parametrize("given", [{}, {"machine_type": "x"}, {"accelerator_count": 2}])
def test_without_the_variables_a_machine_spec_stays_as_it_is(given: dict[str, Any]) -> None:
    assert resolved(**given) == given


@pytest.mark.parametrize(
    ("variables", "spec", "expected"),
    [
        (("gpu", "T4"), {"machine_type": "n1-highmem-2"}, ("n1-highmem-2", "NVIDIA_TESLA_T4", 1)),
        (("gpu", None), {"machine_type": "g2-standard-24"}, ("g2-standard-24", "NVIDIA_L4", 2)),
        (("gpu", None), {"machine_type": "a4-highgpu-8g"}, ("a4-highgpu-8g", "NVIDIA_B200", 8)),
        (
            ("gpu", "T4"),
            {"accelerator_type": "NVIDIA_L4"},
            ("g2-standard-8", "NVIDIA_L4", 1),
        ),
        (("cpu", None), {"machine_type": "e2-highmem-4"}, ("e2-highmem-4", None, None)),
        (("cpu", None), {"accelerator_count": 0}, ("n2-standard-8", None, None)),
    ],
)
def test_an_explicit_machine_or_accelerator_wins(
    variables: tuple[str, str | None],
    spec: dict[str, Any],
    expected: tuple[object, ...],
) -> None:
    found = resolved(*variables, **spec)
    keys = ("machine_type", "accelerator_type", "accelerator_count")
    assert tuple(found.get(key) for key in keys) == expected


def test_a_gpu_type_that_does_not_win_is_a_warning() -> None:
    spec = {"accelerator_type": "NVIDIA_L4"}
    _, warnings = resolve_machine(spec, hardware=None, gpu_type="T4")
    assert warnings == ("accelerator_type NVIDIA_L4 is used; gpu_type is T4.",)


@pytest.mark.parametrize(
    ("variables", "spec", "variable", "words"),
    [
        (("cpu", "T4"), {}, "gpu_type", "hardware is cpu, but gpu_type is T4."),
        (("cpu", None), {"accelerator_count": 2}, "accelerator_count", "accelerator_count is 2"),
        (("cpu", None), {"accelerator_type": "NVIDIA_L4"}, "accelerator_type", "is NVIDIA_L4"),
        (("cpu", None), {"machine_type": "g2-standard-8"}, "machine_type", "with 1 NVIDIA_L4"),
        (("cpu", None), {"machine_type": "cloud-tpu"}, "machine_type", "is a TPU host"),
        (("gpu", None), {"machine_type": "ct6e-standard-4t"}, "machine_type", "is a TPU host"),
        (("gpu", "T4"), {"accelerator_count": 0}, "accelerator_count", "accelerator_count is 0"),
        (("gpu", "T4"), {"accelerator_count": 3}, "accelerator_count", "counts of 1, 2 or 4"),
        (("gpu", "B200"), {"accelerator_count": 1}, "accelerator_count", "counts of 8;"),
        ((None, "T44"), {}, "gpu_type", "the closest is T4"),
        ((None, "L40S"), {"machine_type": "g2-standard-8"}, "gpu_type", "not in the table"),
        (("gpu", None), {"accelerator_type": "NVIDIA_R300"}, "machine_type", "no machine is known"),
        (("gpu", "T4"), {"accelerator_count": "two"}, "accelerator_count", "whole number"),
    ],
)
def test_what_contradicts_itself_is_refused_with_what_is_allowed(
    variables: tuple[str | None, str | None],
    spec: dict[str, Any],
    variable: str,
    words: str,
) -> None:
    error = refused(*variables, **spec)
    assert error.variable == variable
    assert words in error.message


def test_a_refused_gpu_type_names_all_that_there_are() -> None:
    assert "P4, P100, T4, V100, L4, A100, A100_80GB, H100" in refused("cpu", "T4").hint
    assert "P4, P100, T4, V100, L4, A100, A100_80GB, H100" in refused(None, "T44").hint


@pytest.mark.parametrize(
    ("variables", "spec", "sent"),
    [
        (("cpu", "T4"), {}, {"machine_type": "n2-standard-8"}),
        (("gpu", "T4"), {"accelerator_count": 3}, {"accelerator_count": 3}),
        ((None, "L40S"), {"machine_type": "g2-standard-8"}, {"accelerator_type": "NVIDIA_L40S"}),
        (("cpu", None), {"machine_type": "g2-standard-8"}, {"machine_type": "g2-standard-8"}),
    ],
)
def test_warn_sends_anything_with_a_warning(
    variables: tuple[str | None, str | None],
    spec: dict[str, Any],
    sent: dict[str, Any],
) -> None:
    hardware, gpu_type = variables
    found, warnings = resolve_machine(spec, hardware=hardware, gpu_type=gpu_type, warn_only=True)
    assert found.items() >= sent.items()
    assert "It is sent because validate_hardware is warn." in warnings[-1]


def test_a_gpu_newer_than_the_table_passes_on_a_machine_that_is_newer_too() -> None:
    spec = resolved(None, "R300", machine_type="r3-standard-8")
    _, warnings = check_machine(spec, {**KNOWN, "NVIDIA_R300": 99})
    assert spec["accelerator_type"] == "NVIDIA_R300"
    assert "r3-standard-8 is not in the table" in warnings[0]


def test_resolving_changes_nothing_that_it_is_given() -> None:
    spec = {"machine_type": None, "accelerator_count": None}
    resolve_machine(spec, hardware="gpu", gpu_type="L4")
    assert spec == {"machine_type": None, "accelerator_count": None}


def test_a_contradiction_is_a_machine_spec_error() -> None:
    assert isinstance(refused("cpu", "T4"), MachineSpecError)
