"""Say which messages of the product have no entry in docs/troubleshooting, and which are gone."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from catalogue.pages import problems


def main() -> int:
    """Print them; 1 if there are any."""
    found = problems()
    sys.stdout.write("".join(f"{each}\n" for each in found) or "Every message has its entry.\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
