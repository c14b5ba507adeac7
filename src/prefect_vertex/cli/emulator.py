"""`prefect-vertex emulator start`: Vertex AI and Cloud Storage on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

from prefect_vertex.cli.storage import StorageServer
from prefect_vertex.errors import SetupError

PROJECT = "emulated-project"
HIGHEST_PORT = 65535


def start(  # noqa: PLR0913 - keywords only, each an option
    *,
    port: int = 8411,
    storage_port: int = 4443,
    data: Path | None = None,
    clock: Literal["fast", "lifelike"] = "fast",
    bucket: tuple[str, ...] = (),
    control_port: int | None = None,
    secret: tuple[str, ...] = (),
) -> int:
    """Run a local Vertex AI and Cloud Storage until Ctrl-C, which also ends all running jobs.

    Prints the variables to export on standard output, and the output of jobs on standard error.

    Args:
        port: Port of the Vertex AI emulator; 0 for a free one.
        storage_port: Port of the Cloud Storage server; 0 for a free one.
        data: Directory for objects and the output of jobs, kept at the end; by default objects are
            in memory and output in a temporary directory.
        clock: How long jobs wait for machines: tenths of seconds, or minutes as in the cloud, with
            the documented limits on calls a minute.
        bucket: A bucket to create in Cloud Storage; may be given several times.
        control_port: Port for scripted faults, seeded jobs and counters of calls, as JSON over
            HTTP; 0 for a free one. Not served by default.
        secret: A secret for jobs to read, as NAME=FILE, the name being `projects/P/secrets/S`, or
            `S` for the project that is printed; may be given several times.
    """
    secrets = [_read_secret(text) for text in secret]
    for number in (signal.SIGTERM, signal.SIGHUP):
        # From the first moment: what has been started by then is ended.
        signal.signal(number, _as_interrupt)
    ports = {"--port": port, "--storage-port": storage_port, "--control-port": control_port}
    for option, value in ports.items():
        _check_port(option, value or 0)
    storage = StorageServer(port=storage_port, data=data / "storage" if data else None)
    with storage:
        for name in bucket:
            storage.create_bucket(name)
        return asyncio.run(
            _serve(
                storage,
                port=port,
                data=data,
                clock=clock,
                control_port=control_port,
                secrets=secrets,
            )
        )


def _as_interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a handler
    raise KeyboardInterrupt


def _check_port(option: str, port: int) -> None:
    if not 0 <= port <= HIGHEST_PORT:
        raise SetupError(
            f"{option} is {port}, not a port.", hint=f"Give 0 to {HIGHEST_PORT}; 0 is a free one."
        )


def _project() -> str:
    # The emulator takes any project, but a job needs one.
    return os.environ.get("GOOGLE_CLOUD_PROJECT") or PROJECT


def _read_secret(text: str) -> tuple[str, bytes]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise SetupError(f"--secret is {text!r}.", hint="Write it as NAME=FILE.")
    if "/" not in name:
        name = f"projects/{_project()}/secrets/{name}"
    try:
        return name, Path(path).expanduser().read_bytes()
    except OSError as error:
        raise SetupError(
            f"Could not read {path} for the secret {name}: {error.strerror or error}.",
            hint="Name a file that holds the secret's value.",
        ) from error


async def _serve(
    storage: StorageServer,
    *,
    port: int,
    data: Path | None,
    clock: str,
    control_port: int | None,
    secrets: Sequence[tuple[str, bytes]],
) -> int:
    # Late, because they load Google's client: help and a taken port need not wait for that.
    from prefect_vertex.emulator.console import Console
    from prefect_vertex.emulator.control import ControlServer
    from prefect_vertex.emulator.profiles import CLOCKS
    from prefect_vertex.emulator.rates import RATES_OF_CLOCK
    from prefect_vertex.emulator.server import Emulator
    from prefect_vertex.emulator.signals import ended_by_signal

    emulator = Emulator(
        port=port,
        timings=CLOCKS[clock],
        rates=RATES_OF_CLOCK[clock],
        replica_env={"STORAGE_EMULATOR_HOST": storage.address},
        data=data / "jobs" if data else None,
        echo=Console(sys.stderr),
    )
    for name, content in secrets:
        try:
            emulator.secrets.add(name, content)
        except ValueError as error:
            raise SetupError(f"--secret: {error}.", hint="Write it as NAME=FILE.") from error
    with ended_by_signal() as ended:
        async with AsyncExitStack() as stack:
            await _start(stack, emulator, port, "--port")
            exports = {
                "VERTEX_AI_EMULATOR_HOST": emulator.address,
                "STORAGE_EMULATOR_HOST": storage.address,
                "CLOUD_LOGGING_EMULATOR_HOST": emulator.address,
                "CLOUD_QUOTAS_EMULATOR_HOST": emulator.address,
                "GOOGLE_CLOUD_PROJECT": _project(),
            }
            if control_port is not None:
                control = ControlServer(emulator, control_port)
                await _start(stack, control, control_port, "--control-port")
                exports["VERTEX_AI_EMULATOR_CONTROL"] = control.address
            print("".join(f"export {name}={value}\n" for name, value in exports.items()), end="")
            sys.stdout.flush()
            await ended.wait()
    return 0


async def _start(
    stack: AsyncExitStack, server: AbstractAsyncContextManager[object], port: int, option: str
) -> None:
    try:
        await stack.enter_async_context(server)
    except OSError as error:
        raise SetupError(
            f"Could not start the Vertex AI emulator on port {port}: {error.strerror or error}.",
            hint=f"Set another port with {option}, or 0 for a free one.",
        ) from error
