"""Environment values that cannot travel as they are: packed into numbered variables.

`PREFECT_VERTEX_ENV_0`, `_1`, … hold, together, the base 64 of a compressed JSON object of names and
values. `unpacking` is the other end: the line of Python that stands before the bootstrap.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping

PREFIX = "PREFECT_VERTEX_ENV_"

MAX_PART_BYTES = 96_000
"""Of one variable's value; with its name it stays well below what Linux takes (131,071)."""

_OURS = re.compile(rf"^{PREFIX}\d+$")

# An empty entry of sys.path is the working directory, where a user's zlib.py may lie.
_UNPACKING = (
    "import sys;sys.path=[p for p in sys.path if p];import base64,json,os,zlib;"
    "os.environ.update(json.loads(zlib.decompress(base64.b64decode("
    "''.join(os.environ.pop('{prefix}%d'%i)for i in range({parts}))))))"
)


def is_part(name: str) -> bool:
    """Whether an environment variable of this name is one of the numbered ones."""
    return _OURS.fullmatch(name) is not None


def pack(values: Mapping[str, str]) -> dict[str, str]:
    """The numbered variables that hold `values`, none for none; equal values give equal ones."""
    if not values:
        return {}
    text = json.dumps(dict(values), sort_keys=True, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    parts = range(0, len(packed), MAX_PART_BYTES)
    return {
        f"{PREFIX}{number}": packed[start : start + MAX_PART_BYTES]
        for number, start in enumerate(parts)
    }


def unpacked(env: Mapping[str, str]) -> dict[str, str]:
    """The values that the numbered variables in `env` hold; none where there are none."""
    parts = [env[f"{PREFIX}{number}"] for number in range(len(env)) if f"{PREFIX}{number}" in env]
    if not parts:
        return {}
    values: dict[str, str] = json.loads(zlib.decompress(base64.b64decode("".join(parts))))
    return values


def unpacking(parts: int) -> str:
    """Python (3.9 or newer) that puts the values into the environment; empty where none travel.

    It holds no dollar sign, and takes the numbered variables away, so that no child inherits both.
    """
    return _UNPACKING.format(prefix=PREFIX, parts=parts) if parts else ""
