"""What is hidden: texts of a run that may never be shown, and its variables without them.

A secret is one by its type: a secret setting of Prefect's, a field that a block's schema calls
secret, or a parameter that its flow declares as one. Names that only sound secret say nothing. An
address that names somebody with a password says it itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prefect_vertex.planning.addresses import hidden_in, passwords_in
from prefect_vertex.planning.masking import MASK, masked_data
from prefect_vertex.template.composed import marked
from prefect_vertex.template.declared import texts
from prefect_vertex.template.secrets import secret_names

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import BlockDocument

_KEY = "private_key"
_OF_A_KEY = (_KEY, "private_key_id")
_REFERENCE = "{{"
_ADDRESS = "PREFECT_API_URL"


class NotingClient:
    """A client that remembers what is secret in the blocks that are read through it.

    What it hands out has marks around that, see `composed`.

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
        data = document.data
        for path in _secret_paths(document):
            data = marked(data, path)
        return document.model_copy(update={"data": data})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def secrets_of_block(document: BlockDocument) -> Iterator[str]:
    """The texts in the fields that the block's own schema calls secret.

    Of a service account's key only the key itself: its project and its account are in every
    request.
    """
    for path in _secret_paths(document):
        found: Any = document.data
        for part in path:
            if part == "*" or not isinstance(found, Mapping):
                break
            found = found.get(part)
        yield from texts(found)


def _secret_paths(document: BlockDocument) -> Iterator[list[str]]:
    """Keys to each secret, to all that is there from a `*` on."""
    schema = document.block_schema.fields if document.block_schema is not None else {}
    for field in schema.get("secret_fields") or ():
        path = str(field).partition("*")[0].rstrip(".").split(".")
        path = [part for part in path if part]
        found: Any = document.data
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and found.get(_KEY):
            yield from ([*path, name] for name in _OF_A_KEY)
        else:
            yield path


def secret_texts(values: object) -> Iterator[str]:
    """What secret settings of Prefect's are set to, by name or as entries of name and value.

    And who is named, with a password, in an address anywhere; the API's is hidden as a whole then.
    """
    if isinstance(values, str):
        yield from passwords_in(values)
    elif isinstance(values, Mapping):
        name, value = values.get("name"), values.get("value")
        if isinstance(name, str):
            yield from _secrets_in(name, value)
        for key, item in values.items():
            yield from _secrets_in(_last(key), item)
            if not secret_names([_last(key)]):
                yield from secret_texts(item)
    elif isinstance(values, list | tuple):
        for item in values:
            yield from secret_texts(item)


def passwords_of(values: object) -> Iterator[str]:
    """Who is named, with a password, in an address anywhere in values as somebody wrote them."""
    for text in texts(values):
        yield from passwords_in(text)


def _secrets_in(name: str, value: Any) -> Iterator[str]:
    """What is secret in the value of one variable."""
    if secret_names([name]):
        yield from texts(value)
    elif name.upper() == _ADDRESS and isinstance(value, str):
        yield from hidden_in(value)


def without_secrets(values: Any, hidden: Iterable[str]) -> Any:
    """A copy of job variables with every secret masked; a reference to one may be shown.

    Args:
        values: As a deployment or a flow run has them.
        hidden: Texts that stand nowhere in the copy; the variables' own secrets join them.
    """
    hidden = {*hidden, *passwords_of(values)}
    plain = _without_named(values)
    if not isinstance(plain, Mapping):
        return masked_data(plain, hidden)
    # The variables' own names are no secrets, whatever one may be.
    return {name: masked_data(item, hidden) for name, item in plain.items()}


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
