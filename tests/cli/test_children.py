"""Children of a command: none outlives it, whichever way it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prefect_vertex.cli.children import Children
from prefect_vertex.errors import SetupError

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
PARENT = """
import os, signal, sys, time
from pathlib import Path
from prefect_vertex.cli.children import Children
# Whoever runs the tests in the background may have had these ignored, and that is inherited.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
with Children(Path(sys.argv[1])) as children:
    child = children.start("sleeper", [sys.executable, "-c", sys.argv[2]], env=dict(os.environ))
    print(child.process.pid, flush=True)
    time.sleep(300)
"""


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or ") Z " not in state.read_text()
    return False


def _wait_gone(pid: int, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while _is_alive(pid) and time.monotonic() < deadline:
        os.sched_yield()
    return not _is_alive(pid)


def _parent(logs: Path, code: str) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(logs), code], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_no_child_outlives_its_command(tmp_path: Path, number: signal.Signals) -> None:
    """Not even after SIGKILL: the pipe to the guardian closes with the command."""
    parent, child = _parent(tmp_path, "import time; time.sleep(300)")
    parent.send_signal(number)
    parent.communicate()

    assert _wait_gone(child)


def test_a_second_signal_while_stopping_leaves_nothing(tmp_path: Path) -> None:
    """Impatience is not punished: a child that ignores SIGTERM is killed all the same."""
    parent, child = _parent(tmp_path, STUBBORN)
    parent.send_signal(signal.SIGINT)
    parent.send_signal(signal.SIGINT)
    parent.communicate()

    assert _wait_gone(child)


def test_a_child_that_ends_too_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    code = "import sys; print('no such thing'); sys.exit(3)"
    with Children(tmp_path) as children:
        child = children.start("server", [sys.executable, "-c", code], env=dict(os.environ))
        with pytest.raises(SetupError) as caught:
            child.wait_until(lambda: False, seconds=20, what="it answered")

    assert str(caught.value) == "server ended before it answered: exit status 3, no such thing"
