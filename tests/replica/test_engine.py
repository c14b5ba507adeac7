"""The ceremony around a flow's function, for each kind of function that a flow can have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from prefect import flow
from prefect.exceptions import ParameterTypeError

from prefect_vertex.replica.engine import Ceremony, wrap, wrapped
from prefect_vertex.replica.membership import Membership


class Noted(Ceremony):
    """Notes what happens, in order."""

    def __init__(self, *, applies: bool = True) -> None:
        super().__init__(Membership())
        self.notes: list[Any] = []
        self._applies = applies

    def applies(self) -> bool:
        return self._applies

    def begin(self) -> None:
        self.notes.append("begin")

    def end(self) -> None:
        self.notes.append("end")

    async def end_async(self) -> None:
        self.notes.append("end")


def _called(ceremony: Noted, function: Any, kind: str) -> Any:
    """Call the wrapped function to its end, as Prefect's engine does."""
    call = wrapped(function, ceremony, is_async="async" in kind, is_generator="generator" in kind)
    if kind == "function":
        return call(2)
    if kind == "generator":
        return list(call(2))
    if kind == "async function":
        return asyncio.run(call(2))

    async def drain() -> list[Any]:
        return [item async for item in call(2)]

    return asyncio.run(drain())


def _functions(notes: list[Any]) -> dict[str, Any]:
    def plain(number: int) -> list[int]:
        notes.append("work")
        return [0, 1][:number]

    def generator(number: int) -> Iterator[int]:
        notes.append("work")
        yield from range(number)

    async def awaited(number: int) -> list[int]:
        notes.append("work")
        return [0, 1][:number]

    async def async_generator(number: int) -> AsyncIterator[int]:
        notes.append("work")
        for each in range(number):
            yield each

    return {
        "function": plain,
        "generator": generator,
        "async function": awaited,
        "async generator": async_generator,
    }


KINDS = sorted(_functions([]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_wait_comes_after_the_work_and_before_the_result(kind: str) -> None:
    ceremony = Noted()
    result = _called(ceremony, _functions(ceremony.notes)[kind], kind)

    assert result == [0, 1]
    assert ceremony.notes == ["begin", "work", "end"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_that_calls_itself_as_a_subflow_waits_only_at_its_own_end(kind: str) -> None:
    ceremony = Noted(applies=False)

    assert _called(ceremony, _functions(ceremony.notes)[kind], kind) == [0, 1]
    assert ceremony.notes == ["work"]


def test_a_function_that_fails_is_not_followed_by_a_wait() -> None:
    ceremony = Noted()

    def failing(_number: int) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        _called(ceremony, failing, "function")
    assert ceremony.notes == ["begin"]


def test_parameters_of_a_wrapped_flow_are_checked_and_cast_as_before() -> None:
    @flow
    def main(horizon: int, name: str = "a") -> int:
        """Documented."""
        return horizon

    wrap(main)

    assert main.validate_parameters({"horizon": "12"}) == {"horizon": 12, "name": "a"}
    with pytest.raises(ParameterTypeError):
        main.validate_parameters({"horizon": "many"})
    assert main.fn.__doc__ == "Documented."
