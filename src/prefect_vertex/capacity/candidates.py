"""Candidates: from a run's job variables to the sets of them that are tried, in order.

Pure: nothing is rendered here. A candidate is one complete set of job variables; the template turns
each into a plan. There are two ways to several: `strategy` and `regions` as lists, which multiply,
or `candidates`, whose entries stand alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.spelling import shown, snake_case

Variables = Mapping[str, Any]
Overlay = Callable[[Variables, Variables], dict[str, Any]]

LEFT_ALONE = frozenset({"env", "labels", "command", "setup_command"})
"""Variables in which `{region}` means nothing: they are the user's code's own."""

_OF_THE_RUN = ("candidates", "regions", "capacity")
# `${region}` is a shell's, `{{ region }}` is Prefect's.
_PLACEHOLDER = re.compile(r"(?<![{$])\{region\}(?!\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What the job variables say about where to try, as they were rendered.

    Attributes:
        region: `region`; empty if it is not set.
        regions: `regions`.
        strategies: `strategy`, which may be a list; empty if it is not set.
        candidates: `candidates`; empty: the product of the others.
    """

    region: str = ""
    regions: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    candidates: tuple[Variables, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableSet:
    """The job variables of one candidate.

    Attributes:
        overrides: What distinguishes it from the run's own variables. A null here means unset,
            whatever the template's default is.
        variables: All of them, `{region}` replaced.
        title: How messages name it; empty where there is no other.
    """

    overrides: Variables
    variables: Variables = field(repr=False)
    title: str = ""


def parse_walk(
    *,
    region: object = None,
    regions: object = None,
    strategy: object = None,
    candidates: object = None,
) -> Walk:
    """Judge the four variables by their form; their values are the plan's to judge.

    Raises:
        PlanError: One is of another type, or `candidates` stands beside what it replaces.
    """
    walk = Walk(
        region=_text(region, "region") if region else "",
        regions=_texts(regions, "regions"),
        strategies=_texts([strategy] if isinstance(strategy, str) else strategy, "strategy"),
        candidates=_entries(candidates),
    )
    several = {
        "regions": bool(walk.regions),
        "a list in strategy": bool(strategy) and not isinstance(strategy, str),
    }
    for what, given in several.items():
        if walk.candidates and given:
            raise PlanError(
                f"candidates is set, and {what} beside it.",
                variable="candidates",
                hint="Write region and strategy into each candidate, or leave candidates out.",
            )
    return walk


def expand(
    variables: Variables,
    walk: Walk,
    overlay: Overlay,
) -> tuple[tuple[VariableSet, ...], tuple[str, ...]]:
    """The sets of job variables to try, in order, and what the user should know about them.

    Each strategy in turn, and under each the region, then the regions; or the entries of
    `candidates` as they stand. One that is there twice is tried once, in its first place: a second
    try within a pass would meet the same answer and use up an attempt.

    Args:
        variables: The run's, the template's defaults included; not changed.
        walk: What they say about where to try.
        overlay: Lays one level of job variables over another, without changing either.
    """
    kept: dict[str, tuple[Variables, dict[str, Any], str]] = {}
    warnings: list[str] = []
    for overrides in _overrides(walk):
        region = overrides.get("region") if "region" in overrides else walk.region
        filled = fill_region(overlay(variables, overrides), region)
        place = _place(region, filled.get("strategy"))
        if kept.setdefault(_key(filled), (overrides, filled, place))[0] is not overrides:
            warnings.append(f"The candidate {place} is there twice; it is tried once in a pass.")
    return tuple(
        VariableSet(
            overrides=overrides,
            variables=filled,
            title=f"candidate {number} of {len(kept)} {place}" if len(kept) > 1 else "",
        )
        for number, (overrides, filled, place) in enumerate(kept.values(), start=1)
    ), tuple(dict.fromkeys(warnings))


def fill_region(variables: Variables, region: object) -> dict[str, Any]:
    """The same variables with `{region}` replaced in every string, nested ones included.

    Left alone are `env`, `labels`, `command` and `setup_command`, as variables and as keys further
    in, and what says where to try. Without a region nothing is replaced.
    """
    if not isinstance(region, str) or not region.strip():
        return dict(variables)
    untouched = LEFT_ALONE.union(_OF_THE_RUN, ("region", "strategy"))
    return {
        name: value if name in untouched else _filled(value, region.strip())
        for name, value in variables.items()
    }


@contextmanager
def naming(title: str) -> Iterator[None]:
    """Put the candidate's title before a mistake that is found inside; none if it is empty."""
    try:
        yield
    except PlanError as error:
        if not title or error.message.startswith(title):
            raise
        message = f"{title}: {error.message}"
        raise type(error)(message, variable=error.variable, hint=error.hint) from error


def _overrides(walk: Walk) -> Iterator[Variables]:
    if walk.candidates:
        yield from walk.candidates
        return
    regions = [region for region in (walk.region, *walk.regions) if region]
    for strategy in walk.strategies or ("",):
        for region in regions or ("",):
            given = {"region": region, "strategy": strategy}
            yield {name: value for name, value in given.items() if value}


def _entries(given: object) -> tuple[Variables, ...]:
    if not given:
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise PlanError(
            f"candidates is {shown(given)}, expected a list of mappings.",
            variable="candidates",
            hint="Write for example [{region: us-east1, strategy: SPOT}, {region: us-east1}].",
        )
    for index, entry in enumerate(given):
        if not isinstance(entry, Mapping):
            raise PlanError(
                f"candidates[{index}] is {shown(entry)}, expected a mapping of job variables.",
                variable="candidates",
            )
        for key in entry:
            # `capacity.max_attempts` reaches into it.
            name = str(key).partition(".")[0]
            if name in _OF_THE_RUN:
                raise PlanError(
                    f"candidates[{index}] has {key}, which says how the whole run is tried.",
                    variable="candidates",
                    hint=f"Set {key} beside candidates."
                    if name == "capacity"
                    else "Write one entry for each place to try.",
                )
        if isinstance(entry.get("strategy"), list | tuple):
            raise PlanError(
                f"candidates[{index}].strategy is a list; a candidate has one strategy.",
                variable="candidates",
                hint="Write one entry for each strategy.",
            )
    return tuple(_trimmed(entry) for entry in given)


def _trimmed(entry: Variables) -> Variables:
    region = entry.get("region")
    return {**entry, "region": region.strip()} if isinstance(region, str) else entry


def _texts(given: object, name: str) -> tuple[str, ...]:
    if not given:
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        expected = "a text or a list of texts" if name == "strategy" else "a list of texts"
        raise PlanError(f"{name} is {shown(given)}, expected {expected}.", variable=name)
    return tuple(_text(item, f"{name}[{index}]") for index, item in enumerate(given))


def _text(value: object, name: str) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise PlanError(
            f"{name} is {shown(value)}, expected a text.",
            variable=name.partition("[")[0],
        )
    return text


def _filled(value: Any, region: str) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda _: region, value)
    if isinstance(value, Mapping):
        if _patches_left_alone(value):
            return dict(value)
        return {
            key: item if key in LEFT_ALONE else _filled(item, region) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_filled(item, region) for item in value]
    return value


def _patches_left_alone(operation: Mapping[str, Any]) -> bool:
    """Whether it is a JSON Patch operation on what `{region}` means nothing in."""
    path = operation.get("path")
    return (
        "op" in operation and isinstance(path, str) and not LEFT_ALONE.isdisjoint(path.split("/"))
    )


def _key(variables: Variables) -> str:
    """What two candidates share when they would be the same job: a null or blank is unset."""
    told = {
        name: value
        for name, value in variables.items()
        if name not in _OF_THE_RUN
        and value is not None
        and not (isinstance(value, str) and not value.strip())
    }
    if isinstance(told.get("strategy"), str):
        told["strategy"] = snake_case(told["strategy"]).upper()
    return json.dumps(told, sort_keys=True, default=repr)


def _place(region: object, strategy: object) -> str:
    parts = [
        str(region or "no region"),
        snake_case(strategy).upper() if isinstance(strategy, str) else "",
    ]
    return f"({', '.join(part for part in parts if part)})"
