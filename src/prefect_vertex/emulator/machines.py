"""Which machine types train, and with which accelerators.

The emulator's own table, from https://cloud.google.com/vertex-ai/docs/training/configure-compute
(checked 2026-11); the worker has another, so that a slip in one is seen by the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final


def _sizes(family: str, sizes: Iterable[int], suffix: str = "") -> dict[str, dict[str, list[int]]]:
    return {f"{family}-{size}{suffix}": {} for size in sizes}


def _fixed(accelerator: str, counts: Mapping[str, int]) -> dict[str, dict[str, list[int]]]:
    return {machine: {accelerator: [count]} for machine, count in counts.items()}


_PLAIN: Final = (
    _sizes("e2-standard", (4, 8, 16, 32))
    | _sizes("e2-highmem", (2, 4, 8, 16))
    | _sizes("e2-highcpu", (16, 32))
    | _sizes("n2-standard", (4, 8, 16, 32, 48, 64, 80))
    | _sizes("n2-highmem", (2, 4, 8, 16, 32, 48, 64, 80))
    | _sizes("n2-highcpu", (16, 32, 48, 64, 80))
    | _sizes("n4-standard", (2, 4, 8, 16, 32, 48, 64, 80))
    | _sizes("n4-highmem", (2, 4, 8, 16, 32, 48, 64, 80))
    | _sizes("n4-highcpu", (2, 4, 8, 16, 32, 48, 64, 80))
    | _sizes("c2-standard", (4, 8, 16, 30, 60))
    | _sizes("m1-ultramem", (40, 80, 160))
    | _sizes("m1-megamem", (96,))
    | _sizes("ct5lp-hightpu", (1, 4, 8), "t")
    | _sizes("ct6e-standard", (1, 4, 8), "t")
    | _sizes("tpu7x-standard", (4,), "t")
)

_WITH_FIXED_ACCELERATORS: Final = (
    _fixed("NVIDIA_TESLA_A100", {f"a2-highgpu-{n}g": n for n in (1, 2, 4, 8)})
    | _fixed("NVIDIA_TESLA_A100", {"a2-megagpu-16g": 16})
    | _fixed("NVIDIA_A100_80GB", {f"a2-ultragpu-{n}g": n for n in (1, 2, 4, 8)})
    | _fixed("NVIDIA_H100_80GB", {f"a3-highgpu-{n}g": n for n in (1, 2, 4, 8)})
    | _fixed("NVIDIA_H100_MEGA_80GB", {"a3-megagpu-8g": 8})
    | _fixed("NVIDIA_H200_141GB", {"a3-ultragpu-8g": 8})
    | _fixed("NVIDIA_B200", {"a4-highgpu-8g": 8})
    | _fixed("NVIDIA_GB200", {"a4x-highgpu-4g": 4})
    | _fixed("NVIDIA_L4", {f"g2-standard-{n}": 1 for n in (4, 8, 12, 16, 32)})
    | _fixed("NVIDIA_L4", {"g2-standard-24": 2, "g2-standard-48": 4, "g2-standard-96": 8})
    | _fixed("NVIDIA_RTX_PRO_6000", {f"g4-standard-{48 * n}": n for n in (1, 2, 4, 8)})
)

_TPU_PODS: Final = [8, 32, 64, 128, 256, 512, 1024, 2048]
_CLOUD_TPU: Final = {"cloud-tpu": {"TPU_V2": _TPU_PODS, "TPU_V3": _TPU_PODS}}


def _n1(
    machines: str, p4: list[int], p100: list[int], t4: list[int], v100: list[int]
) -> dict[str, dict[str, list[int]]]:
    accelerators = {
        "NVIDIA_TESLA_P4": p4,
        "NVIDIA_TESLA_P100": p100,
        "NVIDIA_TESLA_T4": t4,
        "NVIDIA_TESLA_V100": v100,
    }
    offered = {name: counts for name, counts in accelerators.items() if counts}
    return {f"n1-{machine}": offered for machine in machines.split()}


_FEW: Final = [1, 2, 4]
_N1: Final = (
    _n1("standard-4 standard-8 highmem-2 highmem-4 highmem-8", _FEW, _FEW, _FEW, [1, 2, 4, 8])
    | _n1("standard-16 highmem-16 highcpu-16", _FEW, _FEW, _FEW, [2, 4, 8])
    | _n1("standard-32 highmem-32 highcpu-32", [2, 4], [2, 4], [2, 4], [4, 8])
    | _n1("standard-64 standard-96 highmem-64 highmem-96 highcpu-96", [4], [], [4], [8])
    | _n1("highcpu-64", [4], [4], [4], [8])
)

ACCELERATORS_OF: Final[Mapping[str, Mapping[str, list[int]]]] = (
    _PLAIN | _WITH_FIXED_ACCELERATORS | _CLOUD_TPU | _N1
)
"""Machine type to accelerator type to the counts that may be asked for."""
