"""`prefect-vertex jobs`: the pool's jobs beside their flow runs, and what to do about them."""

from __future__ import annotations

import json as json_module
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import httpx
from cyclopts import Parameter
from prefect.client.orchestration import get_client

from prefect_vertex.cli.doctor.about_pool import check_kind
from prefect_vertex.cli.plan import prefect_told
from prefect_vertex.cli.subject import for_pool
from prefect_vertex.cli.terminal import quiet, working
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.errors import PrefectVertexError, SetupError
from prefect_vertex.planning.addresses import told
from prefect_vertex.runs.port import PrefectUnavailableError
from prefect_vertex.settings import read_settings

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from prefect_vertex.cli.jobs.errands import Errand, Options
    from prefect_vertex.reconciler.wiring import Surroundings

LONGEST = timedelta(days=36_500)
"""Of a time span; before today it is still a moment that Vertex AI and Python have."""

_SPAN = re.compile(r"([0-9]+)([smhdw])")
_MONTHS = re.compile(r"[0-9]+ *(?:M|(?i:mo[a-z]*))")
"""Elsewhere a capital M is months; read as minutes, it would delete what was to be kept."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DIGITS, _SHOWN = 10, 40


def jobs(  # noqa: PLR0913 - keywords only, each an option
    *,
    pool: str,
    since: str = "1d",
    json: bool = False,
    settle: bool = False,
    cancel: Annotated[str | None, Parameter(name="--cancel")] = None,
    delete_older_than: str | None = None,
    yes: bool = False,
) -> int:
    """Show a pool's CustomJobs beside their flow runs, and where the two disagree.

    All locations are looked at that the pool, its deployments or its runs name. --settle, --cancel
    and --delete-older-than say what they would do; with --yes they do it, and may be repeated.

    The exit code is 1 if a location could not be seen or something is not done, 2 for options that
    mean nothing, else 0.

    Args:
        pool: The work pool.
        since: How far back to show jobs that have ended, such as 12h, 7d; by their creation.
        json: Print one JSON object instead.
        settle: Where a job and its run disagree, take the steps that a worker would take now.
        cancel: Cancel this flow run, by its name or id, and its jobs.
        delete_older_than: Delete jobs that ended longer ago, such as 30d; not those of a run that
            has not ended.
        yes: Do it.
    """
    from prefect_vertex.cli.jobs.errands import Options

    chosen: list[Literal["settle", "cancel", "delete"]] = []
    chosen += ["settle"] if settle else []
    chosen += ["cancel"] if cancel is not None else []
    chosen += ["delete"] if delete_older_than is not None else []
    if len(chosen) > 1:
        raise WrongUseError("Name one of --settle, --cancel and --delete-older-than.")
    if yes and not chosen:
        raise WrongUseError("--yes goes with --settle, --cancel or --delete-older-than.")
    # An unset shell variable is a mistake, not another command.
    if not pool.strip():
        raise WrongUseError("--pool names no work pool.")
    if cancel is not None and not cancel.strip():
        raise WrongUseError("--cancel names no flow run.")
    options = Options(
        pool=pool,
        act=chosen[0] if chosen else "",
        run=cancel or "",
        age=(
            parse_span("--delete-older-than", delete_older_than)
            if delete_older_than is not None
            else None
        ),
        since=parse_span("--since", since),
        json=json,
        yes=yes,
    )
    with quiet():
        return anyio.run(_jobs, options)


def parse_span(option: str, text: str) -> timedelta:
    """A time span such as 30d.

    Raises:
        WrongUseError: It is none.
    """
    match = _SPAN.fullmatch(text.strip().lower())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if _MONTHS.fullmatch(text.strip()):
        raise WrongUseError(
            f"{option} is {shown!r}: there is no unit for months.",
            hint="Write months in d, such as 180d; m is minutes.",
        )
    if match is None:
        raise WrongUseError(
            f"{option} is {shown!r}, not a time span.",
            hint="Write a number and s, m, h, d or w, such as 30d.",
        )
    number = match[1].lstrip("0") or "0"
    if len(number) > _DIGITS or int(number) * _SECONDS[match[2]] > LONGEST.total_seconds():
        raise WrongUseError(f"{option} is {shown!r}: longer than any job is old.")
    return timedelta(seconds=int(number) * _SECONDS[match[2]])


async def _jobs(options: Options) -> int:
    from prefect_vertex.cli.onlooker import looking_at

    with prefect_told():
        async with get_client() as client:
            work_pool = (await for_pool(client, options.pool, {})).work_pool
            check_kind(work_pool.name, work_pool.type)
            async with looking_at(work_pool, client, read_settings()) as surroundings:
                try:
                    return await _show_and_act(options, client, surroundings)
                except PrefectUnavailableError as error:
                    raise SetupError(str(error), hint="Try again.") from error


async def _show_and_act(options: Options, client: PrefectClient, surroundings: Surroundings) -> int:
    from prefect_vertex.cli.jobs.errands import Errand
    from prefect_vertex.cli.jobs.looking import look
    from prefect_vertex.cli.jobs.showing import printable

    world = surroundings.world()
    with working(f"Looking at the jobs of {options.pool}"):
        seen = await look(world, since=None if options.act == "delete" else options.since)
    if surroundings.unlearned and not seen.places:
        # Nothing can be said of the pool's jobs, not even where they would be.
        raise surroundings.unlearned[0]
    seen.troubles[:0] = map(str, surroundings.unlearned)
    for line in dict.fromkeys(seen.troubles):
        sys.stderr.write(f"warning: {printable(line)}\n")
    if not seen.places:
        sys.stderr.write(
            "warning: neither the pool, its deployments nor its runs name a project and a region.\n"
        )
    errand = Errand(options=options, client=client, world=world, seen=seen)
    try:
        done = await errand.run()
    except (PrefectVertexError, PrefectUnavailableError, httpx.HTTPError) as error:
        if options.json and "done" in errand.report:
            # Programs too have to learn what was done before it.
            errand.report["error"] = told(error)
            _print_report(errand)
        raise
    if options.json:
        _print_report(errand)
    return int(bool(seen.troubles) or not done)


def _print_report(errand: Errand) -> None:
    print(json_module.dumps(errand.report, indent=2, ensure_ascii=False))
