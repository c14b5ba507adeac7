"""Python source made small without changing what it does, so that it compresses well.

Pure. What only readers need goes (docstrings, annotations, spaces, line ends), and the names that
the source binds become short ones: the same few letters in every function, because a compressor
lives on repetition.
"""

from __future__ import annotations

import ast
import builtins
import io
import itertools
import keyword
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

_Names = dict[str, str]

# The letters of messages and of the platform's variables, the frequent ones first: a compressor has
# short codes for those already.
_LOCAL_LETTERS = "etaoinsrhldcumfpgwybvkxjqz"
_SHARED_LETTERS = "ETRAPCFISONVDLUXHMGBYKWQZJ"

_SCOPES = (
    ast.FunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


class _Slimmer(ast.NodeTransformer):
    """Drops what only readers need, and renames.

    Attributes, imported names, builtins and keyword arguments keep their names: the source passes
    arguments to its own functions by position.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name = self._names.get(node.name, node.name)
        node.returns = None
        node.body = _without_docstring(node.body) or [ast.Pass()]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module in {"__future__", "typing"} else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        if node.value is None:
            return None
        return self.visit_Assign(ast.Assign([node.target], node.value))

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _bare(node.value)
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        self.generic_visit(node)
        node.value = _bare(node.value) if node.value is not None else None
        return node

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


def _bare(value: ast.expr) -> ast.expr:
    """A tuple without the parentheses that `ast.unparse` would give it; anything else as it is."""
    if isinstance(value, ast.Tuple) and value.elts:
        return ast.Name(", ".join(map(ast.unparse, value.elts)) + "," * (len(value.elts) == 1))
    return value


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that these nodes bind themselves."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler):
            names.add(node.name or "")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names - {""}


def _in_one_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, but for those inside a scope within it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _in_one_scope(child)


def _short_names(letters: str, taken: set[str]) -> Iterator[str]:
    for length in itertools.count(1):
        for chosen in itertools.product(letters, repeat=length):
            if (name := "".join(chosen)) not in taken:
                yield name


def _own_names(function: ast.FunctionDef, shared: set[str], taken: set[str]) -> set[str]:
    """What a function of the module binds, and the scopes within it.

    Raises:
        ValueError: A scope within it hides a name of the module that the function itself may use.
    """
    own = _bound(node for node in ast.walk(function) if node is not function) - taken
    hidden = own & shared - _bound(_in_one_scope(function))
    if hidden:
        raise ValueError(f"{min(hidden)!r} is hidden inside {function.name!r}: rename it there.")
    return own


def _local_letters(owned: Collection[set[str]], uses: Counter[str], taken: set[str]) -> _Names:
    """Short names for those that functions bind; two may share one if no function has both.

    One name gets the same letter in all functions, so that their common turns stay alike.
    """
    names: _Names = {}
    everywhere = set().union(*owned)
    for name in sorted(everywhere, key=lambda name: (-uses[name], name)):
        beside = {names[other] for own in owned if name in own for other in own if other in names}
        names[name] = next(_short_names(_LOCAL_LETTERS, taken | beside))
    return names


def _shortened(tree: ast.Module) -> ast.Module:
    """Rename: capitals for what the module binds, small letters within its functions."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [node for node in tree.body if node not in functions and node not in imports]
    imported = {alias.name.partition(".")[0] for node in imports for alias in node.names}
    taken = {*dir(builtins), *keyword.kwlist, *imported}
    uses = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    shared = {node.name for node in functions}
    shared = (shared | _bound(each for node in rest for each in ast.walk(node))) - taken
    often_first = sorted(shared, key=lambda name: (-uses[name], name))
    capitals = _short_names(_SHARED_LETTERS, taken)
    names = dict(zip(often_first, capitals, strict=False))
    owned = {node.name: _own_names(node, shared, taken) for node in functions}
    letters = _local_letters(owned.values(), uses, taken)
    body: list[ast.stmt] = []
    for node in _as_program(_without_docstring(tree.body)):
        name = node.name if isinstance(node, ast.FunctionDef) else ""
        own = {local: letters[local] for local in owned.get(name, ())}
        slim = _Slimmer({**names, **own}).visit(node)
        if name:
            slim.name = names.get(name, name)
        body += [slim] if slim is not None else []
    return ast.fix_missing_locations(ast.Module(_imports_joined(body), []))


def _as_program(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module that is run, not imported."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            yield from node.body
        else:
            yield node


def _imports_joined(body: list[ast.stmt]) -> list[ast.stmt]:
    """All `import` statements as one."""
    plain = [node for node in body if isinstance(node, ast.Import)]
    aliases = [alias for node in plain for alias in node.names]
    first: list[ast.stmt] = [ast.Import(aliases)] if aliases else []
    return [*first, *(node for node in body if node not in plain)]


class _Statement:
    """A line of source, and the statements in its block."""

    def __init__(self) -> None:
        self.text = ""
        self.block: list[_Statement] = []

    def lines(self) -> list[str]:
        """Its own text; a block of simple statements goes on in the same line."""
        if any(each.block for each in self.block):
            return [self.text, *(f" {line}" for line in _lines(self.block))]
        return [self.text + ";".join(each.text for each in self.block)]


def _lines(block: list[_Statement]) -> Iterator[str]:
    """Statements as lines, simple ones that follow each other in one."""
    for compound, group in itertools.groupby(block, key=lambda each: bool(each.block)):
        if compound:
            for each in group:
                yield from each.lines()
        else:
            yield ";".join(each.text for each in group)


def _tightened(source: str) -> str:
    """Drop the spaces and line ends that no token needs."""
    lines = source.splitlines()
    root = _Statement()
    open_blocks = [root]
    statement = _Statement()
    end, in_text = (1, 0), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name == "NEWLINE":
            open_blocks[-1].block.append(statement)
            statement = _Statement()
        elif name == "INDENT":
            open_blocks.append(open_blocks[-1].block[-1])
        elif name == "DEDENT":
            open_blocks.pop()
        elif name not in {"NL", "ENDMARKER"}:
            # From Python 3.12 an f-string is several tokens, between which spaces count.
            in_text -= name == "FSTRING_END"
            text = lines[token.start[0] - 1][token.start[1] : token.end[1]]
            if in_text or name == "FSTRING_END":
                text = lines[token.start[0] - 1][end[1] : token.end[1]]
            elif _is_wordy(statement.text[-1:]) and _is_wordy(text[0]):
                text = f" {text}"
            statement.text += text
            in_text += name == "FSTRING_START"
        end = token.end
    return "\n".join(_lines(root.block))


def _is_wordy(character: str) -> bool:
    return character.isalnum() or character == "_"


def slimmed(source: str) -> str:
    """Return source that does the same in less text.

    Args:
        source: A plain module of functions that passes arguments to its own functions by position,
            has no string over several lines but docstrings, and uses `typing` in annotations only.

    Raises:
        ValueError: A name cannot be shortened safely.
    """
    return _tightened(ast.unparse(_shortened(ast.parse(source))))
