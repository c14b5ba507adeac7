"""A proxy for the Prefect API: HTTP/1.1 call by call, WebSockets passed through."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.chaos.rules import Call, Rule, Script

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WORKER = "prefect/"
_LIMIT = 1 << 20


class Gone(Exception):  # noqa: N818 - no error: the connection is meant to end
    """The connection ends here."""


class HttpProxy:
    """Forwards to a server on this machine.

    Args:
        script: What is to happen to which call.
        port: The server's.
    """

    def __init__(self, script: Script, port: int) -> None:
        self._script = script
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self.down = False

    def cut_all(self) -> None:
        """Cut every connection, WebSockets too."""
        for writer in list(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection."""
        self._open.add(writer)
        try:
            while not self.down:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._one(head, reader, writer)
        except (Gone, OSError, EOFError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort() if self.down else writer.close()

    async def _one(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        method, path, headers = _parsed(head)
        if headers.get("upgrade", "").lower() == "websocket":
            await self._pass_through(head, reader, writer)
            raise Gone
        body = await _body(headers, reader)
        who = "worker" if headers.get("user-agent", "").startswith(_WORKER) else "container"
        call = Call(
            api="prefect",
            kind=kind_of(method, path, body),
            who=who,
            content=path.encode() + b"\n" + body,
        )
        self._script.note(call)
        rule = self._script.take(call)
        self._script.held[call.kind] += 1
        try:
            if rule is not None and rule.when == "before":
                await _happens(rule, writer)
            answer = await self._forward(head, body)
        finally:
            self._script.held[call.kind] -= 1
        if rule is not None and rule.when == "after":
            await _happens(rule, writer)
        if self.down:
            raise Gone
        writer.write(answer)
        await writer.drain()

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        """Send one call on a connection of its own, and read the whole answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._open.add(writer)
        try:
            line, *fields = head[:-4].split(b"\r\n")
            kept = [field for field in fields if not field.lower().startswith(b"connection:")]
            sent = b"\r\n".join([line, *kept, b"Connection: close", b"", b""]) + body
            writer.write(sent)
            answer = await reader.read(-1)
        finally:
            self._open.discard(writer)
            writer.close()
        if not answer:
            raise Gone
        # The connection between client and proxy stays.
        return re.sub(rb"(?i)\r\nconnection: close(?=\r\n)", b"", answer, count=1)

    async def _pass_through(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._open.add(other_writer)
        other_writer.write(head)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, other_writer))
                group.create_task(_pump(other_reader, writer))
        finally:
            self._open.discard(other_writer)
            other_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_LIMIT):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _happens(rule: Rule, writer: asyncio.StreamWriter) -> None:
    """Do what a rule says; returns where the call goes on as usual."""
    if rule.action == "delay":
        await asyncio.sleep(rule.seconds)
    elif rule.action == "answer":
        body = json.dumps({"detail": "scripted"}).encode()
        retry = "Retry-After: 0\r\n" if rule.code == "429" else ""
        writer.write(
            f"HTTP/1.1 {rule.code} Scripted\r\nContent-Type: application/json\r\n{retry}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        raise Gone
    else:
        if rule.action == "kill":
            os.kill(rule.pid, signal.SIGKILL)
        writer.transport.abort()
        raise Gone


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    line, *fields = head[:-4].decode("latin-1").split("\r\n")
    method, path, _ = line.split(" ", 2)
    pairs = (field.partition(":") for field in fields)
    return method, path, {name.lower(): value.strip() for name, _, value in pairs}


async def _body(headers: Mapping[str, str], reader: asyncio.StreamReader) -> bytes:
    if "transfer-encoding" in headers:
        raise ValueError("no client of the Prefect API sends chunks")
    return await reader.readexactly(int(headers.get("content-length", 0)))


def kind_of(method: str, path: str, body: bytes) -> str:
    """A call without its ids, with what tells it from others of the same address."""
    address = _ID.sub("ID", path.removeprefix("/api").partition("?")[0])
    try:
        content: Any = json.loads(body) if body else {}
    except ValueError:
        content = {}
    detail = _detail(address, content if isinstance(content, dict) else {})
    return " ".join(part for part in (method, address, detail) if part)


def _detail(address: str, content: Mapping[str, Any]) -> str:
    if address.endswith("/set_state"):
        return str(content.get("state", {}).get("name", ""))
    if address.endswith("/input"):
        return _ID.sub("ID", str(content.get("key", "")))
    if address == "/flow_runs/ID/labels":
        return ",".join(sorted(name.rpartition(".")[2] for name in content))
    if address == "/flow_runs/filter":
        runs = content.get("flow_runs") or {}
        state = ((runs.get("state") or {}).get("type") or {}).get("any_") or []
        return "ids" if runs.get("id") else "+".join(sorted(state))
    if address == "/flow_runs/ID":
        return ",".join(sorted(content))
    return ""
