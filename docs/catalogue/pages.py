"""What the docs explain: each line of a fenced `text` block in `docs/troubleshooting` is a message.

So the catalogue is what a reader sees, and cannot differ from it.  An entry is a heading with such
a block and what is said about it.

Lines of a fenced `output` block are foreign messages: words of Prefect's or of Python's, and whole
lines that our messages end in together.  They are found by the field of the site, and not compared
with our source.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catalogue.source import ROOT, Found, Place, messages

PAGES: Final = ROOT / "docs" / "troubleshooting"

_BLOCK: Final = re.compile(r"^```text\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
_FOREIGN: Final = re.compile(r"^```output\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#{1,4} (?P<title>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Messages of one cause, and what to know about them.

    Attributes:
        place: Its heading.
        messages: Ours, which the source has to make.
        foreign: Those that nothing in our source makes, or none of it alone.
        words: All that it says besides its messages.
    """

    place: Place
    title: str
    messages: tuple[str, ...]
    foreign: tuple[str, ...]
    words: str


def pages() -> list[Path]:
    """The pages that explain messages."""
    return sorted(PAGES.rglob("*.md"))


def catalogue() -> Found:
    """Every message that the docs explain, and where."""
    found: dict[str, list[Place]] = defaultdict(list)
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            first = text.count("\n", 0, block.start()) + 2
            for number, line in enumerate(block["lines"].splitlines()):
                found[line].append(_place(path, first + number))
    return found


def entries() -> Iterator[Entry]:
    """Each heading that has messages of its own."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        heads = [*_HEADING.finditer(text)]
        ends = [*(head.start() for head in heads[1:]), len(text)]
        for head, end in zip(heads, ends, strict=True):
            body = text[head.end() : end]
            told, foreign = _lines(_BLOCK, body), _lines(_FOREIGN, body)
            if told or foreign:
                yield Entry(
                    place=_place(path, text.count("\n", 0, head.start()) + 1),
                    title=head["title"],
                    messages=told,
                    foreign=foreign,
                    words=_FOREIGN.sub("", _BLOCK.sub("", body)),
                )


def _lines(block: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(line for each in block.finditer(text) for line in each["lines"].splitlines())


def problems() -> list[str]:
    """What source and docs have against each other."""
    return compare(messages(), catalogue())


def compare(made: Found, told: Found) -> list[str]:
    """What is made and not explained, explained and not made, or explained twice.

    Each is told with its places, and with the very line that is to be written, or is nearest.
    """
    said = [
        f"{_at(places)}: this message has no entry in docs/troubleshooting:\n    {text}\n"
        "  Add this line to the `text` block of the entry that explains it, or write an entry."
        for text, places in made.items()
        if text not in told
    ]
    for text, places in told.items():
        if text not in made:
            near = difflib.get_close_matches(text, made, n=1)
            now = f"\n  Perhaps it is now ({_at(made[near[0]])}):\n    {near[0]}" if near else ""
            said.append(f"{_at(places)}: nothing makes this message any more:\n    {text}{now}")
        elif len(places) > 1:
            said.append(f"{_at(places)}: this message has more than one entry:\n    {text}")
    return said


def _place(path: Path, line: int) -> Place:
    return Place(path.relative_to(ROOT).as_posix(), line)


def _at(places: Iterable[Place]) -> str:
    return ", ".join(str(place) for place in places)
