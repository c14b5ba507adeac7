"""`python -m tests.chaos.nursery`: gives birth to workers that have done their imports already.

Each is a process of its own that runs `prefect worker start` as from the command line; forked from
one that has loaded Prefect, this package and Google's client, it is there in tenths of a second
instead of in some, so that a suite of ninety seconds can kill dozens.  One JSON object a line:
`{"arguments": [...], "log": PATH}`; answers the process id.  When standard input ends, every child
is killed.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from typing import Any

import psutil


def load() -> None:
    """Import what a worker imports in its first seconds; nothing may start a thread."""
    import prefect_vertex.reconciler.loop
    import prefect_vertex.reconciler.wiring
    import prefect_vertex.worker  # noqa: F401 - loaded for its children


def become(arguments: list[str], log: str) -> None:
    """Turn this process into the command."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(out, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["prefect", *arguments]
    runpy.run_module("prefect", run_name="__main__")


def main() -> None:
    """Fork a worker for every line."""
    load()
    # Reaped by the kernel: nobody here asks how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            become(asked["arguments"], asked["log"])
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
    for process in psutil.Process().children():
        process.kill()


if __name__ == "__main__":
    main()
