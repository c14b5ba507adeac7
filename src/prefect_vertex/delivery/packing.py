"""The bootstrap as one argument of `python3 -c`: readable in the tree, small in the job.

Pure but for reading this package's own files. A job's command stands in every list page of the
service, so its size is a budget (`MAX_PACKED_BYTES`), and the platform rewrites `$(...)` and `$$`
in commands, so neither the source nor the packed form may hold a dollar sign.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from prefect_vertex.delivery.slimming import slimmed

MAX_PACKED_BYTES = 8000

_PACKAGE = "prefect_vertex.delivery.bootstrap"

_DOLLAR = chr(36)

# Digits to base 90, from the percent sign on: base 85 costs 1.4 % more, base 64 9 %. They hold a
# backslash, so the text must not end with one, but neither a quotation mark nor a dollar sign.
# An empty entry of sys.path is the working directory, where a user's zlib.py may lie.
_BASE = 90
_FIRST_DIGIT = ord("%")
_LOADER = (
    "import sys;sys.path[:]=filter(None,sys.path);import functools,zlib;"
    "exec(zlib.decompress(functools.reduce(lambda n,c:n*90+ord(c)-37,"
    "r\"{payload}\",0).to_bytes({size},'big'),-15))"
)


def _needed(module: ast.Module) -> list[str]:
    """The modules of the package that a module takes names from, in its order."""
    return [
        str(node.module).removeprefix(f"{_PACKAGE}.")
        for node in module.body
        if isinstance(node, ast.ImportFrom) and _is_between(node)
    ]


def _in_order(name: str, done: dict[str, str]) -> dict[str, str]:
    """Add to `done` the text of a module, after those of the modules that it needs."""
    if name not in done:
        text = files(_PACKAGE).joinpath(f"{name}.py").read_text(encoding="utf-8")
        for other in _needed(ast.parse(text)):
            _in_order(other, done)
        done[name] = text
    return done


def join_modules(modules: Iterable[str]) -> str:
    """Make one module of several, each of which comes after those that it takes names from.

    The standard library's imports come first, once; those between the modules go, for every name
    is then where it was imported to.

    Raises:
        ValueError: Two modules bind one name, or one imports a name as another.
    """
    imports: set[str] = set()
    bodies: list[str] = []
    bound: set[str] = set()
    for text in modules:
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                if any(alias.asname for alias in node.names):
                    raise ValueError(f"{ast.unparse(node)!r}: a module to join renames nothing.")
                if not _is_between(node):
                    imports.add(ast.unparse(node))
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text or isinstance(node, ast.Import | ast.ImportFrom):
                for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[number] = ""
            for name in _bound_at_top(node):
                if name in bound:
                    raise ValueError(f"{name!r} is bound by two of the modules to join.")
                bound.add(name)
        bodies.append("\n".join(lines).strip())
    future = "from __future__ import annotations"
    return "\n\n\n".join(["\n".join([future, *sorted(imports - {future})]), *bodies]) + "\n"


def _is_between(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_PACKAGE}.")


def _bound_at_top(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def bootstrap_source() -> str:
    """Return the text of the bootstrap as one module."""
    return join_modules(_in_order("program", {}).values())


def _deflated(text: str) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL + 1)
    return deflate.compress(text.encode()) + deflate.flush()


def _digits(content: bytes) -> str:
    number, digits = int.from_bytes(content, "big"), ""
    while number:
        number, digit = divmod(number, _BASE)
        digits = chr(_FIRST_DIGIT + digit) + digits
    return digits


def pack_source(source: str) -> str:
    """Return the argument of `python3 -c` that runs `source` as `__main__`.

    The same source gives the same text within one build of Python. `source` is such as `slimmed`
    takes.

    Raises:
        ValueError: `source` holds a dollar sign, cannot be made small safely, or its packed form is
            over `MAX_PACKED_BYTES`.
    """
    if _DOLLAR in source:
        raise ValueError("The source holds a dollar sign, which the platform would rewrite.")
    text = slimmed(source)
    while (payload := _digits(compressed := _deflated(text))).endswith("\\"):
        text += "\n"
    packed = _LOADER.format(payload=payload, size=len(compressed))
    if len(packed) > MAX_PACKED_BYTES:
        raise ValueError(f"Packed, the source has {len(packed)} bytes; {MAX_PACKED_BYTES} fit.")
    return packed


@cache
def packed_bootstrap() -> str:
    """Return the bootstrap packed: what stands between `python3 -c` and the command."""
    return pack_source(bootstrap_source())
