"""Lines of output on a terminal, each after its source."""

from __future__ import annotations

from typing import TextIO


class Console:
    """An `Echo` that writes `source | line`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, source: str, line: str) -> None:
        """Write one line."""
        self._stream.write(f"{source} | {line}\n")
        self._stream.flush()
