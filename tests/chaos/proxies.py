"""`python -m tests.chaos.proxies PREFECT_PORT VERTEX_ADDRESS`: both proxies and their control.

Prints three ports, those of the Prefect proxy, of the JobService proxy and of the control, and
serves until its standard input ends, so that it never outlives who started it.  The control takes
one JSON object a line, `{"do": NAME, ...}`, and answers with one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from tests.chaos.grpc_proxy import JobServiceProxy
from tests.chaos.http_proxy import HttpProxy
from tests.chaos.rules import Script

_LIMIT = 1 << 26


class Control:
    """What can be asked for."""

    def __init__(self, script: Script, prefect: HttpProxy) -> None:
        self._script = script
        self._prefect = prefect

    def add(self, rules: list[dict[str, Any]]) -> None:
        """Add rules."""
        self._script.add(rules)

    def clear(self, owner: str) -> None:
        """Drop an owner's rules."""
        self._script.clear(owner)

    def pending(self, kind: str) -> int:
        """How many calls of a kind are held back at this moment."""
        return self._script.pending(kind)

    def left(self, owner: str) -> list[dict[str, Any]]:
        """An owner's rules that still wait for a call."""
        return self._script.left(owner)

    def fired(self) -> dict[str, int]:
        """How often which fault happened."""
        return dict(self._script.fired)

    def calls(self, since: float = 0.0) -> list[tuple[float, str, str, str, str]]:
        """Calls since a moment: when, API, who, kind, flow run."""
        return [call for call in self._script.calls if call[0] >= since]

    def down(self, *, is_down: bool) -> None:
        """Take the Prefect API off the network, or put it back."""
        self._prefect.down = is_down
        if is_down:
            self._script.fired["Prefect API down"] += 1
            self._prefect.cut_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One control connection."""
        while line := await reader.readline():
            asked: dict[str, Any] = json.loads(line)
            result = getattr(self, asked.pop("do"))(**asked)
            writer.write(json.dumps({"result": result}).encode() + b"\n")
            await writer.drain()
        writer.close()


async def serve(prefect_port: int, vertex_address: str) -> None:
    """Serve until standard input ends."""
    script = Script()
    script.fired = Counter()
    prefect = HttpProxy(script, prefect_port)
    jobs = JobServiceProxy(script, vertex_address)
    control = Control(script, prefect)
    http = await asyncio.start_server(prefect.serve, "127.0.0.1", 0, limit=_LIMIT)
    lines = await asyncio.start_server(control.serve, "127.0.0.1", 0, limit=_LIMIT)
    ports = [_port(http), await jobs.start(), _port(lines)]
    sys.stdout.write(" ".join(map(str, ports)) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    prefect.cut_all()
    await jobs.stop()


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
