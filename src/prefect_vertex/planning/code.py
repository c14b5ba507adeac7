"""CodeReference: where staged code lies, and what it must hash to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodeReference:
    """A staged code archive.

    Attributes:
        uri: `gs://bucket/object`.
        sha256: Full SHA-256 of the archive, in hex.
    """

    uri: str
    sha256: str
