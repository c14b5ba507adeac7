"""Names of job variables against a pool's template: those it does not have, or does not use."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prefect.utilities.templating import find_placeholders

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.spelling import closest
from prefect_vertex.template.render import is_unset


def check_names(
    template: Mapping[str, Any],
    names: Iterable[str],
    *,
    ours: Iterable[str] = (),
) -> tuple[str, ...]:
    """Judge the names of job variables by the pool's own template.

    Args:
        template: The pool's.
        names: The variables that are set, without what follows a dot.
        ours: All that this package knows: one of them is not misspelt, the template is older.

    Returns:
        A warning for each that the template does not have or does not use, and so leaves without
        effect.

    Raises:
        PlanError: There is one, and the template says that there may be no others.
    """
    schema = template.get("variables") or {}
    known = schema.get("properties") or {}
    given = sorted(names)
    idle = tuple(
        f"job variable {name!r} has no effect: the job_configuration of this work pool's template "
        "does not use it."
        for name in given
        if name in known and name not in _used(template)
    )
    unknown = [name for name in given if name not in known]
    if not unknown:
        return idle
    newer = frozenset(ours)
    lines = [_unknown(name, known, is_ours=name in newer) for name in unknown]
    if schema.get("additionalProperties") is False:
        raise PlanError(lines[0], variable=unknown[0])
    return (*(f"{line} It has no effect." for line in lines), *idle)


def unused(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Job variables that a template declares and then uses nowhere."""
    declared = (template.get("variables") or {}).get("properties") or {}
    used = _used(template)
    return tuple(name for name in declared if name not in used)


def without_effect(template: Mapping[str, Any], values: Mapping[str, Any]) -> frozenset[str]:
    """Job variables that have a value which a template uses nowhere.

    Args:
        template: The pool's.
        values: The job variables that are set; the template's defaults count as set too.
    """
    declared = (template.get("variables") or {}).get("properties") or {}
    defaults = {
        name: schema.get("default") for name, schema in declared.items() if isinstance(schema, dict)
    }
    given = {name for name, value in {**defaults, **values}.items() if not is_unset(value)}
    return frozenset(given - _used(template))


@contextmanager
def explaining(idle: Container[str]) -> Iterator[None]:
    """Say of a mistake found inside that its variable is set, but not used by the template.

    Args:
        idle: As from `without_effect`.
    """
    try:
        yield
    except PlanError as error:
        variable = error.variable
        if not variable or variable not in idle:
            raise
        raise type(error)(
            f"job variable {variable!r} is set, but the job_configuration of this work pool's base "
            f"job template does not use it; without it: {error.message}",
            variable=variable,
            hint=f"Put {{{{ {variable} }}}} back where `prefect work-pool "
            "get-default-base-job-template --type vertex-custom-job` has it.",
        ) from error


def _used(template: Mapping[str, Any]) -> frozenset[str]:
    body = template.get("job_configuration") or {}
    used = {found.name.partition(".")[0] for found in find_placeholders(body)}
    # Prefect merges env into a mapping that the template has in its place.
    if isinstance(body, Mapping) and isinstance(body.get("env"), Mapping):
        used.add("env")
    return frozenset(used)


def _unknown(name: str, known: Iterable[str], *, is_ours: bool) -> str:
    line = f"job variable {name!r} is not one of this work pool's"
    if is_ours:
        return f"{line}: its base job template does not have it, and would have to be updated."
    near = closest(name, known)
    return f"{line}; the closest is {near!r}." if near else f"{line}."
