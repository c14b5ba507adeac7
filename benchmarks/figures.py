"""Figures of both sides and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.sides import OURS, THEIRS

Figures = dict[str, float | str | None]
"""By name, in the order in which they are shown; None where a side has no such figure."""

_EXACT_FROM: Final = 100


def table(figures: Mapping[str, Figures], targets: Mapping[str, str]) -> str:
    """A Markdown table of what the sides did, with prefect-gcp's figure over ours."""
    names = list(dict.fromkeys(name for side in figures.values() for name in side))
    rows = [["figure", OURS, THEIRS, "ratio", "target"]]
    for name in names:
        ours, theirs = (figures.get(side, {}).get(name) for side in (OURS, THEIRS))
        rows.append(
            [name, _shown(ours), _shown(theirs), _ratio(ours, theirs), targets.get(name, "")]
        )
    return _lines(rows)


def _ratio(ours: float | str | None, theirs: float | str | None) -> str:
    if isinstance(ours, str) or isinstance(theirs, str) or not ours or theirs is None:
        return ""
    return _shown(theirs / ours)


def _shown(value: float | str | None) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "-"
    if value == int(value) or abs(value) >= _EXACT_FROM:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"  # noqa: PLR2004 - three digits


def _lines(rows: Sequence[Sequence[str]]) -> str:
    # Leading spaces would be lost in Markdown.
    cells = [[cell.replace("  ", "\u2003", 1) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column in (0, len(row) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    head, *body = cells
    rule = [
        "-" * width if column in (0, len(widths) - 1) else f"{'-' * (width - 1)}:"
        for column, width in enumerate(widths)
    ]
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *(line(row) for row in body)])
