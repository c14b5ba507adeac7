"""The whole of it, in order."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from prefect_vertex.delivery.bootstrap.archive import bring_code
from prefect_vertex.delivery.bootstrap.basics import die, env
from prefect_vertex.delivery.bootstrap.claims import claim, look
from prefect_vertex.delivery.bootstrap.gang import gather
from prefect_vertex.delivery.bootstrap.launch import SIGNALS, choose, on_signal, resolve, run
from prefect_vertex.delivery.bootstrap.places import prepare_places, take_place
from prefect_vertex.delivery.bootstrap.prefect_api import check_api
from prefect_vertex.delivery.bootstrap.secret import fetch_secrets
from prefect_vertex.delivery.bootstrap.setup import install_packages, run_setup


def main(command: list[str]) -> NoReturn:
    """Prepare the container, then become the command."""
    for number in SIGNALS:
        signal.signal(number, on_signal)
    scratch = prepare_places()
    replica = take_place()
    fetch_secrets()
    bring_code(scratch)
    if env.get("PREFECT_VERTEX_SETUP_COMMAND") or env.get("EXTRA_PIP_PACKAGES"):
        look(replica)
    run_setup(scratch)
    install_packages()
    check_api()
    size = int(env["PREFECT_VERTEX_WORLD_SIZE"]) if replica.isdecimal() else 0
    command = resolve(choose(command) if size > 1 else command)
    if size > 1:
        gather(replica, size)
    claim(replica)
    run(command)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - the last line of the log must say what happened
        die(70, f"the bootstrap failed: {type(error).__name__}: {error}")
