"""The worker as a process: how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.vertex.channel import EMULATOR_VARIABLE

pytestmark = pytest.mark.e2e

Launch = Callable[..., Any]


def test_a_wrong_address_ends_the_command_without_a_traceback(launch: Launch) -> None:
    worker = launch(**{EMULATOR_VARIABLE: "garbage"})

    assert worker.process.wait(60) == 1
    assert "Traceback" not in worker.output()
    assert f"{EMULATOR_VARIABLE}='garbage' is not an address." in worker.output()


@pytest.mark.parametrize("before", ["", "trap '' INT;"], ids=["usual", "ignored"])
def test_sigterm_ends_a_worker_however_it_was_started(before: str, launch: Launch) -> None:
    """Shells start background commands with SIGINT ignored, which Prefect forwards SIGTERM as."""
    worker = launch(before, **{EMULATOR_VARIABLE: "http://127.0.0.1:1"})
    worker.wait_until(lambda: "started!" in worker.output(), seconds=60, what="it had started")

    worker.ask_to_stop()

    assert worker.process.wait(30) == 0
    assert "stopped!" in worker.output()
    assert "Traceback" not in worker.output()
