"""Write the reference pages from the code; `make docs` runs it, a test compares the result."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from rendering import PAGES  # noqa: E402 - found beside this file, from wherever it is run


def main() -> int:
    """Write every page."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
