"""The end of a flow's own process in a container that lives on, and what to do about it.

Prefect's runner, the container's main process, starts the flow in a process of its own.  Dies that
one, the runner makes the flow run Crashed and exits 0, so that Vertex AI knows nothing of it; only
the words of the state do.
"""

from __future__ import annotations

import re
import signal
from contextlib import suppress

# runner/_flow_run_executor.py of Prefect 3.9.1; a test fails when it moves.
EXIT_WORDS = "Process exited with status code: "
_EXIT = re.compile(rf"{re.escape(EXIT_WORDS)}(?P<status>-?\d{{1,10}})\.")

_FIRST_SIGNAL = 128
"""A shell's status of a process that a signal ended is so much more than the signal's number."""

_LAST_SIGNAL = 64

ENDED_BY_ITSELF = "ended by itself (exit code 0)"
"""What a chronicle says of the container's end."""


def own_exit(message: str) -> int | None:
    """The exit status of the flow's own process, negative for a signal; None: it did not die so.

    Args:
        message: Of the flow run's Crashed state.
    """
    match = _EXIT.match(message)
    return int(match["status"]) if match is not None else None


def own_exit_told(status: int) -> str:
    """What ended, and what to do, in one line."""
    return f"The flow's own process ended with exit status {status}: {_advice(status)}"


def _advice(status: int) -> str:
    number = signal_of(status)
    if number == signal.SIGKILL:
        return (
            "killed, most likely because the machine's memory did not suffice. Choose a larger "
            "machine_type, or run fewer processes at a time."
        )
    if number:
        return (
            f"killed by {_name_of(number)}. SIGSEGV, SIGBUS, SIGILL and SIGABRT come from native "
            "code: compare the libraries' versions with the machine and its driver; SIGTERM is "
            "somebody's wish to stop it."
        )
    if status == 1:
        return (
            "an exception outside the flow function, often an import that failed. Look for the "
            "traceback above; put a missing package into the image or into EXTRA_PIP_PACKAGES."
        )
    return "the program chose this status itself, by sys.exit() or os._exit(). Look for its reason."


def signal_of(status: int) -> int:
    """The number of the signal that ended a process; 0: it exited."""
    number = -status if status < 0 else status - _FIRST_SIGNAL
    return number if 0 < number <= _LAST_SIGNAL else 0


def _name_of(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
