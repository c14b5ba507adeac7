"""The machine table and how it judges."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types

from prefect_vertex.errors import MachineSpecError, PlanError
from prefect_vertex.planning.machines import MACHINES, SOURCE, TABLE_DATE, check_machine
from prefect_vertex.planning.tpu import TABLE_DATE as TPU_TABLE_DATE
from prefect_vertex.planning.tpu import TPU_TOPOLOGIES, is_tpu_pod

ACCELERATORS = {name: item.value for name, item in types.AcceleratorType.__members__.items()}


def judged(*, warn_only: bool = False, **spec: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    return check_machine(spec, ACCELERATORS, warn_only=warn_only)


def test_every_accelerator_of_the_table_is_one_the_client_knows() -> None:
    assert {kind for kinds in MACHINES.values() for kind in kinds} <= set(ACCELERATORS)


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_all_pairs_of_the_table_pass_without_a_word(machine: str) -> None:
    """But for the P100, which Vertex AI has announced the end of."""
    for kind, counts in MACHINES[machine].items():
        for count in counts:
            spec, warnings = judged(
                machine_type=machine,
                accelerator_type=kind,
                accelerator_count=count,
            )
            assert (spec["accelerator_type"], spec["accelerator_count"]) == (kind, count)
            assert bool(warnings) == (kind == "NVIDIA_TESLA_P100")


def test_the_tables_have_a_source_and_a_date() -> None:
    assert SOURCE.startswith("https://")
    for text in (TABLE_DATE, TPU_TABLE_DATE):
        assert date.fromisoformat(text) > date(2026, 1, 1)


def test_no_machine_type_is_n1_standard_4() -> None:
    assert judged() == ({"machine_type": "n1-standard-4"}, ())


@pytest.mark.parametrize(
    ("machine", "kind", "count", "words"),
    [
        ("n1-standard-4", "NVIDIA_L4", 1, "needs a machine of family g2"),
        ("n1-standard-4", "NVIDIA_TESLA_T4", 3, "counts of 1, 2 or 4"),
        ("n1-standard-16", "NVIDIA_TESLA_V100", 1, "counts of 2, 4 or 8"),
        ("g2-standard-8", "NVIDIA_L4", 8, "in counts of 1;"),
        ("a2-highgpu-1g", "NVIDIA_A100_80GB", 1, "family a2"),
        ("e2-standard-4", "NVIDIA_TESLA_T4", 1, "family n1"),
        ("a3-highgpu-8g", "NVIDIA_H200_141GB", 8, "family a3"),
        ("n1-standard-4", "NVIDIA_TESLA_K80", 1, "no longer offered"),
    ],
)
def test_an_impossible_pair_is_refused_with_what_is_allowed(
    machine: str,
    kind: str,
    count: int,
    words: str,
) -> None:
    with pytest.raises(MachineSpecError) as caught:
        judged(machine_type=machine, accelerator_type=kind, accelerator_count=count)
    assert words in caught.value.message
    assert caught.value.hint.endswith("set validate_hardware to warn.")
    assert "\n" not in str(caught.value)


def test_the_hint_lists_machines_that_take_that_accelerator() -> None:
    with pytest.raises(MachineSpecError, match="g2-standard-4, g2-standard-8"):
        judged(machine_type="n1-standard-4", accelerator_type="NVIDIA_L4", accelerator_count=1)


def test_warn_sends_an_impossible_pair() -> None:
    spec, warnings = judged(
        machine_type="n1-standard-4",
        accelerator_type="NVIDIA_L4",
        accelerator_count=1,
        warn_only=True,
    )
    assert spec["accelerator_type"] == "NVIDIA_L4"
    assert "It is sent because validate_hardware is warn." in warnings[0]


@pytest.mark.parametrize("machine", ["z9-standard-4", "n1-standard-1", "g2-standard-128"])
def test_a_machine_newer_than_the_table_passes_with_a_warning(machine: str) -> None:
    spec, warnings = judged(
        machine_type=machine,
        accelerator_type="NVIDIA_L4",
        accelerator_count=1,
    )
    assert spec["machine_type"] == machine
    assert f"{machine} is not in the table" in warnings[0]


def test_an_accelerator_newer_than_the_table_passes_with_a_warning() -> None:
    _, warnings = check_machine(
        {"accelerator_type": "NVIDIA_R300", "accelerator_count": 4},
        {**ACCELERATORS, "NVIDIA_R300": 99},
    )
    assert "NVIDIA_R300 is not in the table" in warnings[0]


def test_a_partitioned_gpu_is_not_judged_by_count() -> None:
    _, warnings = judged(
        machine_type="a2-highgpu-4g",
        accelerator_type="NVIDIA_TESLA_A100",
        accelerator_count=1,
        gpu_partition_size="1g.5gb",
    )
    assert "gpu_partition_size" in warnings[0]


@pytest.mark.parametrize(
    ("written", "closest"),
    [
        ("NVIDIA_TESLA_T44", "NVIDIA_TESLA_T4"),
        ("T4", "NVIDIA_TESLA_T4"),
        ("l4", "NVIDIA_L4"),
        ("A100_80GB", "NVIDIA_A100_80GB"),
        ("H200", "NVIDIA_H200_141GB"),
        ("nvidia-b2000", "NVIDIA_B200"),
    ],
)
def test_an_unknown_accelerator_names_the_closest_known_one(written: str, closest: str) -> None:
    with pytest.raises(MachineSpecError, match=f"closest is {closest}") as caught:
        judged(accelerator_type=written, accelerator_count=1)
    assert caught.value.variable == "accelerator_type"


def test_warn_does_not_help_an_accelerator_that_cannot_be_sent() -> None:
    with pytest.raises(MachineSpecError):
        judged(accelerator_type="NVIDIA_NONE", accelerator_count=1, warn_only=True)


@pytest.mark.parametrize("written", ["nvidia-tesla-t4", "NVIDIA_TESLA_T4", 5, "5"])
def test_an_accelerator_is_taken_in_any_case_or_by_number(written: object) -> None:
    spec, _ = judged(accelerator_type=written, accelerator_count="1")
    assert spec["accelerator_type"] == "NVIDIA_TESLA_T4"
    assert spec["accelerator_count"] == 1


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        ({"accelerator_type": "NVIDIA_TESLA_T4"}, "accelerator_count"),
        ({"accelerator_type": "NVIDIA_TESLA_T4", "accelerator_count": 0}, "accelerator_count"),
        ({"accelerator_count": 2}, "accelerator_type"),
        ({"machine_type": "new-1", "accelerator_count": 2}, "accelerator_type"),
    ],
)
def test_type_and_count_go_together(spec: dict[str, Any], variable: str) -> None:
    with pytest.raises(MachineSpecError) as caught:
        judged(**spec)
    assert caught.value.variable == variable


@pytest.mark.parametrize(
    "spec",
    [
        {"accelerator_count": 0},
        {"accelerator_type": "", "accelerator_count": None},
        {"accelerator_type": "ACCELERATOR_TYPE_UNSPECIFIED"},
        {"accelerator_type": 0},
    ],
)
def test_none_of_both_is_no_accelerator(spec: dict[str, Any]) -> None:
    assert judged(**spec) == ({"machine_type": "n1-standard-4"}, ())


def test_a_gpu_machine_without_its_gpu_warns() -> None:
    _, warnings = judged(machine_type="g2-standard-24")
    assert warnings[0].startswith("g2-standard-24 comes with 2 NVIDIA_L4")


@pytest.mark.parametrize("machine", TPU_TOPOLOGIES)
def test_all_topologies_of_the_table_pass_without_a_word(machine: str) -> None:
    assert judged(machine_type=machine)[1] == ()
    for topology in TPU_TOPOLOGIES[machine]:
        assert judged(machine_type=machine, tpu_topology=topology)[1] == ()


@pytest.mark.parametrize("kind", ["TPU_V2", "TPU_V3"])
@pytest.mark.parametrize("count", [8, 32, 128])
def test_a_cloud_tpu_takes_eight_cores_or_a_pod(kind: str, count: int) -> None:
    spec: dict[str, Any] = {"machine_type": "cloud-tpu", "accelerator_type": kind}
    spec["accelerator_count"] = count
    assert judged(**spec) == (spec, ())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"machine_type": "ct5lp-hightpu-1t", "tpu_topology": "2x2"}, "takes tpu_topology 1x1;"),
        ({"machine_type": "ct6e-standard-8t", "tpu_topology": "4x4"}, "takes tpu_topology 2x4;"),
        ({"machine_type": "tpu7x-standard-4t", "tpu_topology": "2x2"}, "2x2x1, 2x2x2"),
        ({"machine_type": "cloud-tpu"}, "accelerator_type is not set"),
        (
            {"machine_type": "cloud-tpu", "accelerator_type": "TPU_V3", "accelerator_count": 4},
            "counts of 8, or 32",
        ),
        (
            {
                "machine_type": "ct6e-standard-1t",
                "accelerator_type": "NVIDIA_L4",
                "accelerator_count": 1,
            },
            "is a TPU host; accelerator_type is NVIDIA_L4",
        ),
        (
            {"machine_type": "n1-standard-4", "accelerator_type": "TPU_V2", "accelerator_count": 8},
            "TPU_V2 needs a TPU host",
        ),
    ],
)
def test_an_impossible_tpu_is_refused_with_what_is_allowed(
    spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(MachineSpecError) as caught:
        judged(**spec)
    assert words in caught.value.message
    assert "set validate_hardware to warn" in caught.value.hint
    assert "because validate_hardware is warn" in judged(warn_only=True, **spec)[1][0]


def test_a_tpu_newer_than_the_table_passes_with_a_warning() -> None:
    _, warnings = judged(machine_type="tpu8x-standard-4t", tpu_topology="2x2x1")
    assert "tpu8x-standard-4t is not in the table" in warnings[0]


@pytest.mark.parametrize(
    ("spec", "is_pod"),
    [
        ({"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x2"}, False),
        ({"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x4"}, True),
        ({"machine_type": "ct5lp-hightpu-8t", "tpu_topology": "2x4"}, False),
        ({"machine_type": "tpu7x-standard-4t", "tpu_topology": "2x2x1"}, False),
        ({"machine_type": "tpu7x-standard-4t", "tpu_topology": "2x2x2"}, True),
        ({"machine_type": "cloud-tpu", "accelerator_count": 8}, False),
        ({"machine_type": "cloud-tpu", "accelerator_count": 32}, True),
        ({"machine_type": "ct6e-standard-4t"}, False),
        ({"machine_type": "n1-standard-4"}, False),
    ],
)
def test_a_tpu_of_several_hosts_is_a_pod(spec: dict[str, Any], is_pod: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_tpu_pod(spec) is is_pod


def test_a_count_that_is_no_number_is_refused() -> None:
    with pytest.raises(PlanError, match="accelerator_count is 'two', expected a whole number"):
        judged(accelerator_type="NVIDIA_TESLA_T4", accelerator_count="two")


def test_judging_changes_nothing_that_it_is_given() -> None:
    spec = {"accelerator_type": "nvidia-tesla-t4", "accelerator_count": "1"}
    check_machine(spec, ACCELERATORS)
    assert spec == {"accelerator_type": "nvidia-tesla-t4", "accelerator_count": "1"}
