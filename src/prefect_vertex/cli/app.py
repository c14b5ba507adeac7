"""The command tree, and how an error becomes one line and an exit code.

Each command's module is imported only when that command is typed, so that `--help` stays quick and
no command pays for another's libraries.
"""

from __future__ import annotations

import os
import signal
import sys

from cyclopts import App

from prefect_vertex._version import __version__
from prefect_vertex.errors import PrefectVertexError

app = App(
    name="prefect-vertex",
    help="Run Prefect flows as Vertex AI CustomJobs.",
    version=__version__,
    result_action="return_value",
)
emulator_app = App(name="emulator", help="A local Vertex AI that runs the jobs it is given.")
app.command(emulator_app)

emulator_app.command(
    "prefect_vertex.cli.emulator:start",
    name="start",
    help="Run it, with Cloud Storage beside it, until Ctrl-C.",
)
app.command(
    "prefect_vertex.cli.stage:stage_code",
    name="stage-code",
    help="Upload a directory's code to the staging bucket, unless it is there already.",
)
app.command(
    "prefect_vertex.cli.plan:plan",
    name="plan",
    help="Print what would be submitted, as JSON or as a gcloud command; submits nothing.",
)
app.command(
    "prefect_vertex.cli.demo:demo",
    name="demo",
    help="Forecast real series through a work pool, on this machine alone.",
)


def main() -> None:
    """Run the command line; the console script's entry point.

    Exits with the command's own code, 1 for an error of this package (its message is the only
    output unless `PREFECT_VERTEX_DEBUG` is set), 130 for Ctrl-C.
    """
    try:
        code = app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough, such as `| head`; nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except PrefectVertexError as error:
        if os.environ.get("PREFECT_VERTEX_DEBUG"):
            raise
        sys.stderr.write(f"prefect-vertex: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"  {error.hint}\n")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
