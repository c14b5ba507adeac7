"""What is hidden: texts of a run that may never be shown, and its variables without them.

A secret is one by its type: a secret setting of Prefect's, a field that a block's schema calls
secret, or a parameter that its flow declares as one. Names that only sound secret say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prefect_vertex.planning.masking import MASK, masked
from prefect_vertex.template.secrets import secret_names

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import BlockDocument

_KEY = "private_key"
_OF_A_KEY = (_KEY, "private_key_id")
_REFERENCE = "{{"
_DEEPEST = 50
"""Of a schema: one that refers to itself describes no value."""


class NotingClient:
    """A client that remembers what is secret in the blocks that are read through it.

    Args:
        client: Does the reading.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self.secrets: set[str] = set()

    async def read_block_document_by_name(self, *args: Any, **options: Any) -> BlockDocument:
        """Read a block, by its name."""
        return self._noted(await self._client.read_block_document_by_name(*args, **options))

    async def read_block_document(self, *args: Any, **options: Any) -> BlockDocument:
        """Read a block, by its id."""
        return self._noted(await self._client.read_block_document(*args, **options))

    def _noted(self, document: BlockDocument) -> BlockDocument:
        self.secrets |= set(secrets_of_block(document))
        return document

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def secrets_of_block(document: BlockDocument) -> Iterator[str]:
    """The texts in the fields that the block's own schema calls secret.

    Of a service account's key only the key itself: its project and its account are in every
    request.
    """
    schema = document.block_schema.fields if document.block_schema is not None else {}
    for path in schema.get("secret_fields") or ():
        found: Any = document.data
        for part in str(path).split("."):
            if part == "*" or not isinstance(found, Mapping):
                break
            found = found.get(part)
        if isinstance(found, Mapping) and found.get(_KEY):
            found = [found.get(name) for name in _OF_A_KEY]
        yield from _texts(found)


def secret_texts(values: object) -> Iterator[str]:
    """What secret settings of Prefect's are set to, by name or as entries of name and value."""
    if isinstance(values, Mapping):
        name, value = values.get("name"), values.get("value")
        if isinstance(name, str) and secret_names([name]):
            yield from _texts(value)
        for key, item in values.items():
            if secret_names([_last(key)]):
                yield from _texts(item)
            else:
                yield from secret_texts(item)
    elif isinstance(values, list | tuple):
        for item in values:
            yield from secret_texts(item)


def without_secrets(values: Any, hidden: Iterable[str]) -> Any:
    """A copy of job variables with every secret masked; a reference to one may be shown.

    Args:
        values: As a deployment or a flow run has them.
        hidden: Texts that stand nowhere in the copy.
    """
    return masked(_without_named(values), hidden)


def _without_named(values: Any) -> Any:
    if isinstance(values, Mapping):
        named = isinstance(values.get("name"), str) and secret_names([values["name"]])
        return {
            key: MASK
            if _is_secret_key(str(key), item) or (named and key == "value")
            else _without_named(item)
            for key, item in values.items()
        }
    if isinstance(values, list | tuple):
        return [_without_named(item) for item in values]
    return values


def _is_secret_key(key: str, value: Any) -> bool:
    if value is None or (isinstance(value, str) and _REFERENCE in value):
        return False
    return bool(secret_names([_last(key)])) or _last(key) == "service_account_info"


def _last(key: object) -> str:
    """The name behind the last dot: `env.PREFECT_API_KEY` sets the variable of that name."""
    return str(key).rpartition(".")[2]


def parameters_without_secrets(
    parameters: Mapping[str, Any], schema: Mapping[str, Any] | None, hidden: Iterable[str]
) -> dict[str, Any]:
    """A copy of a run's parameters in which what its flow declares as secret is masked.

    Args:
        parameters: As the run has them.
        schema: The deployment's parameter schema, where pydantic's secret types are `password`s.
        hidden: Texts that stand nowhere in the copy.
    """
    properties = (schema or {}).get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    found = {
        name: _by_schema(value, known.get(name), schema or {}, 0)
        for name, value in parameters.items()
    }
    result: dict[str, Any] = masked(found, hidden)
    return result


def _by_schema(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or value is None or depth > _DEEPEST:
        return value
    if schema.get("writeOnly") or schema.get("format") == "password":
        return MASK
    if isinstance(reference := schema.get("$ref"), str):
        value = _by_schema(value, _referred(reference, root), root, depth + 1)
    for kind in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(kind) or ():
            value = _by_schema(value, part, root, depth + 1)
    if isinstance(value, Mapping):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            key: _by_schema(item, properties.get(key, others), root, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_by_schema(item, schema.get("items"), root, depth + 1) for item in value]
    return value


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    """What `#/definitions/Name` names."""
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
