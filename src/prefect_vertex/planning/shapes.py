"""What a machine type has: cores and memory.

Source: the machine families of https://cloud.google.com/compute/docs/machine-resource, the newest
(A4, A4X, G4) of https://cloud.google.com/compute/docs/accelerator-optimized-machines, both as
public lists quoted them in 2026-11.  Google's GB are 2^30 bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine as its type says; None: not known.

    Attributes:
        cores: vCPUs.
        memory_bytes: All of it; Vertex AI's agents take a part.
    """

    cores: int | None = None
    memory_bytes: int | None = None


_GIB_PER_CORE = {
    "n1-standard": 3.75,
    "n1-highmem": 6.5,
    "n1-highcpu": 0.9,
    "e2-standard": 4.0,
    "e2-highmem": 8.0,
    "e2-highcpu": 1.0,
    "n2-standard": 4.0,
    "n2-highmem": 8.0,
    "n2-highcpu": 1.0,
    "n4-standard": 4.0,
    "n4-highmem": 8.0,
    "n4-highcpu": 2.0,
    "c2-standard": 4.0,
    "g2-standard": 4.0,
    "g4-standard": 3.75,
    "m1-ultramem": 24.025,
    "m1-megamem": 1433.6 / 96,
}
_PER_ACCELERATOR = {
    "a2-highgpu": (12, 85),
    "a2-megagpu": (6, 85),
    "a2-ultragpu": (12, 170),
    "a3-highgpu": (26, 234),
    "a3-megagpu": (26, 234),
    "a3-ultragpu": (28, 369),
    "a4-highgpu": (28, 496),
    "a4x-highgpu": (35, 221),
}
_TPU_HOSTS = {
    "ct5lp-hightpu-1t": (24, 48),
    "ct5lp-hightpu-4t": (112, 192),
    "ct5lp-hightpu-8t": (224, 384),
    "ct6e-standard-1t": (44, 176),
    "ct6e-standard-4t": (180, 720),
    "ct6e-standard-8t": (360, 1440),
}
_CORES = re.compile(r"([a-z0-9]+-[a-z]+)-([1-9][0-9]*)")
_ACCELERATORS = re.compile(r"([a-z0-9]+-[a-z]+)-([1-9][0-9]*)g")
# These classes count cores in every family, newer ones too; other names count who knows what.
_COUNTING = ("-standard", "-highmem", "-highcpu")


def shape_of(machine_type: str) -> Shape:
    """What is known of a machine type; a family that is not in the table has no known memory."""
    if host := _TPU_HOSTS.get(machine_type):
        return Shape(host[0], host[1] * GIB)
    if match := _CORES.fullmatch(machine_type):
        kind, cores = match[1], int(match[2])
        if per_core := _GIB_PER_CORE.get(kind):
            return Shape(cores, round(cores * per_core * GIB))
        return Shape(cores) if kind.endswith(_COUNTING) else Shape()
    match = _ACCELERATORS.fullmatch(machine_type)
    if match and (each := _PER_ACCELERATOR.get(match[1])):
        return Shape(each[0] * int(match[2]), each[1] * int(match[2]) * GIB)
    return Shape()
