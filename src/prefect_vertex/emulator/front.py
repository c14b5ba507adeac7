"""What every call goes through: the log, the rates, the script, and only then its effect."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from prefect_vertex.emulator.api_error import ApiError, error_info, retry_info
from prefect_vertex.emulator.call_log import Call, CallLog
from prefect_vertex.emulator.connections import cut_connection
from prefect_vertex.emulator.faults import CallFault
from prefect_vertex.emulator.names import Place, project_number
from prefect_vertex.emulator.rates import Rates
from prefect_vertex.emulator.script import Faults

_PLACE: Final = re.compile(r"projects/([^/]+)/locations/([^/]+)")
_PROJECT: Final = re.compile(r"projects/([^/]+)$")

Effect = Callable[[Any], Any]
Context = grpc.aio.ServicerContext[Any, Any]


class Front:
    """Answers calls.

    Args:
        calls: Where each is noted.
        rates: What lets them through.
        faults: What spoils them.
        numbers: Project ids to numbers.
    """

    def __init__(
        self, calls: CallLog, rates: Rates, faults: Faults, numbers: Mapping[str, str]
    ) -> None:
        self._calls = calls
        self._rates = rates
        self._faults = faults
        self._numbers = numbers
        self._late: set[asyncio.Task[Any]] = set()

    async def answer(self, method: str, effect: Effect, request: Any, context: Context) -> Any:
        """The response of one call; a refusal leaves as a gRPC status."""
        place = self._place(request)
        call = self._calls.begin(method, place.location if place else "")
        try:
            response = await self._admit(call, place, lambda: effect(request), context)
        except ApiError as error:
            call.outcome = error.code.name
            await context.abort(error.code, error.message, error.trailing_metadata)
        except asyncio.CancelledError:
            call.outcome = call.outcome or "ABANDONED"
            raise
        call.outcome = "OK"
        return response

    def close(self) -> None:
        """Give up effects that have not come yet."""
        for task in self._late:
            task.cancel()

    async def _admit(
        self, call: Call, place: Place | None, effect: Callable[[], Any], context: Context
    ) -> Any:
        if place:
            self._rates.admit(call.method, place)
        fault = self._faults.take_call(call.method, call.location)
        if fault is None:
            return effect()
        if fault.when == "before":
            if not (fault.code or fault.hang or fault.drop):
                return await self._effect_later(fault.delay_seconds, effect)
            await self._spoil(fault, call, context)
        try:
            response = effect()
        except ApiError as error:
            response = error
        await self._spoil(fault, call, context)
        return _raised(response)

    async def _effect_later(self, seconds: float, effect: Callable[[], Any]) -> Any:
        """The effect comes even if the client hangs up meanwhile, as in a real service."""

        async def act() -> Any:
            await asyncio.sleep(seconds)
            try:
                return effect()
            except ApiError as error:
                return error

        task = asyncio.create_task(act())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return _raised(await asyncio.shield(task))

    async def _spoil(self, fault: CallFault, call: Call, context: Context) -> None:
        """Returns only where the usual answer follows."""
        await asyncio.sleep(fault.delay_seconds)
        if fault.drop:
            call.outcome = "DROPPED"
            cut_connection(context.peer())
        if fault.drop or fault.hang:
            # Ends by cancellation, once gRPC has seen that the client is gone.
            await asyncio.Event().wait()
        if fault.code:
            raise _scripted(fault)

    def _place(self, request: Any) -> Place | None:
        match = _PLACE.match(getattr(request, "parent", "") or getattr(request, "name", ""))
        if match:
            return Place(project_number(match[1], self._numbers), match[2])
        # Log entries are a project's, whatever the location.
        match = _PROJECT.match(next(iter(getattr(request, "resource_names", ())), ""))
        return Place(project_number(match[1], self._numbers), "global") if match else None


def _raised(response: Any) -> Any:
    if isinstance(response, ApiError):
        raise response
    return response


def _scripted(fault: CallFault) -> ApiError:
    details = []
    if fault.reason:
        details.append(error_info(fault.reason, fault.metadata, fault.domain))
    if fault.retry_after_seconds is not None:
        details.append(retry_info(fault.retry_after_seconds))
    return ApiError(grpc.StatusCode[fault.code], fault.message, *details)
