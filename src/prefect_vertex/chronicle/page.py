"""A chronicle as a page: what was asked for, where it ran, what became of it, what it cost.

Prefect's pages do not wrap a table's cells, so a table holds only what is short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from prefect_vertex.chronicle.bill import Bill, add_up, hours_of, machines_text
from prefect_vertex.chronicle.chronicle import AttemptRecord, Chronicle
from prefect_vertex.chronicle.prices import PriceList
from prefect_vertex.lifecycle.snapshot import JobSnapshot, PoolMachines
from prefect_vertex.planning.addresses import without_user
from prefect_vertex.planning.links import job_links, shell_links

MAX_ROWS = 60
"""Attempts in the table; of more the last ones."""

MAX_REASON_LENGTH = 300
"""Characters of an end's explanation in the table; the run's state and log have more."""


_SPECIAL = re.compile(r"[\\`*_~|\[\]@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""What Markdown takes for its own in the middle of a line, bare addresses of GFM included."""


def write_page(chronicle: Chronicle, prices: PriceList | None, *, has_console: bool = True) -> str:
    """The page, in Markdown; its headline stands in the artifact's description.

    Args:
        chronicle: Of the run.
        prices: For the estimate; None: there is none.
        has_console: Whether the jobs have pages in Google Cloud's console.
    """
    lines = [*_attempts(chronicle), *_explanations(chronicle)]
    if (job := chronicle.last_job) is not None:
        lines += ["", *_asked(job)]
    lines += ["", *_cost(add_up(chronicle, prices), prices)]
    lines += _jobs(chronicle, has_console=has_console)
    if chronicle.records:
        lines += ["", f"**Launch records**: {as_markdown(chronicle.records)}/"]
    lines += _shells(chronicle)
    if chronicle.is_live:
        lines += ["", f"As of {_moment(chronicle.at)}."]
    return "\n".join(lines) + "\n"


def headline(chronicle: Chronicle) -> str:
    """One sentence, as plain text: how the run stands, and where."""
    count = sum(1 for each in chronicle.attempts if each.attempt)
    if not chronicle.attempts:
        return f"Flow run {chronicle.run_name} ({chronicle.state_name}): no attempt yet."
    last = chronicle.attempts[-1]
    tried = f"{count} attempt{'' if count == 1 else 's'}"
    return (
        f"Flow run {chronicle.run_name} ({chronicle.state_name}): {tried}, the last one in "
        f"{last.place}: {last.reason}."
    )


def as_markdown(text: str) -> str:
    """Text as Markdown that shows it on one line, and makes nothing of its own.

    A replica's own words are among it: they must neither end a table's cell nor plant an image, a
    link or an address that is made one. Nor do they show whom an address names.
    """
    escaped = _SPECIAL.sub(r"\\\g<0>", " ".join(without_user(text).split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attempts(chronicle: Chronicle) -> Iterator[str]:
    yield "| attempt | where | end | waited | ran | created (UTC) |"
    yield "|---|---|---|---|---|---|"
    for record in chronicle.attempts[-MAX_ROWS:]:
        yield f"| {' | '.join(_cells(record, chronicle.at))} |"


def _cells(record: AttemptRecord, at: datetime) -> Iterator[str]:
    running, whole = hours_of(record, at)
    yield str(record.attempt or "none")
    yield as_markdown(record.place)
    yield as_markdown(record.reason)
    if record.ran_untimed:
        yield from ("unknown", "unknown")
    else:
        yield _span((whole - running) * 3600)
        yield _span(running * 3600) if record.started_at is not None else "no"
    yield f"{record.began_at:%Y-%m-%d %H:%M:%S}"


def _explanations(chronicle: Chronicle) -> Iterator[str]:
    """What was said of each end."""
    said = [each for each in chronicle.attempts[-MAX_ROWS:] if each.message]
    if said:
        yield ""
    for record in said:
        number = f"attempt {record.attempt}" if record.attempt else "not tried"
        yield f"- {number}, {as_markdown(record.place)}: {as_markdown(_short(record.message))}"


def _asked(job: JobSnapshot) -> Iterator[str]:
    """What the last attempt asks for."""
    strategy = job.strategy or "STANDARD"
    yield f"**Asked for** in {job.resource_name.location}, strategy {as_markdown(strategy)}:"
    yield ""
    if not job.machines:
        yield "- no longer known: the job is gone"
    for pool in job.machines:
        yield f"- worker pool {pool.pool}: {_replicas(pool)} {as_markdown(machines_text(pool))}"


def _replicas(pool: PoolMachines) -> str:
    return f"{pool.replicas} replica{'' if pool.replicas == 1 else 's'} on"


def _cost(bill: Bill, prices: PriceList | None) -> Iterator[str]:
    hours = ", ".join(f"{as_markdown(name)}: {value:.2f}" for name, value in bill.hours.items())
    without = ", without those of unknown start" if bill.untimed else ""
    yield f"**Machine-hours**: {hours or 'none'}{without}."
    yield ""
    unpriced = f"Not priced: {as_markdown(', '.join(bill.unpriced))}." if bill.unpriced else ""
    if prices is None or not bill.priced:
        yield f"**Estimated cost**: none. {unpriced}".rstrip()
        return
    kind = "list prices, some of them derived," if bill.derived else "list prices"
    currency = as_markdown(prices.currency)
    yield (
        f"**Estimated cost**: {currency} {bill.low:.2f} to {bill.high:.2f}, at {kind} of "
        f"{prices.day.isoformat()}; the lower figure counts from the jobs' start, the upper from "
        f"their creation. {unpriced}"
    ).rstrip()


def _jobs(chronicle: Chronicle, *, has_console: bool) -> Iterator[str]:
    jobs = [each for each in chronicle.attempts[-MAX_ROWS:] if each.job is not None]
    if jobs:
        yield ""
        yield "**CustomJobs**"
        yield ""
    for record in jobs:
        if (job := record.job) is None:  # pragma: no cover - sorted out above
            continue
        line = f"- attempt {record.attempt}: `{job.resource_name}`"
        if has_console:
            links = job_links(job.resource_name, job.resource_name.project)
            line += f" ([job]({links.console}), [logs]({links.logs}))"
        yield line


def _shells(chronicle: Chronicle) -> Iterator[str]:
    """Web shells, which are there while their replicas run."""
    last = chronicle.last_job
    shells = shell_links(last.web_access_uris) if last is not None and not last.is_terminal else {}
    if shells:
        yield ""
        yield "**Web shells**"
        yield ""
    for replica, url in shells.items():
        yield f"- [{as_markdown(replica)}]({url})"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_REASON_LENGTH else f"{words[: MAX_REASON_LENGTH - 1]}…"


def _span(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, last = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {last} s" if minutes else f"{last} s"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
