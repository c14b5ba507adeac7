"""Composed texts: those that a block's secret went into while a template was filled in.

Prefect resolves references by itself, and only the result comes back. So a block's secrets travel
through it in marks, which tell where each has gone, and are taken out before anything reads them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

# In no text by chance, and hexadecimal inside: neither a shell nor a placeholder splits one.
_OPEN: Final = f"\ue000{uuid4().hex}:"
_CLOSE: Final = "\ue001"
_MARK: Final = re.compile(f"{_OPEN}([0-9a-f]+){_CLOSE}")

_SPLIT: Final = ("command", "args")
"""Keys whose text is split into arguments."""


def marked(value: Any, path: Sequence[str] = ()) -> Any:
    """A copy of a block's data with marks around every text and number below a path.

    Args:
        value: The data; unchanged if there is nothing at the path.
        path: Keys to what is secret, to all of it from a `*` on.
    """
    if path and path[0] != "*":
        if not isinstance(value, Mapping) or path[0] not in value:
            return value
        return {**value, path[0]: marked(value[path[0]], path[1:])}
    if isinstance(value, Mapping):
        return {key: marked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [marked(item) for item in value]
    if isinstance(value, bool) or value is None or value == "" or _is_marked(value):
        return value
    return f"{_OPEN}{json.dumps(value, default=str).encode().hex()}{_CLOSE}"


def without_marks(value: Any, composed: set[str], *, is_split: bool = False) -> Any:
    """A copy without marks.

    Args:
        value: Plain values.
        composed: Gets each text that a secret went into, and each of its words that it went into.
        is_split: Whether it is split into arguments, and a secret in it too.
    """
    if isinstance(value, Mapping):
        return {
            key: without_marks(item, composed, is_split=is_split or key in _SPLIT)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_marks(item, composed) for item in value]
    if not _is_marked(value):
        return value
    words = {word for word in (*_words(value), *value.split()) if _is_marked(word)}
    composed |= {_unmarked(word) for word in words}
    text = _unmarked(value)
    composed.add(text)
    if is_split:
        composed |= {*_words(text)} - {*_words(value)}
    alone = _MARK.fullmatch(value)
    return _secret(alone) if alone is not None else text


def _is_marked(value: object) -> bool:
    return isinstance(value, str) and _OPEN in value


def _unmarked(text: str) -> str:
    return _MARK.sub(lambda match: str(_secret(match)), text)


def _secret(match: re.Match[str]) -> Any:
    return json.loads(bytes.fromhex(match[1]))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # what no shell can split is refused in another place
        return text.split()
