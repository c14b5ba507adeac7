"""What one replica should run at once: its slots, and what each slot may use.

Pure.  A slot is room for one unit of work in a process of its own.  There are as many as every
axis has room for, and an axis of which nothing is known does not count:

- cores: one is kept back for the flow's own process and the platform's agents;
- memory: what the agents leave, which is the smaller a part the smaller the machine (on
  n1-standard-4 they take up to 40 %:
  https://cloud.google.com/vertex-ai/docs/training/understanding-training-service);
- accelerators: one unit each, because most frameworks take a whole device.

The container clamps the number again by what it finds there (`prefect_vertex.replica.slots`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prefect_vertex.planning.machines import DEFAULT_MACHINE_TYPE, built_in
from prefect_vertex.planning.shapes import GIB, Shape, shape_of
from prefect_vertex.planning.tpu import is_tpu

MIB = 2**20

UNIT_CORES = 1
UNIT_MEMORY_BYTES = GIB
"""What a unit of work needs as long as nobody has measured one: a core, and room for an interpreter
with the usual libraries and one series."""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""What numerical libraries read, once, when they are imported."""

CORES_KEPT_BACK = 1
_SHARES = ((16 * GIB, 0.55), (32 * GIB, 0.65))
_SHARE_BEYOND = 0.7

# A measured unit is not the largest: margins as they proved right for forecasting models.
_MEMORY_MARGIN = 1.3
_SECONDS_MARGIN = 1.2
# What a process with one busy thread is measured at may be a little more than one core.
_CORES_TOLERANCE = 0.05

Axis = Literal["cores", "memory", "accelerators", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkProfile:
    """What one unit of work was measured to need; None: not measured.

    Attributes:
        cores: Cores that it kept busy, on average.
        peak_memory_bytes: The most memory that its process held.
        seconds_per_unit: How long it took.
    """

    cores: float | None = None
    peak_memory_bytes: int | None = None
    seconds_per_unit: float | None = None

    def __post_init__(self) -> None:
        """Refuse what nobody can have measured.

        Raises:
            ValueError: A figure is not above 0.
        """
        for name in ("cores", "peak_memory_bytes", "seconds_per_unit"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} of a work profile is {value}, expected more than 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePlan:
    """What one replica runs at once; equal machines and profiles give equal plans.

    Attributes:
        machine_type: The machine; empty for one that was found, not ordered.
        cores: Its cores; None: not known.
        memory_bytes: Its memory; None: not known.
        accelerators: Its accelerators.
        slots: Units of work at once; None: nothing is known, and the container decides.
        slot_cores: Cores, and so threads, of one slot; None: not known.
        slot_memory_bytes: Memory of one slot; None: not known.
        binding_axis: What `slots` ends at.
        seconds_per_unit: What a unit takes, with a margin; None: not measured.
    """

    machine_type: str
    cores: int | None
    memory_bytes: int | None
    accelerators: int
    slots: int | None
    slot_cores: int | None
    slot_memory_bytes: int | None
    binding_axis: Axis
    seconds_per_unit: float | None = None

    def expected_seconds(self, units: int, replicas: int = 1) -> float | None:
        """How long that many units take on so many replicas; None: no unit was measured."""
        if self.seconds_per_unit is None:
            return None
        rounds = -(-units // ((self.slots or 1) * replicas))
        return rounds * self.seconds_per_unit

    def as_json(self) -> dict[str, Any]:
        """Plain values, for people to read."""
        return {
            "machine_type": self.machine_type,
            "cores": self.cores,
            "memory_mb": _mebibytes(self.memory_bytes),
            "accelerators": self.accelerators,
            "slots": self.slots,
            "slot_cores": self.slot_cores,
            "slot_memory_mb": _mebibytes(self.slot_memory_bytes),
            "binding_axis": self.binding_axis,
        }


def usable_memory(memory_bytes: int) -> int:
    """What of a machine's memory the code can have; the platform's agents take the rest."""
    share = next((share for size, share in _SHARES if memory_bytes <= size), _SHARE_BEYOND)
    return int(memory_bytes * share)


def plan_machine(
    machine_spec: Mapping[str, Any], profile: WorkProfile | None = None
) -> ResourcePlan:
    """Plan a replica on a machine that is ordered.

    Args:
        machine_spec: A MachineSpec in snake_case, which was checked.
        profile: What a unit was measured to need; None is exactly the static plan.
    """
    machine = str(machine_spec.get("machine_type") or DEFAULT_MACHINE_TYPE)
    # The chips of a TPU host belong to one process.
    given = machine_spec.get("accelerator_count") or built_in(machine)[1]
    accelerators = 1 if is_tpu(machine) else int(given)
    return plan_slots(shape_of(machine), accelerators, profile, machine_type=machine)


def plan_slots(
    shape: Shape,
    accelerators: int = 0,
    profile: WorkProfile | None = None,
    *,
    machine_type: str = "",
) -> ResourcePlan:
    """Plan a replica on a machine of which so much is known.

    Args:
        shape: Its cores and memory.
        accelerators: Its accelerators; 0 is no axis.
        profile: What a unit was measured to need.
        machine_type: Its name, for people.
    """
    profile = profile or WorkProfile()
    usable_cores = None if shape.cores is None else max(1, shape.cores - CORES_KEPT_BACK)
    usable_bytes = None if shape.memory_bytes is None else usable_memory(shape.memory_bytes)
    room: dict[Axis, int] = {}
    if usable_cores is not None:
        room["cores"] = usable_cores // _unit_cores(profile)
    if usable_bytes is not None:
        room["memory"] = usable_bytes // _unit_memory(profile)
    if accelerators:
        room["accelerators"] = accelerators
    slots = max(1, min(room.values())) if room else None
    return ResourcePlan(
        machine_type=machine_type,
        cores=shape.cores,
        memory_bytes=shape.memory_bytes,
        accelerators=accelerators,
        slots=slots,
        slot_cores=_each(usable_cores, slots),
        slot_memory_bytes=_each(usable_bytes, slots),
        binding_axis=min(room, key=lambda axis: room[axis]) if room else "unknown",
        seconds_per_unit=profile.seconds_per_unit and profile.seconds_per_unit * _SECONDS_MARGIN,
    )


def _unit_cores(profile: WorkProfile) -> int:
    if profile.cores is None:
        return UNIT_CORES
    return max(1, math.ceil(profile.cores - _CORES_TOLERANCE))


def _unit_memory(profile: WorkProfile) -> int:
    if profile.peak_memory_bytes is None:
        return UNIT_MEMORY_BYTES
    return max(1, math.ceil(profile.peak_memory_bytes * _MEMORY_MARGIN))


def _each(usable: int | None, slots: int | None) -> int | None:
    return None if usable is None or slots is None else max(1, usable // slots)


def _mebibytes(number: int | None) -> int | None:
    return None if number is None else number // MIB
