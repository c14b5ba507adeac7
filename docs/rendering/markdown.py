"""What all reference pages are made of: tables, and text that is safe in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; its cells are Markdown on one line each."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(one_line(cell) for cell in row)} |"


def one_line(text: str) -> str:
    """Text as a cell of a table holds it."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text as it is written."""
    return f"`{text}`"


def shown_default(value: object) -> str:
    """A default as code, or a dash where there is none."""
    return "-" if value in (None, "", {}, [], ()) else code(value)


def page(*parts: str | Iterable[str]) -> str:
    """A page of paragraphs and lines, with an empty line between two parts."""
    blocks = [part if isinstance(part, str) else "\n".join(part) for part in parts]
    return "\n\n".join(blocks) + "\n"
