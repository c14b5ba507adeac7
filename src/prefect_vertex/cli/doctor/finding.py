"""Finding: one line of what `doctor` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Verdict(Enum):
    """What a check came to, in the words that are printed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "not checked here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check came to.

    Attributes:
        check: What was looked at.
        text: What was found.
        fix: One command, to be copied; empty where there is nothing to mend, or no command does.
    """

    check: str
    verdict: Verdict
    text: str
    fix: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {**asdict(self), "verdict": self.verdict.value}


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check=check, verdict=Verdict.OK, text=text)


def warning(check: str, text: str, fix: str = "") -> Finding:
    """Runs may work, but not as well as they should."""
    return Finding(check=check, verdict=Verdict.WARNING, text=text, fix=fix)


def failed(check: str, text: str, fix: str = "") -> Finding:
    """Runs cannot work."""
    return Finding(check=check, verdict=Verdict.FAILED, text=text, fix=fix)


def unchecked(check: str, why: str, fix: str = "") -> Finding:
    """Nothing is known, and why."""
    return Finding(check=check, verdict=Verdict.UNCHECKED, text=why, fix=fix)


def exit_code(findings: Iterable[Finding]) -> int:
    """1 if anything failed, else 0."""
    return int(any(each.verdict is Verdict.FAILED for each in findings))


def tally(findings: Iterable[Finding]) -> dict[str, int]:
    """How many came to each verdict; all four are there."""
    counted = Counter(each.verdict for each in findings)
    return {verdict.value: counted[verdict] for verdict in Verdict}
