"""A reverse proxy before the Prefect API that counts what a worker asks, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Final, Self

_HOST: Final = "127.0.0.1"
_MAX_HEAD: Final = 1 << 20
_BLOCK: Final = 1 << 16
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What Prefect's own client calls itself; containers of the benchmark have other names.
_CLIENT: Final = b"prefect/"
# Each changes a run: while they come, a worker is still taking runs over.
_WRITE: Final = re.compile(r"(POST|PATCH) /api/flow_runs/\{id\}")


class CountingProxy:
    """Passes everything on and counts requests of Prefect clients by method and path.

    A web socket counts once, where its client calls itself so; what is sent through it is not
    looked at.

    Args:
        port: Of the Prefect server, on the loopback interface.
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._port = 0
        self._counts: Counter[str] = Counter()
        self._last_write = 0.0
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        """Where to reach it."""
        return f"http://{_HOST}:{self._port}"

    def reset(self) -> None:
        """Count from zero."""
        with self._lock:
            self._counts.clear()

    def counts(self) -> dict[str, int]:
        """Requests since the last reset, such as `GET /api/flow_runs/{id}`, the most first."""
        with self._lock:
            return dict(self._counts.most_common())

    def seconds_since_write(self) -> float:
        """How long no run has been changed by a worker."""
        with self._lock:
            return time.monotonic() - self._last_write

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, _HOST, 0, limit=_MAX_HEAD),
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        # One round, in which the cancelled ones close their connections.
        self._loop.run_until_complete(asyncio.sleep(0.1))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled only at the very end; a task that ends so is reported as a fault by asyncio.
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            up_reader, up_writer = await asyncio.open_connection(_HOST, self._upstream)
            answers = asyncio.create_task(_relay(up_reader, writer))
            try:
                await self._pass_requests(reader, up_writer)
            finally:
                up_writer.close()
                answers.cancel()
        writer.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            headers = _headers(head)
            self._note(head, headers)
            writer.write(head)
            if b"upgrade" in headers:
                await _relay(reader, writer)
                return
            if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
                await _pass_chunks(reader, writer)
            else:
                await _pass_bytes(reader, writer, int(headers.get(b"content-length", b"0")))
            await writer.drain()

    def _note(self, head: bytes, headers: dict[bytes, bytes]) -> None:
        if not headers.get(b"user-agent", b"").startswith(_CLIENT):
            return
        method, target, _ = head.split(b" ", 2)
        path = _UUID.sub("{id}", target.partition(b"?")[0].decode())
        request = f"{method.decode()} {path}"
        with self._lock:
            self._counts[request] += 1
            if _WRITE.match(request):
                self._last_write = time.monotonic()


def _headers(head: bytes) -> dict[bytes, bytes]:
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in lines}


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()
    writer.close()


async def _pass_bytes(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int
) -> None:
    while count:
        block = await reader.readexactly(min(count, _BLOCK))
        writer.write(block)
        count -= len(block)


async def _pass_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        size = await reader.readuntil(b"\r\n")
        writer.write(size)
        length = int(size.split(b";")[0], 16)
        # The chunk's own line end; after the last chunk, the end of empty trailers.
        await _pass_bytes(reader, writer, length + 2)
        if not length:
            return
