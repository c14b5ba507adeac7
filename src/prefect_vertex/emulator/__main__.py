"""`python -m prefect_vertex.emulator`: the emulator alone, until SIGINT, SIGTERM or SIGHUP.

Prints its address as one line on standard output when it serves, and with `--control-port` the
address of its control as a second one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from prefect_vertex.emulator.console import Console
from prefect_vertex.emulator.control import ControlServer
from prefect_vertex.emulator.profiles import CLOCKS
from prefect_vertex.emulator.rates import RATES_OF_CLOCK
from prefect_vertex.emulator.server import Emulator
from prefect_vertex.emulator.signals import ended_by_signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and serve; 1 when the port or directory cannot be had."""
    options = _parser().parse_args(arguments)
    emulator = Emulator(
        port=options.port,
        timings=CLOCKS[options.clock],
        rates=RATES_OF_CLOCK[options.clock],
        seed=options.seed,
        replica_env=dict(options.replica_env),
        data=options.data,
        echo=Console(sys.stderr) if options.echo else None,
    )
    try:
        asyncio.run(_serve(emulator, options.control_port))
    except OSError as error:
        ports = " or ".join(str(p) for p in (options.port, options.control_port) if p is not None)
        sys.stderr.write(f"The emulator could not serve on port {ports}: {error}\n")
        return 1
    return 0


async def _serve(emulator: Emulator, control_port: int | None) -> None:
    with ended_by_signal() as ended:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(emulator)
            addresses = [emulator.address]
            if control_port is not None:
                control = ControlServer(emulator, control_port)
                addresses.append((await stack.enter_async_context(control)).address)
            sys.stdout.write("".join(f"{address}\n" for address in addresses))
            sys.stdout.flush()
            await ended.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prefect_vertex.emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: a free one")
    parser.add_argument(
        "--clock",
        choices=sorted(CLOCKS),
        default="fast",
        help="fast: tenths of seconds; lifelike: minutes, and the documented rates of calls",
    )
    parser.add_argument(
        "--control-port",
        type=int,
        help="port for faults, seeds and counters, as JSON over HTTP; 0: a free one",
    )
    parser.add_argument("--seed", type=int, help="where ids and durations are drawn from")
    parser.add_argument("--data", type=Path, help="keep the jobs' files here")
    parser.add_argument("--echo", action="store_true", help="show the replicas' output")
    parser.add_argument(
        "--replica-env",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for every replica, such as STORAGE_EMULATOR_HOST=http://127.0.0.1:4443",
    )
    return parser


def _assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
