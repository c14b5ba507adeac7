"""The site: built strictly, self-contained, without a link that leads nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest
import yaml

_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_ONLY_NAMED = frozenset({"canonical", "prev", "next", "license", "alternate"})


class _Page(HTMLParser):
    """What a page fetches, where it links to, and what can be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        address = given.get(_FETCHED.get(tag, ""), "")
        if address and given.get("rel") not in _ONLY_NAMED:
            self.fetched.append(address)


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The built site; any warning ends the build."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return target


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """No script, style, font, image or preconnection has an address of another host."""
    for path in site.rglob("*.html"):
        remote = [text for text in _read(path).fetched if urlsplit(text).netloc]
        assert remote == [], path.name
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']+", text) == [], (
            path.name
        )


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    """Files and anchors alike."""
    read = {path: _read(path) for path in site.rglob("*.html")}
    lost = []
    for path, page in read.items():
        if path.name == "404.html":
            continue  # its links are from the site's root
        for address in [*page.links, *page.fetched]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchored = read.get(target)
            if not target.exists() or (
                parts.fragment and anchored and unquote(parts.fragment) not in anchored.anchors
            ):
                lost.append(f"{path.name}: {address}")

    assert lost == []


def test_the_code_that_renders_pages_is_not_in_the_site(site: Path) -> None:
    assert [str(path) for path in site.rglob("*.py")] == []


def test_every_page_is_in_the_navigation_once(root: Path) -> None:
    """Nobody writes a page that nobody finds."""
    settings = yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"[\w./-]+\.md", yaml.safe_dump(settings["nav"]))
    written = [str(path.relative_to(root / "docs")) for path in (root / "docs").rglob("*.md")]

    assert sorted(listed) == sorted(written)


def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """Links are kept where the repository itself is read, too."""
    text = re.sub(
        r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_drawing_is_an_image_that_can_be_read_by_all(root: Path) -> None:
    """It has a title and a description, colours for light and dark, and fetches nothing."""
    for path in (root / "docs" / "images").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        names = {each.tag.rpartition("}")[2] for each in ET.fromstring(text).iter()}  # noqa: S314 - our own
        assert {"title", "desc"} <= names
        assert "prefers-color-scheme: dark" in text
        assert re.findall(r"(?:href|src)=\"(?!#)", text) == []
