"""What is rung when something changes that any job may be waiting for."""

from __future__ import annotations

from collections.abc import Callable


class Bell:
    """Wakes all who listen."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[], None]] = {}

    def listen(self, listener: object, wake: Callable[[], None]) -> None:
        """Call `wake` at every ring, until `ignore`."""
        self._listeners[listener] = wake

    def ignore(self, listener: object) -> None:
        """Undo `listen`; harmless without it."""
        self._listeners.pop(listener, None)

    def ring(self) -> None:
        """Wake everybody, in the order in which they began to listen."""
        for wake in list(self._listeners.values()):
            wake()
