"""`hardware`, `gpu_type` and `accelerator_count` to a machine spec; what is explicit there wins.

What they leave open is filled in from the table in `machines.py`, so a pair that this module
chooses is one that the table allows. A pair that the user wrote is judged there, when the plan is
built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect_vertex.errors import MachineSpecError
from prefect_vertex.planning.fields import enum_name, whole_number
from prefect_vertex.planning.machines import MACHINES, built_in, counts_of, machines_with
from prefect_vertex.planning.spelling import closest, listed, shown
from prefect_vertex.planning.tpu import is_tpu

GPU_TYPES: dict[str, str] = {
    "P4": "NVIDIA_TESLA_P4",
    "P100": "NVIDIA_TESLA_P100",
    "T4": "NVIDIA_TESLA_T4",
    "V100": "NVIDIA_TESLA_V100",
    "L4": "NVIDIA_L4",
    "A100": "NVIDIA_TESLA_A100",
    "A100_80GB": "NVIDIA_A100_80GB",
    "H100": "NVIDIA_H100_80GB",
    "H100_MEGA": "NVIDIA_H100_MEGA_80GB",
    "H200": "NVIDIA_H200_141GB",
    "B200": "NVIDIA_B200",
    "GB200": "NVIDIA_GB200",
    "RTX_PRO_6000": "NVIDIA_RTX_PRO_6000",
}
"""`gpu_type` → AcceleratorType of the client; a test compares it with the table's."""

DEFAULT_GPU_TYPE = "T4"
DEFAULT_CPU_MACHINE = "n2-standard-8"

_NAMES = {
    **GPU_TYPES,
    "A100_40GB": "NVIDIA_TESLA_A100",
    "RTX_PRO": "NVIDIA_RTX_PRO_6000",
    **{kind.removeprefix("NVIDIA_").removeprefix("TESLA_"): kind for kind in GPU_TYPES.values()},
}
# A GPU that is attached leaves the size of its machine open; from 4 on the next larger one.
_SIZES = ("n1-standard-8", "n1-standard-16", "n1-standard-32", "n1-standard-64", "g2-standard-8")
_MANY = 4
_NONE = ("", "0", "ACCELERATOR_TYPE_UNSPECIFIED")
_KEYS = ("machine_type", "accelerator_type", "accelerator_count")
_SEND_ANYWAY = "To send it anyway, set validate_hardware to warn."


def resolve_machine(
    machine_spec: Mapping[str, Any],
    *,
    hardware: str | None,
    gpu_type: str | None,
    warn_only: bool = False,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Complete a machine spec by what the two variables say; without them it stays as it is.

    Args:
        machine_spec: A MachineSpec in snake_case; not changed.
        hardware: `cpu`, `gpu` or None; a `gpu_type` alone means `gpu`.
        gpu_type: A key of `GPU_TYPES` in any case, or the accelerator's full name.
        warn_only: Send what contradicts itself, with a warning (`validate_hardware`).

    Returns:
        The machine spec and the warnings.

    Raises:
        MachineSpecError: They contradict each other or the machine spec, or no machine has that
            GPU in that number.
    """
    spec = {key: value for key, value in machine_spec.items() if value is not None}
    if not hardware and not gpu_type:
        return spec, ()
    for key in _KEYS:
        if str(spec.get(key, "")).strip() in _NONE and key != "accelerator_count":
            spec.pop(key, None)
    complete = _for_cpu if hardware == "cpu" else _for_gpu
    found: list[MachineSpecError] = []
    warnings = complete(spec, gpu_type, found)
    if found and not warn_only:
        raise found[0]
    sent = [f"{error.message} It is sent because validate_hardware is warn." for error in found]
    return spec, (*warnings, *sent)


def _for_cpu(
    spec: dict[str, Any], gpu_type: str | None, found: list[MachineSpecError]
) -> list[str]:
    machine = str(spec.setdefault("machine_type", DEFAULT_CPU_MACHINE))
    kind, count = built_in(machine)
    if gpu_type:
        found.append(_contradiction("cpu", "gpu_type", gpu_type))
    if "accelerator_type" in spec:
        found.append(_contradiction("cpu", "accelerator_type", spec["accelerator_type"]))
    if str(spec.get("accelerator_count", 0)).strip() in _NONE:
        spec.pop("accelerator_count", None)
    else:
        found.append(_contradiction("cpu", "accelerator_count", spec["accelerator_count"]))
    if kind or is_tpu(machine):
        families = sorted({name.partition("-")[0] for name, kinds in MACHINES.items() if not kinds})
        inside = f"comes with {count} {kind}" if kind else "is a TPU host"
        found.append(
            MachineSpecError(
                f"hardware is cpu, but machine_type {machine} {inside}.",
                variable="machine_type",
                hint=f"Set machine_type to one of family n1, {listed(families)}, or leave hardware "
                f"out. {_SEND_ANYWAY}",
            )
        )
    return []


def _for_gpu(
    spec: dict[str, Any], gpu_type: str | None, found: list[MachineSpecError]
) -> list[str]:
    warnings: list[str] = []
    machine = str(spec.get("machine_type", ""))
    if is_tpu(machine):
        found.append(_contradiction("gpu", "machine_type", machine))
        return warnings
    wanted = _kind(gpu_type, machine, found) if gpu_type else ""
    explicit = str(spec.get("accelerator_type", ""))
    kind = enum_name(explicit) or wanted or built_in(machine)[0] or GPU_TYPES[DEFAULT_GPU_TYPE]
    if wanted and kind != wanted:
        warnings.append(f"accelerator_type {explicit} is used; gpu_type is {gpu_type}.")
    spec.setdefault("accelerator_type", kind)
    counts = MACHINES.get(machine, {}).get(kind) or counts_of(kind)
    if "accelerator_count" not in spec:
        spec["accelerator_count"] = counts[0] if counts and 1 not in counts else 1
    count = whole_number(spec["accelerator_count"], "accelerator_count")
    if count < 1:
        found.append(_contradiction("gpu", "accelerator_count", count))
        return warnings
    if not machine:
        _add_machine(spec, kind, count, found)
    return warnings


def _add_machine(
    spec: dict[str, Any],
    kind: str,
    count: int,
    found: list[MachineSpecError],
) -> None:
    """The machine for that many GPUs; none that is known leaves it to the plan, with an error."""
    machines = machines_with(kind, count)
    if not machines:
        counts = counts_of(kind)
        found.append(
            MachineSpecError(
                f"{kind} comes in counts of {listed(counts)}; accelerator_count is {count}.",
                variable="accelerator_count",
                hint=f"Set accelerator_count to {listed(counts)}. {_SEND_ANYWAY}",
            )
            if counts
            else MachineSpecError(
                f"accelerator_type is {kind}, of which no machine is known, and machine_type is "
                "not set.",
                variable="machine_type",
                hint="Set machine_type.",
            )
        )
        machines = machines_with(kind)
    if machines:
        usual = [name for name in _SIZES[count >= _MANY :] if name in machines]
        spec["machine_type"] = (usual or machines)[0]


def _kind(gpu_type: str, machine: str, found: list[MachineSpecError]) -> str:
    """The accelerator of that name; one newer than the table only for a machine newer than it."""
    name = enum_name(gpu_type).removeprefix("NVIDIA_").removeprefix("TESLA_")
    kind = _NAMES.get(name)
    if kind is not None:
        return kind
    if not machine or machine in MACHINES:
        found.append(
            MachineSpecError(
                f"gpu_type is {shown(gpu_type)}, which is not in the table; the closest is "
                f"{closest(name, GPU_TYPES)}.",
                variable="gpu_type",
                hint=f"Use one of: {', '.join(GPU_TYPES)}.",
            )
        )
    return f"NVIDIA_{name}"


def _contradiction(hardware: str, variable: str, value: object) -> MachineSpecError:
    if variable == "machine_type":
        return MachineSpecError(
            f"hardware is gpu, but machine_type {value} is a TPU host.",
            variable=variable,
            hint="Set machine_type to one of: "
            f"{', '.join(name for name, kinds in MACHINES.items() if kinds)}. {_SEND_ANYWAY}",
        )
    if hardware == "gpu":
        return MachineSpecError(
            f"hardware is gpu, but {variable} is {value}.",
            variable=variable,
            hint="Set accelerator_count to 1 or more, or hardware to cpu.",
        )
    gpu = f" (gpu_type: {', '.join(GPU_TYPES)})" if variable == "gpu_type" else ""
    return MachineSpecError(
        f"hardware is cpu, but {variable} is {value}.",
        variable=variable,
        hint=f"Set hardware to gpu{gpu}, or leave {variable} out. {_SEND_ANYWAY}",
    )
