"""Which files of a directory are its code: ignore rules, symbolic links, names.

Reads the disk and nothing else; what becomes of the files is `bundle`'s business. git's rules come
from `.gitignore` files alone: the user's global excludes and `.git/info/exclude` differ from
machine to machine, and a tracked file that a rule covers counts as ignored.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from prefect_vertex.delivery.bootstrap.archive import is_safe_name
from prefect_vertex.errors import BundleError

_ALWAYS_SKIPPED = frozenset({".git", "__pycache__"})


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the tree.

    Attributes:
        name: Path below the root, with forward slashes, in Unicode NFC.
        path: Where to read it.
        size: Bytes.
    """

    name: str
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class _Rules:
    """One ignore file: its patterns, and the directory that they are relative to."""

    base: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, *, is_directory: bool) -> bool | None:
        """True: ignored; False: brought back by a negation; None: not mentioned."""
        if self.base not in path.parents:
            return None
        name = path.relative_to(self.base).as_posix() + ("/" if is_directory else "")
        return self.spec.check_file(name).include


def _read_rules(file: Path) -> tuple[_Rules, ...]:
    # git does not follow a .gitignore that is a link.
    if file.is_symlink() or not file.is_file():
        return ()
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        return (_Rules(file.parent, GitIgnoreSpec.from_lines(lines)),)
    except (OSError, ValueError) as error:
        raise BundleError(f"Cannot read the ignore rules in {file}: {error}.") from error


def _is_ignored(rules: tuple[_Rules, ...], path: Path, *, is_directory: bool) -> bool:
    """Apply rules as git does: the deepest file that mentions the path decides."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_directory=is_directory)
        if verdict is not None:
            return verdict
    return False


def _rules_above(root: Path) -> tuple[_Rules, ...]:
    """Collect the rules of the repository that `root` is a part of, from its top downward.

    None, if they ignore `root` itself: whoever names such a directory means its content.
    """
    above = (root, *root.parents)
    top = next((folder for folder in above if (folder / ".git").exists()), root)
    rules: tuple[_Rules, ...] = ()
    for folder in reversed(above[1 : above.index(top) + 1]):
        rules += _read_rules(folder / ".gitignore")
    steps = above[: above.index(top)]
    return () if any(_is_ignored(rules, step, is_directory=True) for step in steps) else rules


class _Walk:
    """One pass over a tree."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own = _read_rules(root / ".prefectignore")
        # Then a file may come back from below a directory that git ignores.
        self._brings_back = any(
            pattern.include is False for rule in self._own for pattern in rule.spec.patterns
        )

    def files(
        self, folder: Path, rules: tuple[_Rules, ...], inside: tuple[Path, ...], *, ignored: bool
    ) -> Iterator[tuple[Path, int]]:
        """Yield the files below `folder`, and their sizes.

        Args:
            folder: Its path as seen from the root, through links.
            rules: git's, from the top of the repository down to the parent of `folder`.
            inside: The real directories on the way here, to see loops.
            ignored: git ignores `folder`, and so all that is in it.
        """
        if ignored and not os.access(folder, os.R_OK | os.X_OK):
            return  # a database's files, as a rule
        rules += _read_rules(folder / ".gitignore")
        for path in sorted(folder.iterdir()):
            is_directory = path.is_dir() and not path.is_symlink()
            by_git = ignored or _is_ignored(rules, path, is_directory=is_directory)
            own = [rule.verdict(path, is_directory=is_directory) for rule in self._own]
            left_out = True in own or (by_git and False not in own)
            if left_out and not (is_directory and self._brings_back):
                continue
            if path.name in _ALWAYS_SKIPPED or (path / "pyvenv.cfg").is_file():
                continue
            target = self._followed(path)
            if target.is_dir():
                if target in inside:
                    raise BundleError(f"The link {self._shown(path)} leads into itself.")
                yield from self.files(path, rules, (*inside, target), ignored=by_git)
            elif stat.S_ISREG(target.stat().st_mode):
                yield path, target.stat().st_size

    def _followed(self, path: Path) -> Path:
        if not path.is_symlink():
            return path.resolve()
        hint = "Replace it by a copy, or list it in .prefectignore."
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise BundleError(f"The link {self._shown(path)} leads nowhere.", hint=hint) from error
        if not target.is_relative_to(self._root):
            shown = self._shown(path)
            raise BundleError(f"The link {shown} leaves the directory: {target}.", hint=hint)
        return target

    def _shown(self, path: Path) -> str:
        return repr(path.relative_to(self._root).as_posix())


def _portable_name(path: Path, root: Path) -> str:
    name = unicodedata.normalize("NFC", path.relative_to(root).as_posix())
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise BundleError(f"The name {name!r} is not UTF-8.", hint="Rename the file.") from error
    if not is_safe_name(name):
        raise BundleError(
            f"The name {name!r} cannot be unpacked everywhere.",
            hint="Rename the file: no backslash, no drive letter.",
        )
    return name


def list_files(root: Path) -> list[SourceFile]:
    """List the code files below `root`, ordered by name.

    Left out are what `.gitignore` files ignore (also those above, up to the repository's top),
    what `.prefectignore` in `root` lists, and always `.git`, `__pycache__` and virtual
    environments. A negation in `.prefectignore` brings back what git ignores, such as a built
    extension. Links inside the tree are followed.

    Raises:
        BundleError: No such directory, nothing in it, a link that leads out of it or nowhere, two
            names that are one in NFC, or a file that cannot be read.
    """
    if not root.is_dir():
        raise BundleError(f"There is no directory {root} to stage.")
    root = root.resolve()
    found: dict[str, SourceFile] = {}
    try:
        above = _rules_above(root)
        for path, size in _Walk(root).files(root, above, (root,), ignored=False):
            name = _portable_name(path, root)
            if name in found:
                raise BundleError(f"Two files have the name {name!r} once it is normalised (NFC).")
            found[name] = SourceFile(name, path, size)
    except OSError as error:
        raise BundleError(f"Cannot read {error.filename}: {error.strerror}.") from error
    if not found:
        raise BundleError(
            f"There is no file to stage in {root}.",
            hint="Name the directory of the flow; see its .gitignore and .prefectignore.",
        )
    return [found[name] for name in sorted(found)]
