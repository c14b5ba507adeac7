"""Prefect's collector of a bundle's files, with a note of what it would not bring by its name.

It puts what a link leads to into the bundle, under that file's own name, and opens whatever is
named, a FIFO too, from which nothing may ever come.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pathspec
from prefect.bundles._file_collector import FileCollector, PatternType


class NotedCollector(FileCollector):
    """A collector that remembers links and what is no regular file.

    Attributes:
        special: What is neither a file nor a link to one; left out of what is collected.
    """

    def __init__(self, base_dir: Path) -> None:
        super().__init__(base_dir)
        self.special: list[Path] = []
        self._links: list[tuple[int, Path]] = []
        self._begun = 0

    def links_left(self, patterns: Sequence[str]) -> list[Path]:
        """The links that were matched and that no later pattern leaves out."""
        return [path for index, path in self._links if not self._left_out(path, patterns[index:])]

    def _left_out(self, path: Path, later: Sequence[str]) -> bool:
        spec = pathspec.GitIgnoreSpec.from_lines(
            [pattern[1:] for pattern in later if pattern.startswith("!")]
        )
        return spec.match_file(str(path.relative_to(self.base_dir)))

    def _classify_pattern(self, pattern: str) -> PatternType:
        self._begun += 1
        return super()._classify_pattern(pattern)

    def _collect_single_file(self, pattern: str) -> list[Path]:
        named = self.base_dir / pattern.replace("\\", "/")
        return self._noted(named, super()._collect_single_file(pattern))

    def _validate_file_path(self, file_path: Path) -> Path | None:
        resolved = super()._validate_file_path(file_path)
        found = self._noted(file_path, [] if resolved is None else [resolved])
        return found[0] if found else None

    def _noted(self, named: Path, found: list[Path]) -> list[Path]:
        if not found:
            return found
        (resolved,) = found
        if not resolved.is_file():
            self.special.append(named)
            return []
        if resolved != named:
            self._links.append((self._begun, named))
        return found
