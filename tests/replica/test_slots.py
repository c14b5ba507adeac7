"""How many units run at once: the plan's number, clamped by what the container really has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.sizing import WorkProfile
from prefect_vertex.replica.slots import LocalSlots, local_slots, slots_here, visible_devices

GIB = 2**30
PLAN = {
    "PREFECT_VERTEX_SLOTS": "7",
    "PREFECT_VERTEX_SLOT_CORES": "1",
    "PREFECT_VERTEX_SLOT_MEMORY_MB": "3042",
}
FOUR = {**PLAN, "PREFECT_VERTEX_SLOTS": "3", "PREFECT_VERTEX_SLOT_CORES": "2"}

# cgroup version 2 as a container sees it: its own is the top one.
V2 = "sys/fs/cgroup"
V1 = {"memory": "sys/fs/cgroup/memory", "cpu": "sys/fs/cgroup/cpu,cpuacct"}
V1_SELF = "5:memory:/kubepods/pod1/c1\n4:cpu,cpuacct:/kubepods/pod1/c1\n1:name=systemd:/\n"


def a_root(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    return folder


CLAMPED: dict[str, tuple[dict[str, str], dict[str, str], int, LocalSlots]] = {
    "nothing less": (PLAN, {}, 8, LocalSlots(7, 1)),
    "more than was planned for": (PLAN, {}, 64, LocalSlots(7, 1)),
    "fewer CPUs": (PLAN, {}, 4, LocalSlots(3, 1)),
    "one CPU": (PLAN, {}, 1, LocalSlots(1, 1)),
    "v2, no limits": (
        PLAN,
        {f"{V2}/cpu.max": "max 100000", f"{V2}/memory.max": "max"},
        8,
        LocalSlots(7, 1),
    ),
    "v2, CPU quota": (PLAN, {f"{V2}/cpu.max": "400000 100000"}, 8, LocalSlots(3, 1)),
    "v2, all but what the platform takes": (
        PLAN,
        {f"{V2}/cpu.max": "791000 100000"},
        8,
        LocalSlots(7, 1),
    ),
    "v2, memory": (PLAN, {f"{V2}/memory.max": str(10 * GIB)}, 8, LocalSlots(3, 1)),
    "v2, less memory than one slot's": (
        PLAN,
        {f"{V2}/memory.max": str(GIB)},
        8,
        LocalSlots(1, 1),
    ),
    "v2, seen from the host": (
        PLAN,
        {
            "proc/self/cgroup": "0::/kubepods/pod1/c1",
            f"{V2}/kubepods/pod1/memory.max": str(10 * GIB),
            f"{V2}/kubepods/pod1/c1/memory.max": "max",
        },
        8,
        LocalSlots(3, 1),
    ),
    "v2 beside v1": (
        PLAN,
        {"proc/self/cgroup": "1:cpu:/\n0::/c1", f"{V2}/unified/c1/cpu.max": "200000 100000"},
        8,
        LocalSlots(1, 1),
    ),
    "v1, no limits": (
        PLAN,
        {
            "proc/self/cgroup": V1_SELF,
            f"{V1['memory']}/memory.limit_in_bytes": "9223372036854771712",
            f"{V1['cpu']}/cpu.cfs_quota_us": "-1",
            f"{V1['cpu']}/cpu.cfs_period_us": "100000",
        },
        8,
        LocalSlots(7, 1),
    ),
    "v1, memory": (
        PLAN,
        {
            "proc/self/cgroup": V1_SELF,
            f"{V1['memory']}/memory.limit_in_bytes": str(10 * GIB),
        },
        8,
        LocalSlots(3, 1),
    ),
    "v1, CPU quota": (
        PLAN,
        {
            "proc/self/cgroup": V1_SELF,
            f"{V1['cpu']}/kubepods/pod1/c1/cpu.cfs_quota_us": "300000",
            f"{V1['cpu']}/kubepods/pod1/c1/cpu.cfs_period_us": "100000",
        },
        8,
        LocalSlots(2, 1),
    ),
    "slots of two cores": (FOUR, {}, 6, LocalSlots(2, 2)),
    "fewer cores than one slot's": (FOUR, {}, 2, LocalSlots(1, 1)),
    "a plan of the user's, who names slots only": (
        {"PREFECT_VERTEX_SLOTS": "2"},
        {f"{V2}/memory.max": str(GIB)},
        8,
        LocalSlots(2, 3),
    ),
}


@pytest.mark.parametrize(("environment", "files", "cpus", "slots"), CLAMPED.values(), ids=CLAMPED)
def test_the_plan_is_clamped(
    environment: dict[str, str],
    files: dict[str, str],
    cpus: int,
    slots: LocalSlots,
    tmp_path: Path,
) -> None:
    assert local_slots(environment, root=a_root(tmp_path, files), cpus=cpus) == slots


UNPLANNED: dict[str, tuple[dict[str, str], int, LocalSlots]] = {
    "a laptop": ({"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB"}, 8, LocalSlots(7, 1)),
    "with little memory": (
        {"proc/meminfo": f"MemTotal: {4 * GIB // 1024} kB"},
        8,
        LocalSlots(2, 3),
    ),
    "in a small container": (
        {"proc/meminfo": f"MemTotal: {64 * GIB // 1024} kB", f"{V2}/memory.max": str(4 * GIB)},
        8,
        LocalSlots(2, 3),
    ),
    "with two GPUs": (
        {"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": ""},
        8,
        LocalSlots(2, 3),
    ),
    "of which nothing is known": ({}, 4, LocalSlots(3, 1)),
}


@pytest.mark.parametrize(("files", "cpus", "slots"), UNPLANNED.values(), ids=UNPLANNED)
def test_without_a_plan_one_is_made_from_what_is_found(
    files: dict[str, str], cpus: int, slots: LocalSlots, tmp_path: Path
) -> None:
    assert local_slots({}, root=a_root(tmp_path, files), cpus=cpus) == slots


def test_a_measured_profile_plans_anew(tmp_path: Path) -> None:
    root = a_root(tmp_path, {f"{V2}/memory.max": str(32 * GIB)})
    profile = WorkProfile(cores=2, peak_memory_bytes=GIB)
    assert local_slots(PLAN, root=root, cpus=8, profile=profile) == LocalSlots(3, 2)


@pytest.mark.parametrize("name", PLAN)
@pytest.mark.parametrize("value", ["many", "0", "-1", "1.5"])
def test_a_plan_that_is_no_number_is_an_error_that_names_it(
    name: str, value: str, tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match=f"{name} is '{value}'"):
        slots_here({**PLAN, name: value}, root=tmp_path, cpus=8)


@pytest.mark.parametrize("name", PLAN)
def test_a_plan_of_more_digits_than_python_reads_is_such_an_error_too(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match=f"{name} is '9999"):
        slots_here({**PLAN, name: "9" * 5000}, root=tmp_path, cpus=8)


@given(st.integers(1, 200), st.integers(1, 16), st.integers(1, 200))
def test_the_slots_fit_into_the_cores(count: int, cores: int, cpus: int) -> None:
    environment = {"PREFECT_VERTEX_SLOTS": str(count), "PREFECT_VERTEX_SLOT_CORES": str(cores)}
    found = local_slots(environment, root=Path("/nonexistent"), cpus=cpus)
    assert 1 <= found.count <= count
    assert found.count * found.cores <= max(1, cpus - 1)


def test_this_machine_has_a_slot() -> None:
    assert slots_here() >= 1


@pytest.mark.parametrize(
    ("environment", "devices"),
    [
        ({}, ("0", "2", "10")),
        ({"CUDA_VISIBLE_DEVICES": "3, 1"}, ("3", "1")),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
    ],
)
def test_the_devices_are_those_that_are_there_or_that_the_variable_names(
    environment: dict[str, str], devices: tuple[str, ...], tmp_path: Path
) -> None:
    files = dict.fromkeys(["dev/nvidia10", "dev/nvidia0", "dev/nvidia2", "dev/nvidia-uvm"], "")
    assert visible_devices(environment, a_root(tmp_path, files)) == devices
