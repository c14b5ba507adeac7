"""Machine types, and the accelerators and counts that each takes.

The table is `SOURCE` as read on `TABLE_DATE`, and google.cloud.aiplatform_v1 AcceleratorType
(2.7.0). Google offers new shapes all the time, so it refuses only a pair of which it knows both
sides, and `validate_hardware: warn` sends even that; what is newer passes with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from prefect_vertex.errors import MachineSpecError
from prefect_vertex.planning.fields import enum_name, whole_number
from prefect_vertex.planning.spelling import closest, listed, numeral, shown
from prefect_vertex.planning.tpu import TPU_TOPOLOGIES, check_tpu, is_tpu

SOURCE = "https://cloud.google.com/vertex-ai/docs/training/configure-compute"
TABLE_DATE = "2026-11-15"
DEFAULT_MACHINE_TYPE = "n1-standard-4"
"""Of a machine spec that names none."""

_MACHINE_TYPE = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
_UNSPECIFIED = "ACCELERATOR_TYPE_UNSPECIFIED"
_UNKNOWN = f"is not in the table of {TABLE_DATE} and is sent as it is"
_SEND_ANYWAY = "To send it anyway, set validate_hardware to warn."

Counts = tuple[int, ...]


def _sizes(family: str, *sizes: int) -> list[str]:
    return [f"{family}-{size}" for size in sizes]


_N2_SIZES = (2, 4, 8, 16, 32, 48, 64, 80)
_WITHOUT_ACCELERATORS = (
    *_sizes("e2-standard", 4, 8, 16, 32),
    *_sizes("e2-highmem", 2, 4, 8, 16),
    *_sizes("e2-highcpu", 16, 32),
    *_sizes("n2-standard", *_N2_SIZES[1:]),
    *_sizes("n2-highmem", *_N2_SIZES),
    *_sizes("n2-highcpu", *_N2_SIZES[3:]),
    *_sizes("n4-standard", *_N2_SIZES),
    *_sizes("n4-highmem", *_N2_SIZES),
    *_sizes("n4-highcpu", *_N2_SIZES),
    *_sizes("c2-standard", 4, 8, 16, 30, 60),
    *_sizes("m1-ultramem", 40, 80, 160),
    "m1-megamem-96",
)


def _attachable(p4: Counts, p100: Counts, t4: Counts, v100: Counts) -> dict[str, Counts]:
    return {
        "NVIDIA_TESLA_P4": p4,
        "NVIDIA_TESLA_P100": p100,
        "NVIDIA_TESLA_T4": t4,
        "NVIDIA_TESLA_V100": v100,
    }


_UP_TO_4 = (1, 2, 4)
# The page leaves one P100 cell of the largest shapes blank without saying which, so 4 is let pass.
_LARGEST = _attachable((4,), (4,), (4,), (8,))
_N1 = {
    **dict.fromkeys(
        [*_sizes("n1-standard", 4, 8), *_sizes("n1-highmem", 2, 4, 8)],
        _attachable(_UP_TO_4, _UP_TO_4, _UP_TO_4, (1, 2, 4, 8)),
    ),
    **dict.fromkeys(
        ["n1-standard-16", "n1-highmem-16", "n1-highcpu-16"],
        _attachable(_UP_TO_4, _UP_TO_4, _UP_TO_4, (2, 4, 8)),
    ),
    **dict.fromkeys(
        ["n1-standard-32", "n1-highmem-32", "n1-highcpu-32"],
        _attachable((2, 4), (2, 4), (2, 4), (4, 8)),
    ),
    **dict.fromkeys(
        [
            *_sizes("n1-standard", 64, 96),
            *_sizes("n1-highmem", 64, 96),
            *_sizes("n1-highcpu", 64, 96),
        ],
        _LARGEST,
    ),
}

_BUILT_IN: dict[str, tuple[str, int]] = {
    **{f"a2-highgpu-{count}g": ("NVIDIA_TESLA_A100", count) for count in (1, 2, 4, 8)},
    "a2-megagpu-16g": ("NVIDIA_TESLA_A100", 16),
    **{f"a2-ultragpu-{count}g": ("NVIDIA_A100_80GB", count) for count in (1, 2, 4, 8)},
    **{f"a3-highgpu-{count}g": ("NVIDIA_H100_80GB", count) for count in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("NVIDIA_H100_MEGA_80GB", 8),
    "a3-ultragpu-8g": ("NVIDIA_H200_141GB", 8),
    "a4-highgpu-8g": ("NVIDIA_B200", 8),
    "a4x-highgpu-4g": ("NVIDIA_GB200", 4),
    **dict.fromkeys(_sizes("g2-standard", 4, 8, 12, 16, 32), ("NVIDIA_L4", 1)),
    "g2-standard-24": ("NVIDIA_L4", 2),
    "g2-standard-48": ("NVIDIA_L4", 4),
    "g2-standard-96": ("NVIDIA_L4", 8),
    "g4-standard-48": ("NVIDIA_RTX_PRO_6000", 1),
    "g4-standard-96": ("NVIDIA_RTX_PRO_6000", 2),
    "g4-standard-192": ("NVIDIA_RTX_PRO_6000", 4),
    "g4-standard-384": ("NVIDIA_RTX_PRO_6000", 8),
}

MACHINES: dict[str, dict[str, Counts]] = {
    **{machine: {} for machine in _WITHOUT_ACCELERATORS},
    **_N1,
    **{machine: {kind: (count,)} for machine, (kind, count) in _BUILT_IN.items()},
}
"""Machine type → accelerator type → counts allowed. TPU hosts have a table of their own."""

ACCELERATORS = tuple(sorted({kind for counts in MACHINES.values() for kind in counts}))
"""Every accelerator that a machine of the table takes."""

_RETIRED = frozenset({"NVIDIA_TESLA_K80"})
# https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/quotas
_ENDING = {"NVIDIA_TESLA_P100": "2026-09-15"}


def built_in(machine_type: str) -> tuple[str, int]:
    """The accelerator that the machine comes with, and how many; `("", 0)` for none."""
    return _BUILT_IN.get(machine_type, ("", 0))


def machines_with(kind: str, count: int = 0) -> tuple[str, ...]:
    """The machine types that take that accelerator, in that number if one is given."""
    return tuple(
        name
        for name, kinds in MACHINES.items()
        if kind in kinds and (not count or count in kinds[kind])
    )


def counts_of(kind: str) -> Counts:
    """The numbers in which some machine takes that accelerator, in order."""
    return tuple(sorted({count for kinds in MACHINES.values() for count in kinds.get(kind, ())}))


def check_machine(
    machine_spec: Mapping[str, Any],
    accelerators: Mapping[str, int],
    *,
    warn_only: bool = False,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Judge one machine spec by the table.

    Args:
        machine_spec: A MachineSpec in snake_case.
        accelerators: AcceleratorType of the installed client, name → number.
        warn_only: Report what the table excludes instead of refusing it (`validate_hardware`).

    Returns:
        The machine spec, its accelerator by name and a count of 0 left out; and the warnings.

    Raises:
        MachineSpecError: An accelerator that the client does not know, or a machine, accelerator
            and count that the table knows not to go together.
    """
    spec = dict(machine_spec)
    machine = str(spec.setdefault("machine_type", DEFAULT_MACHINE_TYPE))
    kind = _accelerator(spec.pop("accelerator_type", None), accelerators)
    count = whole_number(spec.pop("accelerator_count", 0) or 0, "accelerator_count")
    if kind:
        spec["accelerator_type"] = kind
    if count:
        spec["accelerator_count"] = count
    try:
        if not _MACHINE_TYPE.fullmatch(machine):
            raise _no_machine_type(machine)
        if is_tpu(machine):
            return spec, check_tpu(spec)
        if spec.get("tpu_topology") and machine in MACHINES:
            raise _no_tpu(machine)
        return spec, _judge(machine, kind, count, lenient="gpu_partition_size" in spec)
    except MachineSpecError as error:
        if not warn_only:
            raise
        return spec, (f"{error.message} It is sent because validate_hardware is warn.",)


def _accelerator(value: object, known: Mapping[str, int]) -> str:
    """The accelerator's name; empty for none; digits for a number newer than the client."""
    if value is None or value == "":
        return ""
    text = str(value).strip()
    if (wanted := numeral(text)) is not None:
        text = next((name for name, number in known.items() if number == wanted), str(wanted))
        return "" if text == _UNSPECIFIED else text
    name = enum_name(text)
    if name not in known:
        raise MachineSpecError(
            f"accelerator_type is {shown(value)}, which Vertex AI does not know; "
            f"the closest is {closest(text, known)}.",
            variable="accelerator_type",
            hint=f"Use one of: {', '.join(ACCELERATORS)}.",
        )
    return "" if name == _UNSPECIFIED else name


def _judge(machine: str, kind: str, count: int, *, lenient: bool) -> tuple[str, ...]:
    allowed = MACHINES.get(machine)
    if bool(kind) != bool(count):
        raise _half(machine, kind, count)
    if allowed is None:
        near = closest(machine, MACHINES)
        return (f"machine_type {machine} {_UNKNOWN} (the closest is {near}).",)
    if not kind:
        return tuple(
            f"{machine} comes with {counts[0]} {inside}, which accelerator_type and "
            "accelerator_count do not ask for."
            for inside, counts in allowed.items()
            if machine in _BUILT_IN
        )
    if kind.startswith("TPU_"):
        raise MachineSpecError(
            f"accelerator_type {kind} needs a TPU host; machine_type is {machine}.",
            variable="machine_type",
            hint=f"Set machine_type to one of: cloud-tpu, {', '.join(TPU_TOPOLOGIES)}. "
            f"{_SEND_ANYWAY}",
        )
    if kind not in ACCELERATORS and kind not in _RETIRED:
        return (f"accelerator_type {kind} {_UNKNOWN}.",)
    if count in allowed.get(kind, ()):
        end = _ENDING.get(kind)
        return (f"Vertex AI offers {kind} until {end}.",) if end else ()
    error = _impossible(machine, kind, count)
    if lenient:
        return (f"{error.message} It is sent because gpu_partition_size is set.",)
    raise error


def _no_machine_type(machine: str) -> MachineSpecError:
    near = closest(machine, MACHINES)
    return MachineSpecError(
        f"machine_type is {shown(machine)}, which is not the name of a machine type.",
        variable="machine_type",
        hint=f"The closest is {near}. {_SEND_ANYWAY}",
    )


def _no_tpu(machine: str) -> MachineSpecError:
    return MachineSpecError(
        f"tpu_topology is set, but machine_type {machine} is no TPU host.",
        variable="machine_type",
        hint=f"Set machine_type to one of: {', '.join(TPU_TOPOLOGIES)}; or leave tpu_topology out. "
        f"{_SEND_ANYWAY}",
    )


def _half(machine: str, kind: str, count: int) -> MachineSpecError:
    if not kind:
        choices = sorted(MACHINES.get(machine, {})) or ACCELERATORS
        return MachineSpecError(
            f"accelerator_count is {count}, but accelerator_type is not set.",
            variable="accelerator_type",
            hint=f"Set accelerator_type to one of: {', '.join(choices)}.",
        )
    counts = MACHINES.get(machine, {}).get(kind, ())
    return MachineSpecError(
        f"accelerator_type is {kind}, but accelerator_count is not set.",
        variable="accelerator_count",
        hint=f"Set accelerator_count to {listed(counts) or 'the number for one machine'}.",
    )


def _impossible(machine: str, kind: str, count: int) -> MachineSpecError:
    counts = MACHINES[machine].get(kind)
    if counts:
        return MachineSpecError(
            f"{machine} takes {kind} in counts of {listed(counts)}; accelerator_count is {count}.",
            variable="accelerator_count",
            hint=f"Set accelerator_count to {listed(counts)}. {_SEND_ANYWAY}",
        )
    machines = machines_with(kind, count) or machines_with(kind)
    if not machines:
        return MachineSpecError(
            f"accelerator_type {kind} is no longer offered.",
            variable="accelerator_type",
            hint=f"Use one of: {', '.join(MACHINES[machine] or ACCELERATORS)}. {_SEND_ANYWAY}",
        )
    families = sorted({name.partition("-")[0] for name in machines})
    return MachineSpecError(
        f"accelerator_type {kind} needs a machine of family {' or '.join(families)}; "
        f"machine_type is {machine}.",
        variable="machine_type",
        hint=f"Set machine_type to one of: {', '.join(machines)}. {_SEND_ANYWAY}",
    )
