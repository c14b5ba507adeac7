"""A proxy for the JobService: bytes in, bytes out, whatever the method."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from tests.chaos.rules import Call, Rule, Script

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)


def _load_connections() -> Any:
    """The emulator's module for cutting connections, without the seconds that its package takes."""
    package = importlib.util.find_spec("prefect_vertex")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "emulator" / "connections.py"
    spec = importlib.util.spec_from_file_location("chaos_connections", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_connections = _load_connections()


class JobServiceProxy(grpc.GenericRpcHandler):
    """Forwards every call to another address.

    Args:
        script: What is to happen to which call.
        address: The emulator's.
    """

    def __init__(self, script: Script, address: str) -> None:
        self._script = script
        self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((self,))

    async def start(self) -> int:
        """Serve; returns the port."""
        port: int = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port

    async def stop(self) -> None:
        """Serve no more."""
        await self._server.stop(None)
        await self._channel.close()

    def service(self, handler_call_details: Any) -> Any:
        """A handler for any method; without serializers messages stay bytes."""
        return grpc.unary_unary_rpc_method_handler(
            functools.partial(self._answer, handler_call_details.method)
        )

    async def _answer(self, method: str, request: bytes, context: Any) -> bytes:
        call = Call(api="jobs", kind=kind_of(method, request), who="worker", content=request)
        self._script.note(call)
        rule = self._script.take(call)
        if rule is not None and rule.when == "before":
            await _happens(rule, context)
        response = await self._forward(method, request, context)
        if rule is not None and rule.when == "after":
            await _happens(rule, context)
        return response

    async def _forward(self, method: str, request: bytes, context: Any) -> bytes:
        sent = [
            (key, value)
            for key, value in context.invocation_metadata()
            if not key.startswith(("grpc-", ":", "user-agent", "te", "content-type"))
        ]
        call: Any = self._channel.unary_unary(method)
        try:
            answer: bytes = await call(request, timeout=context.time_remaining(), metadata=sent)
        except grpc.aio.AioRpcError as error:
            trailing = tuple(error.trailing_metadata() or ())
            await context.abort(error.code(), error.details() or "", trailing)
            raise
        return answer


async def _happens(rule: Rule, context: Any) -> None:
    """Do what a rule says; returns where the call goes on as usual."""
    if rule.action == "delay":
        await asyncio.sleep(rule.seconds)
    elif rule.action == "answer":
        await context.abort(grpc.StatusCode[rule.code], f"scripted {rule.code}")
    else:
        if rule.action == "kill":
            os.kill(rule.pid, signal.SIGKILL)
        _connections.cut_connection(context.peer())
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")


def kind_of(method: str, request: bytes) -> str:
    """The method, and for lists which of them: by flow run, of ended jobs, or of live ones."""
    name = method.rpartition("/")[2]
    if name != "ListCustomJobs":
        return name
    return f"{name} {'find' if b'flow-run-id' in request else 'pool'}"
