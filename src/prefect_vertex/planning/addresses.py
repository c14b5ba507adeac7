"""Addresses as they may be shown: without the name and password that one may hold."""

from __future__ import annotations

import re

# As httpx writes them: in a password all of these are escaped there.
_USER = re.compile(r'(?<=://)[^/\s?#"]*@')
# As people write them: httpx takes an address with white space or a quote in its password.
_USER_OF_ONE = re.compile(r"(?<=://)[^/?#]*@")


def shown_url(url: str) -> str:
    """One address, however it is written: a password may hold what ends a host elsewhere."""
    head, at, tail = url.rpartition("@")
    scheme = "".join(head.partition("://")[:2]) if "://" in head else ""
    return f"{scheme}…@{tail}" if at else url


def hidden_in(url: str) -> tuple[str, ...]:
    """What is never shown of an address: all of it, who it names, and the password."""
    found = _USER_OF_ONE.search(url)
    if found is None:
        return ()
    user = found[0].removesuffix("@")
    return (url, user, *filter(None, [user.partition(":")[2]]))


def without_user(text: str) -> str:
    """A text in which the addresses name nobody."""
    return _USER.sub("…@", text)


def told(error: BaseException) -> str:
    """The first line of what an error says: httpx quotes the address that was asked."""
    return without_user(next(iter(str(error).splitlines()), ""))
