"""The candidates of a run: which sets of job variables its template is rendered with.

The first rendering says where to try; each candidate is then rendered for itself, because it may
override any variable, a reference to a block included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

from prefect_vertex.capacity.candidates import (
    VariableSet,
    expand,
    fill_region,
    naming,
    parse_walk,
)
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.template.names import check_names
from prefect_vertex.template.render import layered
from prefect_vertex.template.variables import VertexVariables


class Rendered(Protocol):
    """What the run's own variables, rendered, say about where to try."""

    region: str | None
    regions: list[str]
    strategy: str | list[str] | None
    candidates: list[Any]


def variable_sets(
    template: Mapping[str, Any],
    values: Mapping[str, Any],
    rendered: Rendered,
) -> tuple[tuple[VariableSet, ...], tuple[str, ...]]:
    """The sets of job variables to render, in order, and warnings.

    None at all where what is rendered already is the only candidate.

    Raises:
        PlanError: They contradict each other, or a candidate has a name that the template does not
            know and says that there may be no others.
    """
    variables = {**_defaults(template), **values}
    entries = variables.get("candidates") if "candidates" in _properties(template) else None
    walk = parse_walk(
        region=rendered.region,
        regions=rendered.regions,
        strategy=rendered.strategy,
        candidates=entries if isinstance(entries, list) else rendered.candidates,
    )
    warnings: list[str] = []
    for index, entry in enumerate(walk.candidates):
        with naming(f"candidates[{index}]"):
            names = {name.partition(".")[0] for name in entry}
            warnings += check_names(template, names, ours=VertexVariables.model_fields)
    sets, found = expand(variables, walk, layered)
    is_one = not walk.candidates and len(sets) == 1 and not isinstance(rendered.strategy, list)
    if is_one and fill_region(variables, walk.region) == variables:
        return (), tuple(found)
    return sets, (*warnings, *found)


def without_entries(template: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The same job variables for one rendering: no candidate's own are in it.

    A reference in one of them is resolved where that candidate is rendered, and its mistake is
    said there.
    """
    entries = {**_defaults(template), **values}.get("candidates")
    return {**values, "candidates": []} if isinstance(entries, list) else dict(values)


def placed(template: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The template with a candidate's own place: it may have one where ours has the variable."""
    own = {name: overrides[name] for name in ("region", "strategy") if overrides.get(name)}
    return {**template, "job_configuration": {**template["job_configuration"], **own}}


def check_persistent_resources(candidates: Sequence[Candidate]) -> None:
    """Refuse one persistent resource for candidates in several locations: it is in one.

    Raises:
        PlanError: There is such a one.
    """
    places: dict[str, set[str]] = {}
    for candidate in candidates:
        name = candidate.job_spec.get("persistent_resource_id")
        if isinstance(name, str) and name:
            places.setdefault(name, set()).add(candidate.location)
    for name, locations in places.items():
        if len(locations) > 1:
            raise PlanError(
                f"persistent_resource_id is {name} in {' and '.join(sorted(locations))}; a "
                "persistent resource is in one location.",
                variable="persistent_resource_id",
                hint="Leave regions out, or name one for each region, for example with {region}.",
            )


def _properties(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return (template.get("variables") or {}).get("properties") or {}


def _defaults(template: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: deepcopy(schema["default"])
        for name, schema in _properties(template).items()
        if isinstance(schema, Mapping) and schema.get("default") is not None
    }
