"""`python -m prefect_vertex.bundles.upload`: store a bundle, from the machine that submits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from prefect_vertex.bundles.storage import BundleStorage, ending, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Upload a file under a key; returns the exit status."""
    options = parser("Store a bundle in a bucket.")
    options.add_argument("path", type=Path, help="the file")
    given = options.parse_args(arguments)
    return ending(lambda: BundleStorage(given.bucket).upload(given.path, given.key), 1)


if __name__ == "__main__":
    sys.exit(main())
