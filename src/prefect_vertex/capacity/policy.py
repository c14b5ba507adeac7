"""CapacityPolicy: how long a run looks for machines, from the job variable `capacity`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.durations import MAX_COUNT, MAX_SECONDS, is_count, is_duration
from prefect_vertex.planning.spelling import closest, shown

_SHAPE = "Write for example {max_attempts: 6, max_wall_seconds: 3600}."


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPolicy:
    """The limits of a walk over a run's candidates; they limit new attempts, never a live job.

    Attributes:
        max_attempts: Tries within one walk, those whose create was refused too; 0: no limit.
        max_wall_seconds: From the walk's first create to its last one; 0: no limit.
        backoff_seconds: Pause after the first pass over all candidates; it doubles with each.
        backoff_max_seconds: What that pause grows to.
        max_passes: Passes over all candidates; 0: no limit.
        max_restarts: New attempts after a preemption or a reschedule, over the whole run; 0: none.
    """

    max_attempts: int = 6
    max_wall_seconds: float = 3600.0
    backoff_seconds: float = 60.0
    backoff_max_seconds: float = 600.0
    max_passes: int = 0
    max_restarts: int = 6


_KEYS = tuple(field.name for field in fields(CapacityPolicy))


def parse_capacity(given: object) -> CapacityPolicy:
    """Read the job variable; what it leaves out, or sets to null, has its default.

    Raises:
        PlanError: It is no mapping, has another key, or a value that is no number in its range.
    """
    if given is None:
        return CapacityPolicy()
    if not isinstance(given, Mapping):
        raise PlanError(
            f"capacity is {shown(given)}, expected a mapping.",
            variable="capacity",
            hint=_SHAPE,
        )
    values: dict[str, int | float] = {}
    for name, value in given.items():
        if name not in _KEYS:
            raise PlanError(
                f"capacity has no key {str(name)!r}; the closest is {closest(str(name), _KEYS)!r}.",
                variable="capacity",
                hint=f"Its keys are {', '.join(_KEYS)}.",
            )
        if value is not None:
            values[name] = _seconds(name, value) if "seconds" in name else _count(name, value)
    return CapacityPolicy(**values)  # type: ignore[arg-type]  # the names say which is an int


def _count(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not is_count(value):
        raise _wrong(name, value, f"a whole number from 0 to {MAX_COUNT}")
    return value


def _seconds(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not is_duration(value):
        raise _wrong(name, value, f"a number of seconds from 0 to {MAX_SECONDS:.0f} (ten years)")
    return float(value)


def _wrong(name: str, value: object, expected: str) -> PlanError:
    return PlanError(
        f"capacity.{name} is {shown(value)}, expected {expected}.",
        variable="capacity",
    )
