"""Ports for what will listen later: promised now, bound by another program in a while."""

from __future__ import annotations

import secrets
import socket
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
# Below what Linux (32768 on) and macOS and Windows (49152 on) give to who connects or asks for
# any port, so that nobody is given a promised one by chance; above the usual servers' ports.
_RANGE: Final = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses, all different.

    Who asks for a port that it binds itself should bind 0 instead: that cannot be lost again.

    Raises:
        OSError: There are not that many.
    """
    # Not from `random`: programs that are forked from one process would all draw the same.
    drawn = secrets.SystemRandom().sample(_RANGE, len(_RANGE))
    found: list[int] = []
    for port in drawn:
        if len(found) == count:
            break
        if _is_free(port):
            found.append(port)
    if len(found) < count:
        raise OSError(f"{count} free ports wanted on {_LOOPBACK}, {len(found)} found")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True
