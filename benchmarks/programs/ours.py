"""`prefect ...` with this package's worker, and a file that says how its budget fares.

    python -P ours.py REPORT worker start --pool P

REPORT holds, looked at every second, how long in all some run has waited because the submission
budget was empty.  The worker itself runs as it is: its budgets are only looked at.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path

from prefect_vertex.vertex.budget import Budgets

_PERIOD_SECONDS = 1.0


def _watch(report: Path) -> None:
    seen: list[Budgets] = []
    usual = Budgets.__init__

    def noted(self: Budgets, *args: object, **kwargs: object) -> None:
        usual(self, *args, **kwargs)  # type: ignore[arg-type]
        seen.append(self)

    Budgets.__init__ = noted  # type: ignore[method-assign]

    def write() -> None:
        written = None
        while True:
            empty = sum(budgets.submissions.empty_seconds for budgets in seen)
            # Each file that is written counts as the worker's CPU time.
            if empty != written:
                draft = report.with_suffix(".draft")
                draft.write_text(json.dumps({"empty_seconds": empty}))
                os.replace(draft, report)  # noqa: PTH105 - shorter so
                written = empty
            time.sleep(_PERIOD_SECONDS)

    threading.Thread(target=write, daemon=True).start()


def main() -> None:
    """Watch the budgets and become `prefect`."""
    report, *arguments = sys.argv[1:]
    _watch(Path(report))
    sys.argv = ["prefect", *arguments]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
