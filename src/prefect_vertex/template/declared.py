"""Declared: which of a run's parameters are secret, by the schema that its flow gave.

Pydantic's secret types are `password`s there. Nothing else says of a parameter whether it is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect_vertex.planning.masking import MASK, masked_data


def declared_secrets(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> frozenset[str]:
    """The texts of what a flow declares as secret, to be hidden wherever else they stand."""
    return frozenset(_judged(parameters, schema).secrets)


def parameters_without_secrets(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None, hidden: Iterable[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A copy of a run's parameters without secrets, and the names of those that are left out.

    Left out is what holds a text and is described by no schema, so that it may be a secret.

    Args:
        parameters: As the run has them.
        schema: The deployment's parameter schema; None where there is no deployment.
        hidden: Texts that stand nowhere in the copy; the declared secrets join them.
    """
    judged = _judged(parameters, schema)
    known = _mapping(schema, "properties")
    unjudged = tuple(
        name for name, value in parameters.items() if name not in known and any(_holds_text(value))
    )
    secrets = {*hidden, *judged.secrets}
    kept = {
        name: masked_data(value, secrets)
        for name, value in judged.values.items()
        if name not in unjudged
    }
    return kept, unjudged


def texts(value: object) -> Iterator[str]:
    """Every text and number in a value, as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _holds_text(value: object) -> Iterator[bool]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _holds_text(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _holds_text(item)
    else:
        yield isinstance(value, str) and value != ""


@dataclass
class _Judged:
    """Parameters that were held against their schema.

    Attributes:
        root: The whole schema, which references lead through.
        values: The parameters, secrets masked.
        secrets: The texts of what was masked.
    """

    root: Mapping[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)

    def judge(self, value: Any, schema: Any, seen: frozenset[str] = frozenset()) -> Any:
        """A copy with what the schema calls secret masked.

        Args:
            value: Part of a parameter.
            schema: What describes it.
            seen: References that led here from the same value: one to itself describes nothing.
        """
        if not isinstance(schema, Mapping) or value is None:
            return value
        if schema.get("writeOnly") is True or schema.get("format") == "password":
            self.secrets |= {text for text in texts(value) if text != MASK}
            return MASK
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            value = self.judge(value, self._referred(reference), seen | {reference})
        for part in _alternatives(schema):
            value = self.judge(value, part, seen)
        if isinstance(value, Mapping):
            return {
                self._key(key, schema): self._member(key, item, schema)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self.judge(item, each) for item, each in zip(value, _of_items(schema), strict=False)
            ]
        return value

    def _key(self, key: Any, schema: Mapping[str, Any]) -> Any:
        return self.judge(key, schema.get("propertyNames"))

    def _member(self, key: Any, item: Any, schema: Mapping[str, Any]) -> Any:
        properties = _mapping(schema, "properties")
        if key in properties:
            return self.judge(item, properties[key])
        patterns = _mapping(schema, "patternProperties")
        matching = [each for pattern, each in patterns.items() if _matches(pattern, str(key))]
        for each in matching or [schema.get("additionalProperties")]:
            item = self.judge(item, each)
        return item

    def _referred(self, reference: str) -> Any:
        """What `#/definitions/Name` names."""
        found: Any = self.root
        for part in reference.removeprefix("#/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _judged(parameters: Mapping[str, Any], schema: Mapping[str, Any] | None) -> _Judged:
    judged = _Judged(root=schema or {})
    known = _mapping(schema, "properties")
    judged.values = {name: judged.judge(item, known.get(name)) for name, item in parameters.items()}
    return judged


def _mapping(schema: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    found = (schema or {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Any]:
    for kind in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(kind)
        yield from parts if isinstance(parts, list) else ()
    yield from (schema.get(kind) for kind in ("if", "then", "else"))


def _of_items(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schema of each item, endlessly: first those of a tuple's places, then the others'."""
    items = schema.get("items")
    # Drafts before 2020-12 have a tuple's places in `items`, and the others in `additionalItems`.
    first, others = (
        (items, schema.get("additionalItems"))
        if isinstance(items, list)
        else (schema.get("prefixItems"), items)
    )
    yield from first if isinstance(first, list) else ()
    while True:
        yield others


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:  # not one of Python's: rather hidden than shown
        return True
