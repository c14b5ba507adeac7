"""The command tree, and how an error becomes one line and an exit code.

Each command's module is imported only when that command is typed, so that `--help` stays quick and
no command pays for another's libraries.
"""

from __future__ import annotations

import os
import signal
import sys

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from prefect_vertex._version import __version__
from prefect_vertex.cli.examples import EXAMPLES
from prefect_vertex.cli.usage import WrongUseError, told
from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.planning.addresses import trace_of

WRONG_USE = 2
_UNBROKEN = 10_000
_TERMINAL = sys.stdout.isatty()

app = App(
    name="prefect-vertex",
    help="Run Prefect flows as Vertex AI CustomJobs.",
    help_epilogue=EXAMPLES[""],
    # A file or a pipe gets no boxes, and no line break or padding of a terminal's.
    help_formatter="default" if _TERMINAL else "plain",
    help_format="markdown" if _TERMINAL else "plaintext",
    console=None if _TERMINAL else Console(width=_UNBROKEN),
    version=__version__,
    result_action="return_value",
    # An option that is off by default needs no other to turn it off.
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
)
emulator_app = App(name="emulator", help="A local Vertex AI that runs the jobs it is given.")
app.command(emulator_app)
app.register_install_completion_command(
    help="Install tab completion for this shell, and load it in its startup file."
)

emulator_app.command(
    "prefect_vertex.cli.emulator:start",
    name="start",
    help="Run it, with Cloud Storage beside it, until Ctrl-C.",
    help_epilogue=EXAMPLES["emulator start"],
)
app.command(
    "prefect_vertex.cli.stage:stage_code",
    name="stage-code",
    help="Upload a directory's code to the staging bucket, unless it is there already.",
    help_epilogue=EXAMPLES["stage-code"],
)
app.command(
    "prefect_vertex.cli.bundles:bundle_storage",
    name="bundle-storage",
    help="Tell a work pool where the code of flows without a deployment is stored.",
    help_epilogue=EXAMPLES["bundle-storage"],
)
app.command(
    "prefect_vertex.cli.plan:plan",
    name="plan",
    help="Print what would be submitted, as JSON or as a gcloud command; submits nothing.",
    help_epilogue=EXAMPLES["plan"],
)
app.command(
    "prefect_vertex.cli.doctor.command:doctor",
    name="doctor",
    help="Check a work pool end to end, and say what mends what is wrong.",
    help_epilogue=EXAMPLES["doctor"],
)
app.command(
    "prefect_vertex.cli.jobs.command:jobs",
    name="jobs",
    help="Show a pool's jobs beside their flow runs; settle, cancel, delete old ones.",
    help_epilogue=EXAMPLES["jobs"],
)
app.command(
    "prefect_vertex.cli.demo:demo",
    name="demo",
    help="Forecast real series through a work pool, on this machine alone.",
    help_epilogue=EXAMPLES["demo"],
)


def main() -> None:
    """Run the command line; the console script's entry point.

    Exits with the command's own code, 1 for an error of this package (its message is the only
    output unless `PREFECT_VERTEX_DEBUG` is set), 2 for options that mean nothing, 130 for Ctrl-C.
    """
    try:
        # Its own way of printing them is a box, as wide as the console that help is printed on.
        code = app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        sys.stderr.write(told(error))
        sys.exit(WRONG_USE)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough, such as `| head`; nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except PrefectVertexError as error:
        if os.environ.get("PREFECT_VERTEX_DEBUG"):
            sys.stderr.write(f"{trace_of(error)}\n")
            sys.exit(1)
        sys.stderr.write(f"prefect-vertex: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"  {error.hint}\n")
        sys.exit(WRONG_USE if isinstance(error, WrongUseError) else 1)
    except Exception as error:  # noqa: BLE001 - Python's own way would quote addresses whole
        sys.stderr.write(f"{trace_of(error)}\n")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
