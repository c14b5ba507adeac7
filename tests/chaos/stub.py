"""The stub container: what a flow's process does towards Prefect, and nothing else.

It reports Running, notes in a shared file that user code ran, works for a while and reports
Completed.  Standard library only, and patient: the chaos is meant for the worker, so the container
repeats what was not answered, as Prefect's engine does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

PATIENCE_SECONDS = 300.0
PAUSE_SECONDS = 0.25
PERMANENT = (404, 409, 422)


def ask(path: str, body: dict[str, Any] | None = None) -> Any:
    """The Prefect API's answer, asked for until it comes; None where the run is gone."""
    base = os.environ["PREFECT_API_URL"].rstrip("/")
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Content-Type": "application/json", "User-Agent": "chaos-container"}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            request = urllib.request.Request(base + path, data, headers)  # noqa: S310 - the test's own server
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code in PERMANENT:
                return None
        except (OSError, ValueError):
            pass
        if time.monotonic() > deadline:
            sys.exit("the Prefect API did not answer")
        time.sleep(PAUSE_SECONDS)


def propose(run_id: str, kind: str) -> bool:
    """Propose a state; whether the server accepted it."""
    body = {"state": {"type": kind, "name": kind.title(), "message": "by the stub container"}}
    answer = ask(f"/flow_runs/{run_id}/set_state", body)
    while answer is not None and answer["status"] == "WAIT":
        # A worker takes a run up to ten seconds before its time, as Prefect's engine knows too.
        time.sleep(PAUSE_SECONDS)
        answer = ask(f"/flow_runs/{run_id}/set_state", body)
    accepted = answer is not None and answer["status"] == "ACCEPT"
    if not accepted:
        sys.stderr.write(f"{kind} was refused: {answer}\n")
    return accepted


def note(path: str, run_id: str) -> None:
    """Say that user code ran: one line, appended whole."""
    line = {
        "run": run_id,
        "attempt": int(os.environ["PREFECT_VERTEX_ATTEMPT"]),
        "job": os.environ.get("CLOUD_ML_JOB_ID", ""),
        "at": time.time(),
    }
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, (json.dumps(line) + "\n").encode())
    os.close(handle)


def work(run_id: str, seconds: float, *, listens: bool, until: str) -> bool:
    """Work for a while; False where the run was cancelled meanwhile and the container listens."""
    deadline = time.monotonic() + seconds
    while until and not os.path.exists(until):  # noqa: PTH110 - as little import as can be
        time.sleep(PAUSE_SECONDS)
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, PAUSE_SECONDS) if listens else left)
        if listens:
            seen = ask(f"/flow_runs/{run_id}")
            if seen is None or seen["state_type"] == "CANCELLING":
                return False
    return True


def main() -> None:
    """One run, from Running to its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("notes", help="the shared file")
    parser.add_argument("--work", type=float, default=0.3, help="seconds of user code")
    parser.add_argument("--until", default="", help="a file; user code works until it is there")
    parser.add_argument("--before", type=float, default=0.0, help="seconds until Running")
    parser.add_argument("--listens", action="store_true", help="ends itself when cancelled")
    options = parser.parse_args()
    run_id = os.environ["PREFECT__FLOW_RUN_ID"]
    time.sleep(options.before)
    if not propose(run_id, "RUNNING"):
        return
    note(options.notes, run_id)
    done = work(run_id, options.work, listens=options.listens, until=options.until)
    propose(run_id, "COMPLETED" if done else "CANCELLED")


if __name__ == "__main__":
    main()
