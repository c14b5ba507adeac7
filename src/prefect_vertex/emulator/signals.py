"""The signals that end a server, as an event."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signal() -> Iterator[asyncio.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set while the context lasts.

    A second signal changes nothing: what is being stopped is stopped to its end.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
