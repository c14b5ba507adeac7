"""Scheduling of a CustomJob: strategy, longest run time, waiting time, restarts.

Source of the rules: google.cloud.aiplatform_v1 Scheduling (2.7.0) and
https://cloud.google.com/vertex-ai/docs/training/schedule-jobs-dws, read 2026-11.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from prefect_vertex.errors import SchedulingError
from prefect_vertex.planning.spelling import closest, numeral, shown, snake_case

STRATEGIES = {
    "STRATEGY_UNSPECIFIED": 0,
    "ON_DEMAND": 1,
    "LOW_COST": 2,
    "STANDARD": 3,
    "SPOT": 4,
    "FLEX_START": 6,
}
"""Scheduling.Strategy, by name; a test compares it with the installed client's."""

SPOT_STRATEGIES = frozenset({"SPOT", "LOW_COST"})
"""Those whose machines may be taken back; LOW_COST is the older name."""

DEFAULT_TIMEOUT = timedelta(days=7)
"""Vertex AI's own, for a job that says none."""

_OFFERED = ("STANDARD", "SPOT", "FLEX_START")
_FLEX_START_LIMIT = timedelta(days=7)
_FLEX_START_WAIT = timedelta(days=1)
_PROVISIONING = timedelta(minutes=15)
# What a protobuf Duration holds: some 10,000 years.
_LONGEST = timedelta(seconds=315_576_000_000)

_SECONDS = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*s?\s*$")
_ISO_8601 = re.compile(
    r"^P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?$",
)


def parse_duration(value: object, name: str) -> timedelta:
    """Read a duration: seconds as a number or text (`"1800s"`), or ISO 8601 (`"PT30M"`).

    Args:
        value: What was written.
        name: What it is, for the message.

    Raises:
        SchedulingError: It is none, negative, or longer than a request can say.
    """
    try:
        duration = _duration(value)
    except (OverflowError, ValueError):
        duration = None
    if duration is None or not timedelta(0) <= duration <= _LONGEST:
        raise SchedulingError(
            f"{name} is {shown(value)}, expected a duration of at most 10,000 years.",
            variable=name.rpartition(".")[2],
            hint='Write seconds ("1800s" or 1800) or ISO 8601 ("PT30M").',
        )
    return duration


def _duration(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    if not isinstance(value, str):
        return None
    if match := _SECONDS.match(value):
        return timedelta(seconds=float(match[1]))
    match = _ISO_8601.match(value.strip().upper())
    parts = match.groupdict() if match else {}
    given = {unit: float(number) for unit, number in parts.items() if number is not None}
    return timedelta(**given) if given else None


def parse_strategy(value: object, name: str = "strategy") -> str:
    """Read a scheduling strategy, by name in any case or by number.

    Returns:
        The name as the API spells it, or the digits of a number newer than the table.

    Raises:
        SchedulingError: There is none of that name.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return next((key for key, number in STRATEGIES.items() if number == value), str(value))
    text = snake_case(value).upper() if isinstance(value, str) else ""
    if (number := numeral(text)) is not None:
        return parse_strategy(number, name)
    if text not in STRATEGIES:
        near = closest(text, STRATEGIES) if text else ""
        raise SchedulingError(
            f"{name} is {shown(value)}, which Vertex AI does not know"
            + (f"; the closest is {near}." if near else "."),
            variable="strategy",
            hint=f"Use one of: {', '.join(_OFFERED)}.",
        )
    return text


def resolve_scheduling(
    given: object,
    *,
    strategy: object,
    maximum_run_time_hours: float | None,
    disable_retries: bool,
) -> dict[str, Any]:
    """What the job variables say together, as a Scheduling in snake_case.

    Whatever `given` says itself wins, but for two strategies that contradict each other.

    Raises:
        SchedulingError: They cannot be combined.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise SchedulingError(
            f"scheduling is {shown(given)}, expected a mapping.",
            variable="scheduling",
            hint="Write for example {strategy: FLEX_START, max_wait_duration: 1800s}.",
        )
    scheduling = {key: value for key, value in given.items() if value is not None}
    if strategy is not None:
        wanted = parse_strategy(strategy)
        if "strategy" in scheduling:
            other = parse_strategy(scheduling["strategy"], "scheduling.strategy")
            if other != wanted:
                raise SchedulingError(
                    f"strategy is {wanted} and scheduling.strategy is {other}.",
                    variable="strategy",
                    hint="Set one of them.",
                )
        scheduling["strategy"] = wanted
    if "timeout" not in scheduling and maximum_run_time_hours is not None:
        scheduling["timeout"] = _hours(maximum_run_time_hours)
    scheduling.setdefault("disable_retries", disable_retries)
    return check_scheduling(scheduling)


def _hours(hours: float) -> timedelta:
    try:
        if math.isfinite(hours) and hours > 0 and timedelta(hours=hours) <= _LONGEST:
            return timedelta(hours=hours)
    except OverflowError:
        pass
    try:
        told = f"{hours:g}"
    except OverflowError:
        # An integer that no float holds.
        told = shown(hours)
    raise SchedulingError(
        f"maximum_run_time_hours is {told}, expected a number of hours above 0 and of at most "
        "10,000 years.",
        variable="maximum_run_time_hours",
        hint="Vertex AI's own default is 168, which is 7 days.",
    )


def check_scheduling(scheduling: Mapping[str, Any]) -> dict[str, Any]:
    """The same scheduling with canonical values; what the service would refuse is refused here.

    Keys that it does not know are left for the walk over the message.

    Raises:
        SchedulingError: Two of its fields exclude each other.
    """
    checked = dict(scheduling)
    strategy = parse_strategy(checked.get("strategy", 0), "scheduling.strategy")
    if "strategy" in checked:
        checked["strategy"] = STRATEGIES.get(strategy, strategy)
    for key in ("timeout", "max_wait_duration"):
        if key in checked:
            checked[key] = parse_duration(checked[key], f"scheduling.{key}")
    if "timeout" in checked and not checked["timeout"]:
        raise SchedulingError(
            "scheduling.timeout is 0, which would end the job at once.",
            variable="scheduling",
            hint="Remove it for maximum_run_time_hours to count.",
        )
    if "max_wait_duration" in checked and strategy != "FLEX_START":
        raise SchedulingError(
            f"scheduling.max_wait_duration is only taken with FLEX_START; the strategy is "
            f"{strategy if strategy != 'STRATEGY_UNSPECIFIED' else 'not set'}.",
            variable="scheduling",
            hint="Set strategy to FLEX_START, or remove max_wait_duration.",
        )
    if strategy == "FLEX_START" and checked.get("timeout", timedelta(0)) > _FLEX_START_LIMIT:
        raise SchedulingError(
            f"FLEX_START runs a job for at most 7 days; the timeout is {checked['timeout']}.",
            variable="maximum_run_time_hours",
            hint="Set maximum_run_time_hours to at most 168.",
        )
    if _truth(checked.get("restart_job_on_worker_restart")) and _truth(
        checked.get("disable_retries"),
    ):
        raise SchedulingError(
            "scheduling.restart_job_on_worker_restart has no effect while disable_retries is true.",
            variable="disable_retries",
            hint="Set disable_retries to false; user code may then run more than once.",
        )
    return checked


def longest_wait(scheduling: Mapping[str, Any]) -> timedelta:
    """How long a FLEX_START job may wait for its machines; 0: without end.

    Raises:
        SchedulingError: `max_wait_duration` is no duration.
    """
    given = scheduling.get("max_wait_duration")
    return parse_duration(
        _FLEX_START_WAIT if given is None else given, "scheduling.max_wait_duration"
    )


def check_patience(
    scheduling: Mapping[str, Any],
    provisioning_timeout_seconds: float | None,
) -> None:
    """Refuse a provisioning timeout that would end a FLEX_START job while it may still wait.

    Raises:
        SchedulingError: It would, or there is no end to that wait.
    """
    strategy = parse_strategy(scheduling.get("strategy", 0), "scheduling.strategy")
    if strategy != "FLEX_START" or provisioning_timeout_seconds is None:
        return
    given, wait = scheduling.get("max_wait_duration"), longest_wait(scheduling)
    if wait and provisioning_timeout_seconds >= (wait + _PROVISIONING).total_seconds():
        return
    said = f"{'by default ' if given is None else ''}{wait}" if wait else "0, which is no limit"
    needed = f"at least {(wait + _PROVISIONING).total_seconds():.0f}" if wait else "null"
    raise SchedulingError(
        f"provisioning_timeout_seconds is {provisioning_timeout_seconds:g}, but with FLEX_START a "
        f"job may wait for max_wait_duration ({said}), and its machines need up to 15 minutes "
        "more.",
        variable="provisioning_timeout_seconds",
        hint=f"Set provisioning_timeout_seconds to {needed}, or max_wait_duration to less. Where "
        "other candidates are to keep theirs, write candidates: each entry may have its own, and "
        "null for none.",
    )


def _truth(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")
