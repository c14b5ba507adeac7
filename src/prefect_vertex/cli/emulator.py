"""`prefect-vertex emulator start`: Vertex AI and Cloud Storage on this machine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prefect_vertex.cli.storage import StorageServer
from prefect_vertex.errors import SetupError

if TYPE_CHECKING:
    from prefect_vertex.emulator.server import Emulator


def start(
    *,
    port: int = 8411,
    storage_port: int = 4443,
    data: Path | None = None,
    clock: Literal["fast", "lifelike"] = "fast",
) -> int:
    """Run a local Vertex AI and Cloud Storage until Ctrl-C, which also ends all running jobs.

    Prints the variables to export on standard output, and the output of jobs on standard error.

    Args:
        port: Port of the Vertex AI emulator; 0 for a free one.
        storage_port: Port of the Cloud Storage server; 0 for a free one.
        data: Directory for objects and the output of jobs, kept at the end; by default objects are
            in memory and output in a temporary directory.
        clock: How long jobs wait for machines: tenths of seconds, or minutes as in the cloud.
    """
    storage = StorageServer(port=storage_port, data=data / "storage" if data else None)
    with storage:
        return asyncio.run(_serve(storage, port=port, data=data, clock=clock))


async def _serve(storage: StorageServer, *, port: int, data: Path | None, clock: str) -> int:
    # Late, because they load Google's client: help and a taken port need not wait for that.
    from prefect_vertex.emulator.console import Console
    from prefect_vertex.emulator.profiles import CLOCKS
    from prefect_vertex.emulator.server import Emulator
    from prefect_vertex.emulator.signals import ended_by_signal

    emulator = Emulator(
        port=port,
        timings=CLOCKS[clock],
        replica_env={"STORAGE_EMULATOR_HOST": storage.address},
        data=data / "jobs" if data else None,
        echo=Console(sys.stderr),
    )
    with ended_by_signal() as ended:
        try:
            await _start(emulator, port)
            print(f"export VERTEX_AI_EMULATOR_HOST={emulator.address}")
            print(f"export STORAGE_EMULATOR_HOST={storage.address}", flush=True)
            await ended.wait()
        finally:
            await emulator.stop()
    return 0


async def _start(emulator: Emulator, port: int) -> None:
    try:
        await emulator.start()
    except OSError as error:
        raise SetupError(
            f"Could not start the Vertex AI emulator on port {port}: {error.strerror or error}.",
            hint="Set another port with --port, or 0 for a free one.",
        ) from error
