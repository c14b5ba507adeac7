"""The field of the troubleshooting page that finds the entry of a pasted message."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def hook() -> Iterator[Any]:
    """The hook that MkDocs runs."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module("catalogue.hook")
    finally:
        sys.path.remove(str(DOCS))


def test_only_the_marked_page_gets_the_field(hook: Any) -> None:
    """The page in the repository has a comment in its place, which no reader sees."""

    class Page:
        def __init__(self, uri: str) -> None:
            self.file = self
            self.src_uri = uri

    text = (DOCS / hook.PAGE).read_text(encoding="utf-8")

    assert "<textarea" in hook.on_page_markdown(text, page=Page(hook.PAGE), config=None, files=None)
    assert hook.on_page_markdown(text, page=Page("index.md"), config=None, files=None) == text


def test_every_message_leads_to_a_heading_of_a_page(hook: Any) -> None:
    """The site's own check of links does not see those that a script makes."""
    markdown: Any = importlib.import_module("markdown").markdown
    anchors = {
        path.with_suffix(".html").name: set(
            re.findall(
                r'<h\d id="([^"]+)"',
                markdown(path.read_text(encoding="utf-8"), extensions=["fenced_code", "toc"]),
            )
        )
        for path in (DOCS / "troubleshooting").glob("*.md")
    }
    targets = {href.partition("#")[::2] for *_, href, _ in hook._messages()}

    assert {(page, anchor) for page, anchor in targets if anchor not in anchors[page]} == set()


def _pasted(hook: Any, folder: Path, text: str) -> str:
    page = folder / "page.html"
    page.write_text(f'<meta charset="utf-8">{hook.finder()}', encoding="utf-8")
    done = subprocess.run(
        [
            *(CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            f"--user-data-dir={folder / 'profile'}",
            f"{page.as_uri()}#message={quote(text)}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    body = done.stdout.partition('<ol id="found">')[2]
    return body.partition("<script")[0]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "A replica of CustomJob 9 exited with status 139: the process crashed (SIGSEGV).",
            "container.html#the-process-crashed",
        ),
        (
            "10:00:01 | ERROR | worker_count is 0, expected 1 or more.\nSet it.",
            "job-variables.html#how-many-replicas",
        ),
        (
            (
                "Could not read gs://my-bucket/launches/0f1e2d3c-1111-4222-8333-444455556666/"
                "a9.json: there is no such bucket or object."
            ),
            "records.html#the-file-is-no-record-or-of-another-version",
        ),
        (
            (
                "Replica 1 of attempt 1: Cannot read gs://my-bucket/replicas/0f1e/1/here-0.json: "
                "there is no such bucket or object."
            ),
            "code.html#the-buckets-name-or-place",
        ),
        (
            "Process exited with status code: 3. Process exited with an unexpected status code.",
            "container.html#the-flows-process-died-prefects-own-words",
        ),
        (
            "Execution was aborted by Python system exit call.",
            "container.html#the-flows-process-died-prefects-own-words",
        ),
        (
            "ModuleNotFoundError: No module named 'polars'",
            "container.html#a-module-is-missing",
        ),
        (
            (
                "prefect.exceptions.MissingResult: State data is missing. Typically, this occurs "
                "when result persistence is disabled and the state has been retrieved from the API."
            ),
            "adhoc.html#the-result-is-not-there",
        ),
    ],
    ids=[
        *("a crash", "a line of a log", "a lost record", "a lost bucket"),
        *("a dead process", "an exit", "a module", "a result"),
    ],
)
@pytest.mark.browser
@needs_chromium
def test_a_pasted_message_finds_its_own_entry_first(
    hook: Any, tmp_path: Path, text: str, first: str
) -> None:
    """Though it has names, numbers, and what stands before and after it."""
    assert _pasted(hook, tmp_path, text).startswith(f'<li><a href="{first}">')


@pytest.mark.browser
@needs_chromium
def test_a_text_without_a_message_is_said_to_have_none(hook: Any, tmp_path: Path) -> None:
    """A reader then knows to look elsewhere."""
    found = _pasted(hook, tmp_path, "KeyError: 'series'")

    assert found.startswith("</ol>")
    assert '<p id="nothing">' in found
