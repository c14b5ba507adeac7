"""A container in the place of a flow: reports Running, notes that it ran, waits, ends.

Started as `python3 -I -S stub.py` in the emulator, so it needs the standard library alone and costs
a fifth of what Prefect's own engine would.  BENCH_NOTES is a file that each start adds a line to;
the wait is BENCH_SECONDS and a share of BENCH_SPREAD_SECONDS that the run's id gives.  One run in
BENCH_VANISH_ONE_IN (0: none) kills itself at its end without telling Prefect, so that only its
worker can.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

_TRIES = 20


def _share(run_id: str) -> float:
    """From 0 to 1, by the run's id; its last digits, because the first are a clock."""
    return int(run_id[-8:], 16) / 0xFFFFFFFF


def _vanishes(run_id: str, one_in: int) -> bool:
    return one_in > 0 and int(run_id[-12:-8], 16) % one_in == 0


def _report(api: str, run_id: str, state: str) -> None:
    body = json.dumps({"state": {"type": state, "name": state.capitalize()}}).encode()
    request = urllib.request.Request(  # noqa: S310 - the benchmark's own server
        f"{api}/flow_runs/{run_id}/set_state",
        data=body,
        headers={"Content-Type": "application/json", "User-Agent": "stub"},
    )
    for left in reversed(range(_TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
                answer.read()
        except (urllib.error.URLError, OSError):
            if not left:
                raise
            time.sleep(1)
        else:
            return


def main() -> int:
    """Play the flow of the run that the environment names."""
    api, run_id = os.environ["PREFECT_API_URL"], os.environ["PREFECT__FLOW_RUN_ID"].replace("-", "")
    seconds = float(os.environ["BENCH_SECONDS"])
    seconds += float(os.environ["BENCH_SPREAD_SECONDS"]) * _share(run_id)
    _report(api, os.environ["PREFECT__FLOW_RUN_ID"], "RUNNING")
    with Path(os.environ["BENCH_NOTES"]).open("a", encoding="ascii") as notes:
        notes.write(f"{os.environ['PREFECT__FLOW_RUN_ID']}\n")
    time.sleep(seconds)
    if _vanishes(run_id, int(os.environ["BENCH_VANISH_ONE_IN"])):
        os.kill(os.getpid(), signal.SIGKILL)
    _report(api, os.environ["PREFECT__FLOW_RUN_ID"], "COMPLETED")
    return 0


if __name__ == "__main__":
    sys.exit(main())
