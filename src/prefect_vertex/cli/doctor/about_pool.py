"""The pool as Prefect has it: its type, its template, its workers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from prefect_vertex.cli.doctor.finding import Finding, failed, ok, warning
from prefect_vertex.errors import PlanError
from prefect_vertex.template.carried_over import OURS, PREFECT_GCP, lacking
from prefect_vertex.template.names import unused

_OF_THE_FORM = frozenset({"title", "description", "default", "examples", "order", "position"})
"""Keys of a variable's schema that do not change what it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """What Prefect says of a pool.

    Attributes:
        online: Names of its workers that are online.
        offline: Names of those that are not.
    """

    name: str
    kind: str
    paused: bool = False
    online: Sequence[str] = ()
    offline: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How a pool's template differs from this version's, by names of variables.

    Attributes:
        missing: Ours that it does not declare.
        unknown: Declared there, and none of ours.
        changed: Declared with another type than ours; defaults are the pool's own business.
        idle: Declared, and used nowhere in its job_configuration.
    """

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What differs, a sentence for each kind."""
        said = (
            ("It lacks", self.missing),
            ("Not of this version:", self.unknown),
            ("Of another type than in this version:", self.changed),
            ("Without effect, as its job_configuration does not use them:", self.idle),
        )
        return tuple(f"{start} {', '.join(names)}." for start, names in said if names)


def about_kind(facts: PoolFacts) -> Finding:
    """Whose pool it is."""
    quoted = shlex.quote(facts.name)
    try:
        check_kind(facts.name, facts.kind)
    except PlanError as error:
        return failed("work pool", error.message, error.hint)
    if facts.paused:
        return warning(
            "work pool",
            f"{facts.name} is paused: its runs wait.",
            f"prefect work-pool resume {quoted}",
        )
    if facts.kind == PREFECT_GCP:
        return ok("work pool", f"{facts.name}, made for prefect-gcp's worker; it works with ours.")
    return ok("work pool", f"{facts.name}, type {OURS}.")


def check_kind(name: str, kind: str) -> None:
    """Refuse a pool that another kind of worker serves.

    Raises:
        PlanError: It is one; the hint is the command that makes one of ours.
    """
    if kind not in {OURS, PREFECT_GCP}:
        raise PlanError(
            f"{name} is of type {kind}, which this worker does not serve.",
            hint=f"prefect work-pool create {shlex.quote(f'{name}-vertex')} --type {OURS}",
        )


def about_workers(facts: PoolFacts) -> Finding:
    """Whether anybody takes its runs."""
    start = f"prefect worker start --pool {shlex.quote(facts.name)}"
    if facts.kind != OURS:
        start += f" --type {OURS}"
    if facts.online:
        return ok("worker", f"online: {', '.join(facts.online)}.")
    if facts.offline:
        return warning("worker", f"None is online; was: {', '.join(facts.offline)}.", start)
    return warning("worker", "None has ever started: runs stay Scheduled.", start)


def drift_of(template: Mapping[str, Any], ours: Mapping[str, Any]) -> Drift:
    """Compare a pool's base job template with this version's."""
    declared, known = _properties(template), _properties(ours)
    return Drift(
        missing=lacking(template),
        unknown=tuple(sorted(name for name in declared if name not in known)),
        changed=tuple(
            name
            for name in known
            if name in declared and _kind(declared[name]) != _kind(known[name])
        ),
        idle=tuple(name for name in unused(template) if name in known),
    )


def about_template(facts: PoolFacts, drift: Drift) -> Finding:
    """Whether the pool's template is this version's."""
    if not drift.lines:
        return ok("template", "As this version's, but for its defaults.")
    quoted = shlex.quote(facts.name)
    return warning(
        "template",
        " ".join(drift.lines),
        f"prefect-vertex doctor --pool {quoted} --template > template.json && "
        f"prefect work-pool update {quoted} --base-job-template template.json",
    )


def renewed_template(template: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """This version's template with what the pool has of its own.

    Kept are the pool's defaults, its own variables, and whatever it set in job_configuration; what
    it lacks is added.
    """
    renewed: dict[str, Any] = deepcopy(dict(ours))
    properties: dict[str, Any] = renewed["variables"]["properties"]
    for name, schema in _properties(template).items():
        if name not in properties:
            properties[name] = deepcopy(schema)
        elif isinstance(schema, Mapping) and "default" in schema:
            properties[name]["default"] = deepcopy(schema["default"])
    variables = template.get("variables") or {}
    if definitions := variables.get("definitions"):
        renewed["variables"]["definitions"] = {
            **definitions,
            **renewed["variables"].get("definitions", {}),
        }
    if required := variables.get("required"):
        renewed["variables"]["required"] = list(
            dict.fromkeys([*renewed["variables"].get("required", []), *required])
        )
    renewed["job_configuration"] = _over(
        renewed["job_configuration"], template.get("job_configuration") or {}
    )
    return renewed


def _over(lower: Any, upper: Any) -> Any:
    """One JSON value over another: mappings by key, lists by place, anything else replaced."""
    if isinstance(lower, Mapping) and isinstance(upper, Mapping):
        both = {**lower, **upper}
        return {key: _over(lower.get(key), upper.get(key, lower.get(key))) for key in both}
    if isinstance(lower, list) and isinstance(upper, list):
        pairs = zip(lower, upper, strict=False)
        return [_over(*pair) for pair in pairs] + lower[len(upper) :] + upper[len(lower) :]
    return deepcopy(upper)


def _properties(template: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (template.get("variables") or {}).get("properties")
    return found if isinstance(found, Mapping) else {}


def _kind(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    return {key: value for key, value in schema.items() if key not in _OF_THE_FORM}
