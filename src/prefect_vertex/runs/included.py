"""include_files: the files that travel beside an ad-hoc flow's code.

Prefect only warns where a pattern matches nothing, and the flow then fails in its container.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from prefect.flows import Flow

from prefect_vertex.errors import BundleError

_WILDCARDS = frozenset("*?[")


def check_patterns(patterns: object, name: str = "include_files") -> list[str]:
    """The patterns, if they could match something below a directory; nothing is read.

    Args:
        patterns: What the user gave.
        name: How the message names it.

    Raises:
        BundleError: One of them never could.
    """
    if isinstance(patterns, str) or not isinstance(patterns, Sequence):
        raise BundleError(
            f"{name} is {patterns!r}, expected a list of patterns.",
            hint="Write a single one as [pattern].",
        )
    for index, pattern in enumerate(patterns):
        if fault := _fault(pattern):
            raise BundleError(
                f"{name}[{index}] is {pattern!r}, which {fault}.",
                hint="Patterns are relative to the flow's file, or to include_files_base_dir.",
            )
    if patterns and all(pattern.startswith("!") for pattern in patterns):
        raise BundleError(f"{name} is {list(patterns)!r}, which only leaves files out.")
    return list(patterns)


def _fault(pattern: object) -> str:
    if not isinstance(pattern, str):
        return f"is no text but a {type(pattern).__name__}"
    path = pattern.removeprefix("!").replace("\\", "/")
    if not path.strip():
        return "is empty"
    if "\0" in path:
        return "holds a NUL character"
    if pattern.startswith(("\\!", "\\#")):
        if not set(pattern) & _WILDCARDS:
            return f"holds a backslash, which is a path separator here; write '?{pattern[2:]}'"
        path = path[1:]
    windows = PureWindowsPath(path)
    if path.startswith("/") or windows.drive or windows.root:
        return "is absolute"
    if ".." in PurePosixPath(path).parts:
        return "may lead out of the base directory"
    return ""


def check_included_files(flow: Flow[..., Any]) -> None:
    """See that each pattern matches a file, before there is a flow run that would lack it.

    Raises:
        BundleError: One matches nothing, or a file that lies elsewhere; or there is no base
            directory.
    """
    patterns = getattr(flow, "include_files", None)
    if not patterns:
        return
    # What Prefect will bundle, its private modules alone can say. A worker starts without them.
    from pathspec.util import RecursionError as LinkLoop
    from prefect.bundles._ignore_filter import IgnoreFilter
    from prefect.bundles._path_resolver import PathValidationError

    from prefect_vertex.runs.collector import NotedCollector

    patterns = check_patterns(patterns)
    base = _base_directory(flow)
    where = f"include_files of flow {flow.name!r}"
    collector = NotedCollector(base)
    try:
        found = collector.collect(patterns)
        ignored = IgnoreFilter(base)
        kept = set(ignored.filter(found.files).included_files)
        links = ignored.filter(collector.links_left(patterns)).included_files
    except PathValidationError as error:
        path = error.input_path.removeprefix(f"{base}/")
        leads = "round" if error.error_type == "symlink_loop" else f"out of {base}"
        raise BundleError(
            f"{where}: {path!r} leads {leads}.",
            hint="Copy the file there, or set include_files_base_dir.",
        ) from error
    except LinkLoop as error:
        raise BundleError(
            f"{where}: {str(error.second_path)!r} is a link in {base} that leads back to "
            f"{str(error.first_path) or '.'!r}, and patterns with wildcards are looked for "
            "everywhere below.",
            hint="Remove the link, name files without wildcards, or set include_files_base_dir.",
        ) from error
    except OSError as error:
        raise BundleError(f"{where}: cannot read {error.filename}: {error.strerror}.") from error
    for odd in [*collector.special, *links]:
        what = "a link" if odd in links else "irregular"
        raise BundleError(
            f"{where}: {str(odd.relative_to(base))!r} is {what} and would not arrive under that "
            "name.",
            hint="Put a copy in its place, or leave it out with a later '!' pattern.",
        )
    _check_each_brings(found.patterns_matched, kept, where, base)


def _check_each_brings(
    matched: Mapping[str, Iterable[Path]], kept: set[Path], where: str, base: Path
) -> None:
    """See that each pattern brings at least one file that nothing leaves out again."""
    for pattern, files in matched.items():
        if pattern.startswith("!"):
            continue
        if not files:
            raise BundleError(
                f"{where}: {pattern!r} matches no file below {base}.",
                hint="Correct it, or set include_files_base_dir. Hidden files, and what tools "
                "generate, are matched by their whole name only.",
            )
        if kept.isdisjoint(files):
            raise BundleError(
                f"{where}: .prefectignore or a later pattern leaves out all that {pattern!r} "
                f"matches below {base}.",
                hint="Remove the pattern, or the line that leaves it out.",
            )


def _base_directory(flow: Flow[..., Any]) -> Path:
    given = getattr(flow, "include_files_base_dir", None)
    try:
        base = Path(given).expanduser() if given else Path(inspect.getfile(flow.fn)).parent
    except RuntimeError as error:
        raise BundleError(
            f"include_files of flow {flow.name!r}: include_files_base_dir, {given}, names a "
            "user's home that is not known here.",
        ) from error
    except (OSError, TypeError) as error:
        raise BundleError(
            f"include_files of flow {flow.name!r}: it has no file to find them beside.",
            hint="Set include_files_base_dir.",
        ) from error
    if not base.is_dir():
        name = "include_files_base_dir" if given else "the folder of its file"
        raise BundleError(f"include_files of flow {flow.name!r}: {name}, {base}, is no directory.")
    return base.resolve()
