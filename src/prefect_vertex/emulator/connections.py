"""Cutting a client's connection, as a network that breaks does."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final
from urllib.parse import unquote

# Every open file of this process, on Linux and macOS.
_OPEN_FILES: Final = Path("/dev/fd")


def cut_connection(peer: str) -> bool:
    """Shut down the socket whose other end that is; False where there is none any more.

    gRPC holds the socket itself and gives no way to it, so it is looked for among all open files.
    Every call on that connection is lost with it.

    Args:
        peer: As gRPC names it, `ipv4:127.0.0.1:54321`.
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    wanted = (host.strip("[]"), int(port))
    for entry in _OPEN_FILES.iterdir():
        connection = _duplicate(int(entry.name))
        if connection is None:
            continue
        with connection:
            if _peer_of(connection) == wanted:
                connection.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _duplicate(number: int) -> socket.socket | None:
    """Another handle of that socket; None where it is none, or was closed meanwhile."""
    try:
        copy = os.dup(number)
    except OSError:
        return None
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None


def _peer_of(connection: socket.socket) -> tuple[str, int] | None:
    if connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return None
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return None  # it listens, or has just been closed
    # gRPC listens on sockets for both families, which name IPv4 so.
    return host.removeprefix("::ffff:"), port
