"""The whole smoke: every probe at once, a table in a fixed order, and nothing left behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from google.api_core.exceptions import GoogleAPICallError
from tests.cloud import about_ends, about_lists, about_places
from tests.cloud.lab import Lab, NotSeenError
from tests.cloud.table import Finding, Verdict, untold

from prefect_vertex.errors import PrefectVertexError

EXPECTED = (GoogleAPICallError, PrefectVertexError, NotSeenError)
"""What makes a probe fail, and not the smoke: the other rows are worth their money."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What is asked, and the rows that it owes."""

    ask: Callable[[Lab], Awaitable[list[Finding]]]
    points: tuple[str, ...]


WITH_JOBS = (
    Probe(
        about_ends.ask_cancel,
        (
            about_ends.SINGLE_SPEC,
            about_ends.BEFORE_RUNNING,
            about_ends.CANCEL_TERM,
            about_ends.CANCEL_END,
            about_ends.CANCEL_AGAIN,
        ),
    ),
    Probe(about_ends.ask_finish, (about_ends.FINISH_TERM, about_ends.FINISH_END)),
    Probe(about_ends.ask_fail, (about_ends.FAIL_TERM, about_ends.FAIL_END, about_ends.FAIL_STARTS)),
    Probe(about_ends.ask_timeout, (about_ends.TIMEOUT_TERM, about_ends.TIMEOUT_END)),
    Probe(about_ends.ask_crash, (about_ends.CRASH_STARTS,)),
    Probe(about_ends.ask_retried_crash, (about_ends.CRASH_RETRIED,)),
    Probe(
        about_places.ask_agent,
        (about_places.AGENT, about_places.CONTAINER, about_places.SHORT, about_places.LOG_DELAY),
    ),
    Probe(about_places.ask_flex, (about_places.FLEX,)),
    Probe(about_places.ask_stockout, (about_places.STOCKOUT,)),
    Probe(about_places.ask_busy, (about_places.BUSY,)),
    Probe(about_places.ask_tail, (about_places.TAIL,)),
    Probe(about_lists.ask_request_size, (about_lists.REQUEST_SIZE,)),
)
AFTERWARDS = (
    Probe(about_lists.ask_freshness, (about_lists.FRESH,)),
    Probe(about_lists.ask_page_size, (about_lists.PAGE_SIZE,)),
    Probe(about_lists.ask_mask, (about_lists.MASK,)),
    Probe(about_lists.ask_filters, (about_lists.FILTER,)),
    Probe(about_places.ask_billing, (about_places.BILLING, about_places.SPOT)),
)
"""They look at the other probes' jobs."""

POINTS = tuple(point for probe in (*WITH_JOBS, *AFTERWARDS) for point in probe.points)


async def run_smoke(lab: Lab) -> list[Finding]:
    """Ask everything, each probe apart from the others; one row for each of `POINTS`."""
    found: dict[str, Finding] = {}

    async def ask(probe: Probe) -> None:
        try:
            rows = await probe.ask(lab)
        except EXPECTED as error:
            why = f"{type(error).__name__}: {error}"
            rows = [Finding(point, why, Verdict.BROKEN) for point in probe.points]
        found.update({row.point: row for row in rows})

    try:
        with anyio.move_on_after(lab.pace.total):
            async with anyio.create_task_group() as group:
                for probe in WITH_JOBS:
                    group.start_soon(ask, probe)
        for probe in AFTERWARDS:
            await ask(probe)
    finally:
        # Also when somebody has enough of it: machines cost money.
        with anyio.CancelScope(shield=True):
            await lab.clean()
    late = f"its probe did not end within {lab.pace.total:g} s"
    return [found.get(point) or untold(point, late) for point in POINTS]
