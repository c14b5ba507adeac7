"""MkDocs hook: puts a field into the troubleshooting page that finds the entry of a pasted message.

The search of the site looks for words and not for sentences, so that a pasted message finds pages
that happen to have its words.  Without a script the page is as it stands in the repository.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from catalogue.pages import PAGES, entries
from catalogue.source import GAP, ROOT

PAGE: Final = "troubleshooting/index.md"
MARK: Final = "<!-- finder -->"
_TEMPLATE: Final = Path(__file__).resolve().with_name("finder.html")
_SAYS: Final = re.compile(r"\w")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the mark by the field, in the one page that has it."""
    return markdown.replace(MARK, finder()) if page.file.src_uri == PAGE else markdown


def finder() -> str:
    """The field, with all messages, ours and foreign."""
    text = json.dumps(list(_messages()), ensure_ascii=False).replace("<", "\\u003c")
    return _TEMPLATE.read_text(encoding="utf-8").replace("MESSAGES", text)


def _messages() -> Iterator[tuple[list[str], int, int, str, str]]:
    """Each message's fixed parts, sizes of the longest and of all, its entry's address and title.

    Addresses are relative to the page, and of the heading as MkDocs makes them.
    """
    from markdown.extensions.toc import slugify  # type: ignore[import-untyped]  # none in its wheel

    for entry in entries():
        path = PurePosixPath(entry.place.path).relative_to(PAGES.relative_to(ROOT).as_posix())
        title = entry.title.replace("`", "")
        href = f"{path.with_suffix('.html')}#{slugify(title, '-')}"
        for message in (*entry.messages, *entry.foreign):
            parts = [part.strip() for part in message.split(GAP) if part.strip()]
            sizes = [len(_SAYS.findall(part)) for part in parts]
            yield parts, max(sizes), sum(sizes), href, title
