"""How many units of work to run at once here: the resource plan, clamped by what is really there.

The plan was made from the machine's name. A container may have less than the machine: its cgroup
says how much, in version 1 or 2 of the kernel's interface
(https://docs.kernel.org/admin-guide/cgroup-v2.html). Without a plan, on a laptop or on a machine
whose type nobody knew, one is made from what is found.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.shapes import Shape
from prefect_vertex.planning.sizing import CORES_KEPT_BACK, MIB, WorkProfile, plan_slots
from prefect_vertex.planning.spelling import numeral, shown

SLOTS = "PREFECT_VERTEX_SLOTS"
SLOT_CORES = "PREFECT_VERTEX_SLOT_CORES"
SLOT_MEMORY_MB = "PREFECT_VERTEX_SLOT_MEMORY_MB"
DEVICES = "CUDA_VISIBLE_DEVICES"

_ROOT = Path("/")
_DEVICE_FILE = re.compile(r"nvidia(\d+)")


@dataclass(frozen=True, slots=True)
class LocalSlots:
    """What this replica runs at once.

    Attributes:
        count: Units of work, one or more.
        cores: Cores, and so threads, of each.
    """

    count: int
    cores: int


def slots_here(
    environment: Mapping[str, str] | None = None,
    *,
    profile: WorkProfile | None = None,
    root: Path = _ROOT,
    cpus: int | None = None,
) -> int:
    """How many units of work to run at once here, at least one; `local_slots` has the arguments.

    Raises:
        SetupError: A variable of the plan holds no number.
    """
    return local_slots(environment, profile=profile, root=root, cpus=cpus).count


def local_slots(
    environment: Mapping[str, str] | None = None,
    *,
    profile: WorkProfile | None = None,
    root: Path = _ROOT,
    cpus: int | None = None,
) -> LocalSlots:
    """The plan's slots, as far as this container has room for them.

    Args:
        environment: Where the plan stands; None: this process's.
        profile: What a unit was measured to need; the slots are then planned anew, from what is
            found here.
        root: Where `/sys`, `/proc` and `/dev` are looked for.
        cpus: CPUs that this process may use; None: asks the system.

    Raises:
        SetupError: A variable of the plan holds no number.
    """
    environment = os.environ if environment is None else environment
    cores, memory = _cores(root, cpus), _memory_limit(root)
    usable = max(1, cores - CORES_KEPT_BACK)
    count, each = _number(environment, SLOTS), _number(environment, SLOT_CORES)
    if count is None or profile is not None:
        memory = min(filter(None, (memory, _machine_memory(root))), default=None)
        devices = len(visible_devices(environment, root))
        found = plan_slots(Shape(cores, memory), devices, profile)
        count = found.slots or 1
        return LocalSlots(count, max(1, usable // count))
    count = max(1, min(count, usable // (each or 1)))
    megabytes = _number(environment, SLOT_MEMORY_MB)
    if memory is not None and megabytes:
        count = max(1, min(count, memory // (megabytes * MIB)))
    return LocalSlots(count, min(each or usable // count, usable))


def visible_devices(environment: Mapping[str, str], root: Path = _ROOT) -> tuple[str, ...]:
    """The GPUs that are here, as `CUDA_VISIBLE_DEVICES` names them."""
    given = environment.get(DEVICES)
    if given is not None:
        return tuple(name.strip() for name in given.split(",") if name.strip() not in ("", "-1"))
    try:
        names = [path.name for path in (root / "dev").iterdir()]
    except OSError:
        return ()
    numbers = sorted(int(match[1]) for name in names if (match := _DEVICE_FILE.fullmatch(name)))
    return tuple(str(number) for number in numbers)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    number = numeral(text)
    if number is None or number < 1:
        raise SetupError(
            f"{name} is {shown(text)}, expected a number of 1 or more.",
            hint=f"Leave {name} out of env, or set it to a number.",
        )
    return number


# --- what the system says ------------------------------------------------------------------------


def _cores(root: Path, cpus: int | None) -> int:
    """CPUs that this process may use, as whole ones."""
    if cpus is None:
        affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        cpus = affine or os.cpu_count() or 1
    # The platform takes hundredths for itself: 7.91 of 8 CPUs are 8.
    quotas = [math.ceil(quota) for quota in _cpu_quotas(root)]
    return max(1, min([cpus, *quotas]))


def _cpu_quotas(root: Path) -> Iterator[float]:
    for folder in _folders(root, "cpu"):
        words = _read(folder / "cpu.max").split()
        if not words:
            words = [_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        try:
            quota, period = (int(word) for word in words)
        except ValueError:
            continue  # "max", or no limit of this kind here
        if quota > 0 and period > 0:
            yield quota / period


def _memory_limit(root: Path) -> int | None:
    """Bytes; None where there is no limit."""
    limits = [
        int(text)
        for folder in _folders(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(folder / name)).isdecimal()
    ]
    return min(limits, default=None)


def _machine_memory(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's cgroups for a controller, each with those above it, whose limits hold too.

    A container usually sees its own cgroup as the top one.
    """
    mount = root / "sys/fs/cgroup"
    yield mount
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            tops = [mount, mount / "unified"]
        elif controller in names.split(","):
            tops = [mount / names, mount / controller]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for top in tops:
            for depth in range(len(parts) + 1):
                yield top.joinpath(*parts[:depth])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
