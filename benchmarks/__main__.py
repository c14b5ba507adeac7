"""`python -m benchmarks`: run the cases and print the figures of both workers beside the targets.

It starts and ends all that it needs.  Nothing is asserted: the figures depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from benchmarks.api import Api
from benchmarks.cases import CASES, Case
from benchmarks.database import Database
from benchmarks.figures import Figures, table
from benchmarks.proxy import CountingProxy
from benchmarks.sides import OURS, THEIRS, Ours, Side, Theirs
from benchmarks.trial import Stage
from prefect_vertex.cli.children import Children
from prefect_vertex.cli.local import LocalStack
from prefect_vertex.errors import PrefectVertexError, SetupError

# What neither worker has to do with takes no turn at the database.
_SERVER: Final = {
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}
_DATABASE: Final = "PREFECT_SERVER_DATABASE_CONNECTION_URL"


class _Stack(LocalStack):
    """A local installation whose server does no more than it must."""

    def __init__(self, children: Children, home: Path, database: str) -> None:
        super().__init__(children, home)
        self._database = {_DATABASE: database} if database else {}

    @property
    def env(self) -> dict[str, str]:
        """The usual, and what spares the server."""
        return {**super().env, **_SERVER, **self._database}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    options = _parser().parse_args(arguments)
    # Everything that was started is ended on the way out, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    wanted = [case for case in CASES if case.name in (options.case or [case.name])]
    with _stage(options.logs) as stage:
        sides: list[Side] = []
        if options.side in (None, OURS):
            sides.append(Ours())
        if options.side in (None, THEIRS):
            _say("Installing prefect-gcp into an environment of its own, unless it is there.")
            sides.append(Theirs(stage.stack.home))
        for case in wanted:
            _play(stage, case, sides, case.quick if options.quick else case.full)
    return 0


def _play(stage: Stage, case: Case, sides: Sequence[Side], scale: Mapping[str, float]) -> None:
    _say(f"\n## {case.name}: {case.title.format_map(scale)}\n")
    figures: dict[str, Figures] = {}
    for side in sides:
        begun, load = time.monotonic(), os.getloadavg()[0]
        try:
            figures[side.name] = case.run(stage, side, scale)
        except (httpx.HTTPError, PrefectVertexError, RuntimeError, TimeoutError) as error:
            # The other side and the other cases are still worth having.
            _say(f"{side.name} gave no figures: {error}")
        minutes = (time.monotonic() - begun) / 60
        _say(f"{side.name}: {minutes:.1f} min; load of the machine before: {load:.1f}")
    _say(f"\n{table(figures, case.targets)}")


@contextmanager
def _stage(logs: Path | None) -> Iterator[Stage]:
    home = Path(tempfile.mkdtemp(prefix="prefect-vertex-bench-"))
    place = logs or home / "logs"
    place.mkdir(parents=True, exist_ok=True)
    try:
        with closing(Database()) as database, Children(place) as children:
            stack = _Stack(children, home, _start(database, children))
            stack.start_server()
            port = urlsplit(stack.api_url).port
            if port is None:
                raise RuntimeError(f"{stack.api_url} has no port")
            with CountingProxy(port) as proxy, closing(Api(stack.api_url)) as api:
                yield Stage(children, stack, proxy, api)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(database: Database, children: Children) -> str:
    try:
        return database.start(children)
    except SetupError as error:
        _say(f"The Prefect server takes SQLite, which is slow with thousands of runs. {error}")
        return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--case",
        action="append",
        choices=[case.name for case in CASES],
        help="only this case; may be given several times",
    )
    parser.add_argument("--side", choices=[OURS, THEIRS], help="only this worker")
    parser.add_argument(
        "--quick", action="store_true", help="small figures, to see that it works; targets are void"
    )
    parser.add_argument("--logs", type=Path, help="keep the output of all processes here")
    return parser


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
