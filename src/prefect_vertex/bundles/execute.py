"""`python -m prefect_vertex.bundles.execute`: run a bundle, in the container.

How the flow ends is its flow run's to say: the exit status only tells whether it was begun. The
flow runs in a process that is spawned from this one, which imports this module again: it must do
nothing then.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from prefect_vertex.bundles.storage import BundleStorage, ending, parser

_NOT_FETCHED = 71
"""As the bootstrap says it of staged code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch a bundle and run its flow; returns the exit status."""
    given = parser("Run a bundle from a bucket.").parse_args(arguments)
    fetched: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="prefect-vertex-bundle-") as folder:

        def fetch() -> None:
            fetched.append(BundleStorage(given.bucket).download(given.key, Path(folder)))

        if status := ending(fetch, _NOT_FETCHED):
            return status
        from prefect.bundles.execute import execute_bundle_from_file

        execute_bundle_from_file(str(fetched[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
