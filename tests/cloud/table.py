"""What the smoke found, as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """How much a row says."""

    TOLD = "told"
    UNTOLD = "not told"
    """The service was not made to show it here; the answer says why."""
    BROKEN = "broken"
    """The probe itself failed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: a point that no documentation settles, and what was seen."""

    point: str
    answer: str
    verdict: Verdict = Verdict.TOLD


def untold(point: str, why: str) -> Finding:
    """A row for what could not be seen."""
    return Finding(point, why, Verdict.UNTOLD)


def as_markdown(findings: Iterable[Finding], heading: str) -> str:
    """The table, to be pasted as it is."""
    rows = [f"| {_cell(row.point)} | {_cell(_answer(row))} |" for row in findings]
    return "\n".join([f"| point | {_cell(heading)} |", "|---|---|", *rows, ""])


def _answer(row: Finding) -> str:
    return row.answer if row.verdict is Verdict.TOLD else f"*{row.verdict.value}:* {row.answer}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def seconds(value: float) -> str:
    """A duration, as precise as it was measured."""
    return f"{value:.1f} s"


def listed(items: Sequence[str]) -> str:
    """A few names, or none."""
    return ", ".join(items) or "none"
