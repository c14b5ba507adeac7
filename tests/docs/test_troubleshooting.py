"""Every message that the product can show a user has its entry in docs/troubleshooting.

`python docs/check_messages.py` says the same without the tests.
"""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"

LEAST_OWN_WORDS = 15
"""Words that an entry has and its messages have not."""


@pytest.fixture(scope="module")
def source() -> Iterator[Any]:
    """Reads the messages from the product's source."""
    yield from _module("catalogue.source")


@pytest.fixture(scope="module")
def pages() -> Iterator[Any]:
    """Reads the entries from the docs, and compares."""
    yield from _module("catalogue.pages")


def _module(name: str) -> Iterator[Any]:
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


def _found(source: Any, code: str) -> list[str]:
    return [text for text, _line in source.messages_in(textwrap.dedent(code))]


# --- the pages and the product --------------------------------------------------------------------


def test_every_message_has_exactly_one_entry_and_no_entry_a_message_that_is_gone(
    pages: Any,
) -> None:
    """The failure names each message, where it is made, and the line that is to be written."""
    found = pages.problems()

    assert not found, "\n" + "\n".join(found)


def test_no_rule_names_what_is_no_longer_there(source: Any) -> None:
    """A rule that nothing falls under would hide the next text of that wording."""
    assert source.unused_rules() == []


def test_every_entry_says_what_its_messages_do_not(pages: Any) -> None:
    """What it means, where it comes from and what to do take more than the message's own words."""
    poor = []
    for entry in pages.entries():
        words = set(re.findall(r"[a-z]{3,}", entry.words.lower()))
        lines = " ".join((*entry.messages, *entry.foreign)).lower()
        told = set(re.findall(r"[a-z]{3,}", lines))
        if len(words - told) < LEAST_OWN_WORDS:
            poor.append(f"{entry.place}: {entry.title}")

    assert poor == []


def test_headings_of_a_page_differ(pages: Any) -> None:
    """An entry's address is made of its heading, and has to stay what it is."""
    for path in pages.pages():
        heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)

        assert [head for head, count in Counter(heads).items() if count > 1] == [], path.name


def test_the_index_names_every_page(pages: Any) -> None:
    """A reader who does not find a message by searching finds its page by its area."""
    index = (DOCS / "troubleshooting" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)", index))

    assert linked == {path.name for path in pages.pages()} - {"index.md"}


# --- what is told ---------------------------------------------------------------------------------


def test_a_message_without_an_entry_is_told_with_its_place(pages: Any, source: Any) -> None:
    """The contributor sees what is missing, and where it is made."""
    (told,) = pages.compare({"It … is broken.": [source.Place("src/a.py", 7)]}, {})

    assert told.startswith("src/a.py:7: this message has no entry in docs/troubleshooting:")
    assert "\n    It … is broken.\n" in told


def test_an_entry_of_a_changed_message_is_told_with_what_it_is_now(pages: Any, source: Any) -> None:
    """Who changes a message sees which line of the docs has to follow."""
    made = {"It … is quite broken.": [source.Place("src/a.py", 7)]}
    listed = {"It … is broken.": [source.Place("docs/troubleshooting/a.md", 3)]}

    gone = pages.compare(made, listed)[1]

    assert gone.startswith("docs/troubleshooting/a.md:3: nothing makes this message any more:")
    assert gone.endswith("src/a.py:7):\n    It … is quite broken.")


def test_a_message_with_two_entries_is_told(pages: Any, source: Any) -> None:
    """A reader would not know which one is meant."""
    places = [source.Place("docs/a.md", 1), source.Place("docs/b.md", 2)]

    (told,) = pages.compare({"It broke.": [places[0]]}, {"It broke.": places})

    assert told.startswith("docs/a.md:1, docs/b.md:2: this message has more than one entry:")


# --- what counts as a message ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('raise PlanError(f"{name} is {value!r}, expected a text.")', "… is …, expected a text."),
        ('raise PlanError("Broken.\\n" f"{a}{b} it is.")', "Broken. … it is."),
        ('logger.warning("Flow run %s: %.0f s passed.", a, b)', "Flow run …: … s passed."),
        ('text = "No jobs of {} in {}."', "No jobs of … in …."),
        ('text = "The first part " + name + " and the rest."', "The first part … and the rest."),
        ('return "This is broken."', "This is broken."),
        ('T = {70: (1, "it could not start", "Start it.")}', "it could not start"),
        ('return failed(check, f"{name} is gone.", "Bring it back again.")', "… is gone."),
        ("say(f\"x {'and all the rest' if more else 1}\")", "and all the rest"),
    ],
)
def test_a_text_is_a_message_with_gaps_for_what_is_filled_in(
    source: Any, code: str, message: str
) -> None:
    """However it is written, and whoever shows it."""
    assert message in _found(source, code)


@pytest.mark.parametrize(
    "code",
    [
        '"""A docstring of some words."""',
        'raise PlanError(message, hint="Set it to something else.")',
        'logger.info("Flow run %s is held by another.", run)',
        'runs.log(view, logging.INFO, "All of it is well.")',
        'region: Field(description="Where the job is run.")',
        'return failed(check, text, "gcloud auth application-default login")',
        '_NAME: Final = re.compile("some words and more")',
        'if "some words and more" in text: pass',
        'x = ("two words")',
    ],
)
def test_a_text_of_another_kind_is_no_message(source: Any, code: str) -> None:
    """Remedies, labels, patterns, and lines that say that all goes well."""
    assert _found(source, code) == []


def test_a_remedy_is_part_of_its_message(source: Any) -> None:
    """In a table of explanations the last text of each says what to do."""
    found = _found(source, '_SUMMARY = {1: ("it ran out of time", "Raise the limit of it.")}')

    assert found == ["it ran out of time"]


def test_a_message_has_the_line_where_it_begins(source: Any) -> None:
    """So that an editor jumps there."""
    (found,) = source.messages_in('\n\nraise PlanError(\n    "It is broken."\n)\n')

    assert found == ("It is broken.", 4)
