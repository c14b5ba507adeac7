"""What one replica runs at once, from its machine and what a unit of work was measured to need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.planning.machines import MACHINES
from prefect_vertex.planning.shapes import GIB, Shape, shape_of
from prefect_vertex.planning.sizing import (
    WorkProfile,
    plan_machine,
    plan_slots,
    usable_memory,
)
from prefect_vertex.planning.tpu import TPU_TOPOLOGIES

T4 = {"accelerator_type": "NVIDIA_TESLA_T4"}


@pytest.mark.parametrize(
    ("machine", "cores", "gib"),
    [
        ("n1-standard-4", 4, 15),
        ("n1-highcpu-16", 16, 14.4),
        ("n1-highmem-2", 2, 13),
        ("n2-standard-8", 8, 32),
        ("e2-highcpu-16", 16, 16),
        ("n4-highcpu-16", 16, 32),
        ("c2-standard-30", 30, 120),
        ("m1-ultramem-40", 40, 961),
        ("m1-megamem-96", 96, 1433.6),
        ("g2-standard-96", 96, 384),
        ("g4-standard-48", 48, 180),
        ("a2-highgpu-1g", 12, 85),
        ("a2-megagpu-16g", 96, 1360),
        ("a2-ultragpu-8g", 96, 1360),
        ("a3-highgpu-8g", 208, 1872),
        ("a3-ultragpu-8g", 224, 2952),
        ("a4-highgpu-8g", 224, 3968),
        ("a4x-highgpu-4g", 140, 884),
        ("ct6e-standard-4t", 180, 720),
    ],
)
def test_a_machine_has_what_google_says(machine: str, cores: int, gib: float) -> None:
    shape = shape_of(machine)
    assert shape.cores == cores
    assert shape.memory_bytes is not None
    assert shape.memory_bytes / GIB == pytest.approx(gib, abs=0.01)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_of_the_catalogue_has_a_shape(machine: str) -> None:
    shape = shape_of(machine)
    assert shape.cores
    assert shape.memory_bytes


@pytest.mark.parametrize(
    ("machine", "shape"),
    [
        ("n9-standard-16", Shape(16)),
        ("n2-custom-8-16384", Shape()),
        ("x9-strangegpu-8g", Shape()),
        ("c9-weird-8", Shape()),
        ("cloud-tpu", Shape()),
        ("n1-standard-0", Shape()),
        ("", Shape()),
    ],
)
def test_of_a_machine_that_is_not_known_nothing_is_made_up(machine: str, shape: Shape) -> None:
    assert shape_of(machine) == shape


@pytest.mark.parametrize(
    ("gib", "share"),
    [(4, 0.55), (15, 0.55), (16, 0.55), (16.01, 0.65), (32, 0.65), (32.01, 0.7), (1360, 0.7)],
)
def test_the_agents_take_a_larger_part_of_a_smaller_machine(gib: float, share: float) -> None:
    memory = int(gib * GIB)
    assert usable_memory(memory) == int(memory * share)


STATIC: dict[str, tuple[dict[str, Any], int, int, int, str]] = {
    "n2-standard-8": ({"machine_type": "n2-standard-8"}, 7, 1, 3042, "cores"),
    "n1-standard-4": ({"machine_type": "n1-standard-4"}, 3, 1, 2816, "cores"),
    "n1-standard-4 where none is named": ({}, 3, 1, 2816, "cores"),
    "n1-highcpu-16": ({"machine_type": "n1-highcpu-16"}, 7, 2, 1158, "memory"),
    "e2-highcpu-32": ({"machine_type": "e2-highcpu-32"}, 20, 1, 1064, "memory"),
    "n1-highmem-2": ({"machine_type": "n1-highmem-2"}, 1, 1, 7321, "cores"),
    "one T4": (
        {"machine_type": "n1-standard-8", **T4, "accelerator_count": 1},
        *(1, 7, 19968, "accelerators"),
    ),
    "four T4": (
        {"machine_type": "n1-standard-16", **T4, "accelerator_count": 4},
        *(4, 3, 10752, "accelerators"),
    ),
    "built in, not asked for": ({"machine_type": "a2-highgpu-2g"}, 2, 11, 60928, "accelerators"),
    "a TPU host is one process's": (
        {"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x2"},
        *(1, 111, 137625, "accelerators"),
    ),
}


@pytest.mark.parametrize(
    ("spec", "slots", "cores", "megabytes", "axis"), STATIC.values(), ids=STATIC
)
def test_the_slots_of_a_machine(
    spec: dict[str, Any], slots: int, cores: int, megabytes: int, axis: str
) -> None:
    plan = plan_machine(spec)
    shown = plan.as_json()
    assert (plan.slots, plan.slot_cores, plan.binding_axis) == (slots, cores, axis)
    assert shown["slot_memory_mb"] == pytest.approx(megabytes, abs=1)


def test_an_axis_that_is_not_known_does_not_count() -> None:
    plan = plan_machine({"machine_type": "n9-standard-8"})
    assert (plan.slots, plan.binding_axis) == (7, "cores")
    assert (plan.memory_bytes, plan.slot_memory_bytes) == (None, None)
    only_gpus = plan_machine({"machine_type": "x9-gpu-1", "accelerator_count": 4})
    assert (only_gpus.slots, only_gpus.slot_cores) == (4, None)


def test_a_machine_of_which_nothing_is_known_leaves_the_slots_open() -> None:
    plan = plan_machine({"machine_type": "c9-weird-8"})
    assert (plan.slots, plan.binding_axis) == (None, "unknown")
    assert (plan.slot_cores, plan.slot_memory_bytes) == (None, None)


@pytest.mark.parametrize(
    ("profile", "slots", "axis"),
    [
        (WorkProfile(cores=0.9), 7, "cores"),
        (WorkProfile(cores=1.04), 7, "cores"),
        (WorkProfile(cores=1.5), 3, "cores"),
        (WorkProfile(cores=30), 1, "cores"),
        (WorkProfile(peak_memory_bytes=5 * GIB), 3, "memory"),
        (WorkProfile(peak_memory_bytes=GIB // 8), 7, "cores"),
        (WorkProfile(peak_memory_bytes=100 * GIB), 1, "memory"),
        (WorkProfile(cores=2, peak_memory_bytes=7 * GIB), 2, "memory"),
        (WorkProfile(seconds_per_unit=5), 7, "cores"),
    ],
)
def test_a_measured_unit_changes_the_slots(profile: WorkProfile, slots: int, axis: str) -> None:
    plan = plan_machine({"machine_type": "n2-standard-8"}, profile)
    assert (plan.slots, plan.binding_axis) == (slots, axis)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_profile_the_plan_is_the_static_one(machine: str) -> None:
    static = plan_machine({"machine_type": machine})
    assert plan_machine({"machine_type": machine}, None) == static
    assert plan_machine({"machine_type": machine}, WorkProfile()) == static


SHAPES = st.builds(
    Shape, st.none() | st.integers(1, 400), st.none() | st.integers(1, 4000).map(lambda n: n * GIB)
)
PROFILES = st.none() | st.builds(
    WorkProfile,
    cores=st.none() | st.floats(0.01, 500),
    peak_memory_bytes=st.none() | st.integers(1, 5000 * GIB),
)


@given(SHAPES, st.integers(0, 16), PROFILES)
def test_the_slots_together_never_use_more_than_there_is(
    shape: Shape, accelerators: int, profile: WorkProfile | None
) -> None:
    plan = plan_slots(shape, accelerators, profile)
    known = shape.cores is not None or shape.memory_bytes is not None or bool(accelerators)
    assert (plan.slots is not None) == known
    slots = plan.slots or 1
    assert slots >= 1
    if shape.cores is not None and plan.slot_cores is not None:
        assert slots * plan.slot_cores <= max(1, shape.cores - 1) or slots > shape.cores - 1
    if shape.memory_bytes is not None and plan.slot_memory_bytes is not None:
        assert slots * plan.slot_memory_bytes <= usable_memory(shape.memory_bytes)
    if accelerators:
        assert slots <= accelerators


@given(SHAPES, st.integers(0, 16), PROFILES)
def test_more_of_an_axis_never_makes_fewer_slots(
    shape: Shape, accelerators: int, profile: WorkProfile | None
) -> None:
    plan = plan_slots(shape, accelerators, profile)
    if shape.cores is not None and plan.slots is not None:
        wider = plan_slots(replace(shape, cores=shape.cores + 1), accelerators, profile)
        assert (wider.slots or 0) >= plan.slots


def test_the_expected_time_is_rounds_of_units_with_a_margin() -> None:
    plan = plan_machine({"machine_type": "n2-standard-8"}, WorkProfile(seconds_per_unit=10))
    assert plan.expected_seconds(14) == pytest.approx(2 * 12)
    assert plan.expected_seconds(15, replicas=2) == pytest.approx(2 * 12)
    assert plan.expected_seconds(0) == 0
    assert plan_machine({}).expected_seconds(5) is None


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_profile_holds_only_what_can_be_measured(value: float) -> None:
    with pytest.raises(ValueError, match="expected more than 0"):
        WorkProfile(cores=value)


def test_the_table_of_shapes_knows_the_tpu_hosts_that_it_has_figures_for() -> None:
    unknown = {machine for machine in TPU_TOPOLOGIES if shape_of(machine).cores is None}
    assert unknown == {"tpu7x-standard-4t"}
