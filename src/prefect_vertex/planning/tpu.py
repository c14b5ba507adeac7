"""TPU hosts: the topologies that each takes, of which a job has one pool with one replica.

Source: https://cloud.google.com/vertex-ai/docs/training/configure-compute, read 2026-11-15, for the
machine types and topologies of each generation. The page does not say which host takes which; that
follows from the chips that a host's name counts (`8t`: eight, so 2x4).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from prefect_vertex.errors import MachineSpecError
from prefect_vertex.planning.spelling import closest, listed, shown

TABLE_DATE = "2026-11-15"

_SEND_ANYWAY = "To send it anyway, set validate_hardware to warn."
_SLICES = ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")

TPU_TOPOLOGIES: dict[str, tuple[str, ...]] = {
    **{
        machine: topologies
        for family in ("ct5lp-hightpu", "ct6e-standard")
        for machine, topologies in (
            (f"{family}-1t", ("1x1",)),
            (f"{family}-4t", _SLICES),
            (f"{family}-8t", ("2x4",)),
        )
    },
    "tpu7x-standard-4t": (
        *("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16"),
    ),
}
"""Machine type of v5e, v6e and 7x → topologies."""

_OF_CLOUD_TPU = ("TPU_V2", "TPU_V3")
_ONE_HOST = 8
_SMALLEST_POD = 32
_TOPOLOGY = re.compile(r"^\d+x\d+(x\d+)?$")
_CHIPS = re.compile(r"-(\d+)t$")
_FAMILIES = ("cloud-tpu", "ct5", "ct6", "tpu")


def is_tpu(machine_type: str) -> bool:
    """Whether the machine is a TPU host, of which a job takes one replica."""
    return machine_type.startswith(_FAMILIES)


def is_tpu_pod(machine_spec: Mapping[str, Any]) -> bool:
    """Whether the machine spec asks for more chips than one host has."""
    machine = str(machine_spec.get("machine_type", ""))
    if machine == "cloud-tpu":
        return int(machine_spec.get("accelerator_count") or 0) > _ONE_HOST
    chips = _CHIPS.search(machine)
    topology = str(machine_spec.get("tpu_topology") or "")
    if not is_tpu(machine) or chips is None or not _TOPOLOGY.match(topology):
        return False
    return math.prod(int(side) for side in topology.split("x")) > int(chips[1])


def check_tpu(machine_spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Judge the machine spec of a TPU host; what is newer than the table is a warning.

    Raises:
        MachineSpecError: A topology or an accelerator that the host does not take.
    """
    machine = str(machine_spec.get("machine_type", ""))
    kind = str(machine_spec.get("accelerator_type") or "")
    if kind and not kind.startswith("TPU_") and not kind.isdigit():
        raise MachineSpecError(
            f"{machine} is a TPU host; accelerator_type is {kind}.",
            variable="accelerator_type",
            hint=f"Set accelerator_type to {listed(_OF_CLOUD_TPU)}, with cloud-tpu, or leave it "
            f"out. {_SEND_ANYWAY}",
        )
    if machine == "cloud-tpu":
        return _check_cloud_tpu(kind, int(machine_spec.get("accelerator_count") or 0))
    allowed = TPU_TOPOLOGIES.get(machine)
    if allowed is None:
        near = closest(machine, TPU_TOPOLOGIES)
        newer = f"machine_type {machine} is not in the table of {TABLE_DATE} and is sent as it is"
        return (f"{newer} (the closest is {near}).",)
    topology = machine_spec.get("tpu_topology")
    if topology is None or str(topology) in allowed:
        return ()
    raise MachineSpecError(
        f"{machine} takes tpu_topology {listed(allowed)}; it is {shown(topology)}.",
        variable="machine_type",
        hint=f"Change tpu_topology in the machine spec. {_SEND_ANYWAY}",
    )


def _check_cloud_tpu(kind: str, count: int) -> tuple[str, ...]:
    if kind and kind not in _OF_CLOUD_TPU:
        return (f"accelerator_type {kind} is not in the table of {TABLE_DATE} for cloud-tpu.",)
    if not kind:
        raise MachineSpecError(
            "cloud-tpu is a TPU host of version 2 or 3, and accelerator_type is not set.",
            variable="accelerator_type",
            hint=f"Set accelerator_type to {listed(_OF_CLOUD_TPU)}. {_SEND_ANYWAY}",
        )
    if count != _ONE_HOST and count < _SMALLEST_POD:
        raise MachineSpecError(
            f"cloud-tpu takes {kind} in counts of 8, or {_SMALLEST_POD} and more; "
            f"accelerator_count is {count}.",
            variable="accelerator_count",
            hint=f"Set accelerator_count to 8. {_SEND_ANYWAY}",
        )
    return ()
