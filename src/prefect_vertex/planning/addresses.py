"""Texts as they may be shown: without the name and password that an address in them may hold."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator

# As httpx writes them: a slash, a quotation mark or white space in a password is escaped there, an
# apostrophe is not.  Others, such as SQLAlchemy, take a slash; a port before a path is none.
_NAME = r"[^:/?#@\[\s\"]*"
_USER = re.compile(
    rf"(?<=://)(?:[^/\s?#\"]*|{_NAME}:(?!\d+[/?#])[^@\s\"]*)@"  # whoever an address names
)
# As people write them: httpx takes an address with white space or a quote in its password.
_USER_OF_ONE = re.compile(r"(?<=://)[^/?#]*@")
# Whom it names with a password; and over HTTP a name alone, which may be a token.
_SECRET = re.compile(
    rf"(?<=://){_NAME}:(?:[^/\s?#\"]*|(?!\d+[/?#])[^@\s\"]*)@"
    r"|(?:(?<=http://)|(?<=https://))[^:/\s?#'\"]+@"
)
_REFERENCE = "{{"
# What none of them reaches beyond.
_WORD = re.compile(r"[^\s\"]+")


def shown_url(url: str) -> str:
    """One address, however it is written: a password may hold what ends a host elsewhere."""
    head, at, tail = url.rpartition("@")
    scheme = "".join(head.partition("://")[:2]) if "://" in head else ""
    return f"{scheme}…@{tail}" if at else url


def hidden_in(url: str) -> tuple[str, ...]:
    """What is never shown of the API's address: all of it, who it names, and the password."""
    found = _USER_OF_ONE.search(url)
    if found is None:
        return ()
    user = found[0].removesuffix("@")
    return (url, user, *filter(None, [user.partition(":")[2]]))


def passwords_in(text: str) -> Iterator[str]:
    """Who the addresses in a text name, each with its password; not what is a reference to one.

    A password alone is none of them: many a one is an ordinary word, such as postgres.
    """
    for word in _WORD.finditer(text):
        naming, _ = _naming(word[0])
        for found in _SECRET.finditer(naming):
            user = found[0].removesuffix("@")
            if _REFERENCE not in user:
                yield user


def without_user(text: str) -> str:
    """A text in which the addresses name nobody."""

    def plain(word: re.Match[str]) -> str:
        naming, rest = _naming(word[0])
        return _USER.sub("…@", naming) + rest

    return _WORD.sub(plain, text)


def _naming(word: str) -> tuple[str, str]:
    """What may name somebody, and the rest.

    Behind the last sign of it each address would be read to the end, in vain: a long list of them
    would take minutes.
    """
    head, at, rest = word.rpartition("@")
    return head + at, rest


def told(error: BaseException) -> str:
    """The first line of what an error says: httpx quotes the address that was asked."""
    return without_user(next(iter(str(error).splitlines()), ""))


def trace_of(error: BaseException) -> str:
    """Where an unforeseen error came from, with its causes, as a log may hold it."""
    return without_user("".join(traceback.format_exception(error))).rstrip()
