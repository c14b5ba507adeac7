"""The bootstrap as one argument of `python3 -c`: readable in the tree, small in the job.

Pure but for reading this package's own files. A job's command stands in every list page of the
service, so its size is a budget (`MAX_PACKED_BYTES`), and the platform rewrites `$(...)` and `$$`
in commands, so neither the source nor the packed form may hold a dollar sign.
"""

from __future__ import annotations

import ast
import base64
import builtins
import itertools
import keyword
import string
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

MAX_PACKED_BYTES = 8000

_PACKAGE = "prefect_vertex.delivery.bootstrap"

_DOLLAR = chr(36)

# Base 85 costs 7 % less than base 64. Its alphabet has the dollar sign but not the comma.
# An empty entry of sys.path is the working directory, where a user's zlib.py may lie.
_LOADER = (
    "import sys;sys.path=[p for p in sys.path if p];import base64,zlib;"
    "exec(zlib.decompress(base64.b85decode('{payload}'.replace(',',chr(36)))))"
)


class _Slimmer(ast.NodeTransformer):
    """Drops what only readers need (docstrings, annotations) and shortens the names bound here.

    A name becomes the same short name in every scope, so scoping stays as it was. Attributes,
    imported names, builtins and keyword arguments keep theirs: the source passes arguments to its
    own functions by position.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Module(self, node: ast.Module) -> ast.Module:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name = self._names.get(node.name, node.name)
        node.returns = None
        node.body = _without_docstring(node.body) or [ast.Pass()]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module in {"__future__", "typing"} else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        node.arg = self._names.get(node.arg, node.arg)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self._names.get(name, name) for name in node.names]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        node.name = self._names.get(node.name or "", node.name or "") or None
        return node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body


def _short_names() -> Iterator[str]:
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_letters, repeat=length):
            yield "".join(letters)


def _renaming(tree: ast.Module) -> dict[str, str]:
    """Map each name that the module binds to a short one, the shortest to the most frequent."""
    bound: set[str] = set()
    taken = {*dir(builtins), *keyword.kwlist}
    uses: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler):
            bound.add(node.name or "")
        elif isinstance(node, ast.alias):
            taken.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name):
            uses[node.id] += 1
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
    bound -= {*taken, ""}
    free = (name for name in _short_names() if name not in taken | uses.keys())
    return dict(zip(sorted(bound, key=lambda name: (-uses[name], name)), free, strict=False))


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


def pack_source(source: str) -> str:
    """Return the argument of `python3 -c` that runs `source` as `__main__`.

    The same source gives the same text within one build of Python. `source` is a plain module of
    functions that passes arguments to its own functions by position, has no string over several
    lines but docstrings, and uses `typing` in annotations only.

    Raises:
        ValueError: `source` holds a dollar sign, or its packed form is over `MAX_PACKED_BYTES`.
    """
    if _DOLLAR in source:
        raise ValueError("The source holds a dollar sign, which the platform would rewrite.")
    tree = ast.parse(source)
    lines = ast.unparse(_Slimmer(_renaming(tree)).visit(tree)).splitlines()
    slim = "\n".join(
        " " * ((len(line) - len(line.lstrip())) // 4) + line.lstrip() for line in lines
    )
    payload = base64.b85encode(zlib.compress(slim.encode(), 9)).decode().replace(_DOLLAR, ",")
    packed = _LOADER.format(payload=payload)
    if len(packed) > MAX_PACKED_BYTES:
        raise ValueError(f"Packed, the source has {len(packed)} bytes; {MAX_PACKED_BYTES} fit.")
    return packed


@cache
def packed_bootstrap() -> str:
    """Return the bootstrap packed: what stands between `python3 -c` and the command."""
    return pack_source(bootstrap_source())
