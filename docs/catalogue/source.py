"""Every message of the product, read from its source.

A message is a text of the source with `…` for whatever is filled in.  Every text of three words or
more is one unless a rule says why it is none, so that a new one cannot be overlooked.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from catalogue import rules

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src" / "prefect_vertex"

GAP: Final = "…"
"""Stands for whatever is filled in."""

_COMMAND: Final = re.compile(
    r"gcloud (?:ai|artifacts|auth|beta|builds|iam|projects|secrets|services|storage)\b"
    r"|prefect (?:cloud|config|deployment|flow-run|work-pool|worker)\b"
    r"|prefect-vertex (?:doctor|jobs|plan)\b|(?:import|from) "
)
"""Beginnings of commands to be copied, and of code."""

_WORD: Final = re.compile(r"\S*[^\W\d_]\S*")
_FILLED: Final = re.compile(r"%(?:\.\d)?[dfgrs]|\{\}|…+")
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_ALL_PIECES: Final = frozenset(text for texts in rules.PIECES.values() for text in texts)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a message stands."""

    path: str
    line: int

    def __str__(self) -> str:
        """As editors take it."""
        return f"{self.path}:{self.line}"


Found = Mapping[str, list[Place]]
"""Messages, each with its places."""


def messages() -> Found:
    """Every message of the product, and where it is made."""
    found: dict[str, list[Place]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module.split("/")[0] in rules.OTHER_FOLDERS or module in rules.SILENT_MODULES:
            continue
        for text, line in messages_in(path.read_text(encoding="utf-8")):
            found[text].append(Place(path.relative_to(ROOT).as_posix(), line))
    return found


def messages_in(source: str) -> Iterator[tuple[str, int]]:
    """The messages of one module, with their lines."""
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in _texts(tree):
        around = [node]
        while around[-1] in above and not isinstance(around[-1], _FUNCTION):
            around.append(above[around[-1]])
        text = _normal(_template(node) or "")
        if _is_message(text, around):
            yield text, getattr(node, "lineno", 0)


def unused_rules() -> list[str]:
    """Modules and texts that rules name and the source no longer has."""
    seen: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        seen |= {_normal(_template(node) or "") for node in _texts(tree)}
    gone = [module for module in rules.SILENT_MODULES if not (SOURCE / module).exists()]
    return gone + sorted(_ALL_PIECES - seen)


def _template(node: ast.AST) -> str | None:
    """A text with its gaps; None if the node is no text.  Texts joined by `+` are one."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_template(node.left), _template(node.right)]
        return "".join(part or GAP for part in parts) if any(parts) else None
    return None


def _normal(text: str) -> str:
    """One line, with one gap for whatever is filled in."""
    return " ".join(_FILLED.sub(GAP, text).split())


def _texts(node: ast.AST) -> Iterator[ast.AST]:
    """Every outermost text, and those within its gaps."""
    if _template(node) is not None:
        yield node
        yield from _texts_in_gaps(node)
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _texts_in_gaps(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _texts(part.value)
    elif isinstance(node, ast.BinOp):
        for side in (node.left, node.right):
            yield from _texts_in_gaps(side) if _template(side) is not None else _texts(side)


def _is_message(text: str, around: list[ast.AST]) -> bool:
    """Whether a text is a message, by what stands around it, the innermost first."""
    words = len(_WORD.findall(text.replace(GAP, " ")))
    if not words or " " not in text or _COMMAND.match(text) or text in _ALL_PIECES:
        return False
    if isinstance(around[1], ast.Expr | ast.Compare | ast.Subscript | ast.MatchValue):
        return False  # a docstring, a key, a word to look for
    if any(_is_harmless(inner, outer, around[-2]) for inner, outer in pairwise(around)):
        return False
    is_loud = any(
        isinstance(each, ast.Raise)
        or _name_of(each) in rules.LOUD_CALLS
        or (isinstance(each, ast.Call) and _name_of(each).endswith("Error"))
        for each in around
    )
    return words >= (1 if is_loud else rules.LEAST_WORDS)


def _is_harmless(inner: ast.AST, outer: ast.AST, statement: ast.AST) -> bool:
    """Whether being this part of this says that a text is no message."""
    name = _name_of(outer)
    if isinstance(outer, ast.Call) and inner is outer.func:
        return False  # a method of the text itself
    if isinstance(outer, _FUNCTION):
        return name in rules.REMEDY_FUNCTIONS
    if name in rules.QUIET_NAMES | rules.PROGRESS | rules.PIECE_CALLS or rules.REMEDY.match(name):
        return True
    if isinstance(outer, ast.Call):
        called, *given = [ast.unparse(each) for each in (outer.func, *outer.args)]
        if called == "sys.stdout.write" or "logging.INFO" in given:
            return True
        alone = rules.ONE_ARGUMENT.get(name) if isinstance(outer.func, ast.Name) else None
        return alone is not None and inner is not outer.args[alone]
    if isinstance(outer, ast.Tuple) and _name_of(statement) in rules.TABLES_WITH_REMEDIES:
        return outer.elts[-1] is inner
    if isinstance(outer, ast.Dict):
        return inner in outer.keys
    return isinstance(outer, ast.AnnAssign | ast.arg) and outer.annotation is inner


def _name_of(node: ast.AST) -> str:
    """What a call calls, a keyword or function is called, or an assignment assigns to."""
    if isinstance(node, ast.Call):
        node = node.func
    elif isinstance(node, ast.Assign):
        node = node.targets[0]
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        node = node.target
    elif isinstance(node, ast.keyword):
        return node.arg or ""
    elif isinstance(node, _FUNCTION):
        return node.name
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
