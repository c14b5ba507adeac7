"""The reference pages say what the code says, and no link leads nowhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for path in ROOT.rglob("*.md")
    if ".venv" not in path.parts and ".pytest_cache" not in path.parts
]


def _render() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: page() for name, page in module.PAGES.items()}


def test_reference_pages_are_what_make_docs_writes() -> None:
    """A changed setting or job variable changes its page in the same commit."""
    for name, text in _render().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, (
            f"run `make docs`: {name}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """Links within the repository are kept."""
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []
