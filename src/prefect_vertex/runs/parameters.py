"""Whether parameters reach the container as they were given.

Prefect stores a flow run's parameters as JSON, and a bundled flow runs with what was stored.  What
JSON cannot say is replaced there without a word: NaN by null, a secret by asterisks, an object by a
placeholder.  The container then validates by the flow's annotations, so that a date or a model that
JSON spells out comes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

from prefect.flows import Flow
from pydantic import Secret, SecretBytes, SecretStr, TypeAdapter

from prefect_vertex.errors import PlanError


def check_parameters(flow: Flow[..., Any], parameters: Mapping[str, Any]) -> None:
    """See that each parameter arrives, before there is a flow run that would have another.

    Raises:
        PlanError: One would not; the message holds no secret.
    """
    stored = flow.serialize_parameters(dict(parameters))
    for name, encoded in stored.items():
        lost = next(_lost(parameters[name], _as_stored(encoded), name), None)
        if lost is not None:
            path, part = _smallest(flow, *lost)
            known = isinstance(part, float)
            shown = repr(float(part)) if known else f"of type {type(part).__name__}"
            raise PlanError(
                f"Parameter {path} of flow {flow.name!r} is {shown}, which JSON cannot say: "
                "the flow would run with another value.",
                hint=_advice(part),
            )


def _smallest(flow: Flow[..., Any], path: str, value: Any) -> tuple[str, Any]:
    """The innermost part that cannot be stored; for want of it Prefect stores nothing around it."""
    for key, part in _parts(value):
        encoded = flow.serialize_parameters({path: part})[path]
        lost = next(_lost(part, _as_stored(encoded), f"{path}[{key!r}]"), None)
        if lost is not None:
            return _smallest(flow, *lost)
    return path, value


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple | AbstractSet):
        yield from enumerate(value)


def _as_stored(encoded: Any) -> Any:
    """What Prefect's API keeps; it has null for NaN and infinity."""
    try:
        return json.loads(json.dumps(encoded), parse_constant=lambda _: None)
    except (TypeError, ValueError):
        return None


def _lost(value: Any, stored: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts of a value that were stored as another."""
    if isinstance(value, Enum):
        yield from _lost(value.value, stored, path)
    elif isinstance(value, Mapping) and isinstance(stored, dict) and len(stored) == len(value):
        for key, part in zip(value, stored, strict=True):
            yield from _lost(value[key], stored[part], f"{path}[{key!r}]")
    elif isinstance(value, list | tuple | AbstractSet) and isinstance(stored, list):
        if len(value) != len(stored):
            yield path, value
            return
        for index, (part, kept) in enumerate(zip(value, stored, strict=True)):
            yield from _lost(part, kept, f"{path}[{index}]")
    elif not _same(value, stored):
        yield path, value


def _same(value: Any, stored: Any) -> bool:
    """Whether what was stored is the value, or is read as it by its type or one above it."""
    if value is None or isinstance(value, bool | int | float | str):
        return bool(value == stored)
    for kind in type(value).__mro__[:-1]:
        try:
            back: object = TypeAdapter(kind).validate_json(json.dumps(stored))
            if bool(back == value):
                return True
        except Exception:  # noqa: BLE001, S112 - a type of the user's may raise anything
            continue
    return False


def _advice(part: Any) -> str:
    if isinstance(part, float):
        return "Pass None or a text, and convert it in the flow."
    if isinstance(part, Secret | SecretStr | SecretBytes):
        return "Keep it in a Prefect Secret block, pass the block's name and load it in the flow."
    return "Pass plain values, or make it in the flow."
