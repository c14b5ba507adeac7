"""How commands print: colours and movement on a terminal, plain lines anywhere else.

A pipe or a file gets no colour, no box and no line break that was not asked for, so that what it
holds can be searched and cut into columns. `NO_COLOR` takes the colours off a terminal too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console(*, stderr: bool = False, folds: bool = False) -> Console:
    """Where a command prints; it takes text as it is, with no markup in it.

    Args:
        stderr: Instead of standard output.
        folds: Whether long lines are folded to the terminal's width.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=not folds)


def print_table(
    out: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print rows in columns: a table on a terminal, aligned text elsewhere.

    Args:
        out: Where.
        headings: Of the columns.
        rows: One text for each column.
        styles: The style of a cell that holds exactly this text.
    """
    if not out.is_terminal:
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        for row in (headings, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            out.print("  ".join(cells).rstrip())
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in row))
    # A table has to know the width that it may take.
    out.print(table, soft_wrap=False)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on standard error, if it is a terminal, that something goes on."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    # As a text of its own, or it would be taken for markup: names are anybody's.
    with out.status(Text(text)):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep log lines off the terminal, which a command's own lines say once.

    They still go where else they are sent, such as a flow run's log in Prefect.
    """
    known = [logging.getLogger(), *_loggers()]
    shown = [handler for each in known for handler in each.handlers if _prints(handler)]
    levels = [(handler, handler.level) for handler in shown]
    # What has no handler at all is printed by this one.
    last, logging.lastResort = logging.lastResort, None
    for handler in shown:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logging.lastResort = last
        for handler, level in levels:
            handler.setLevel(level)


def _loggers() -> list[logging.Logger]:
    found = list(logging.root.manager.loggerDict.values())
    return [each for each in found if isinstance(each, logging.Logger)]


def _prints(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(
        handler, logging.FileHandler
    )
