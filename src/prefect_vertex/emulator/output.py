"""What a replica wrote: kept in two files, quoted in the job's error, followed for the console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 8192
_TRACEBACK: Final = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOutput:
    """Everything that a replica has written so far."""

    stdout: str
    stderr: str


def read_output(directory: Path, *, errors_from: int = 0) -> ReplicaOutput:
    """Read both streams; empty for a replica that has not started.

    Args:
        directory: The replica's.
        errors_from: Leave out so many bytes of standard error.
    """
    return ReplicaOutput(
        stdout=_read(stdout_path(directory)), stderr=_read(stderr_path(directory), errors_from)
    )


def stdout_path(directory: Path) -> Path:
    """Where a replica's standard output is kept."""
    return directory / "stdout"


def stderr_path(directory: Path) -> Path:
    """Where a replica's standard error is kept."""
    return directory / "stderr"


def error_tail(text: str) -> str:
    """The end of standard error as a job's error quotes it: `[...]` stands for what is left out.

    A traceback keeps its first line, and loses lines from its middle.
    """
    shortened = text[-_TAIL_BYTES:].rstrip().split("\n")
    # The first line may have been cut in two.
    lines = shortened if len(text) <= _TAIL_BYTES else shortened[1:]
    tail = lines[-_TAIL_LINES:]
    if len(tail) == len(lines) == len(shortened):
        return "\n".join(tail)
    cut_off = text.rstrip().split("\n")[: -len(tail)]
    if _TRACEBACK not in tail and _TRACEBACK in cut_off:
        return "\n".join((_TRACEBACK, "  [...]", *tail))
    return "\n".join(("[...]", *tail))


class Follower:
    """Reads on in a file that grows, by whole lines.

    Args:
        path: The file; it need not be there yet.
        start: Leave out so many bytes.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path = path
        self._offset = start
        self._partial = b""

    def new_lines(self, *, ended: bool) -> list[str]:
        """The lines since the last call; with `ended` also a last one without a newline."""
        # Most often there is nothing new, and asking for the size is all that it costs.
        if not self._path.exists() or not (ended or self._path.stat().st_size > self._offset):
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        self._offset += len(text)
        *whole, self._partial = (self._partial + text).split(b"\n")
        if ended and self._partial:
            whole.append(self._partial)
            self._partial = b""
        return [line.decode(errors="replace") for line in whole]


def _read(path: Path, start: int = 0) -> str:
    return path.read_bytes()[start:].decode(errors="replace") if path.exists() else ""
