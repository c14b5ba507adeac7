"""Where each replica stands: it says so in the meeting place once it has waited for a while.

Below the attempt's folder: `at/<rank>/main` while the main thread of its flow's process waits,
`at/<rank>/<thread>` for any other thread, `at/<rank>/ended` after the end of its flow function.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prefect_vertex.replica.store import Entry, Folder

FOLDER = "at"
_NOTE = "post"
_MAIN = "main"
_ENDED = "ended"
_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Where a thread of a replica stands.

    Attributes:
        rank: Whose.
        thread: `main`, a thread's number, or `ended`.
        place: What it waits for to be filled, as a folder.
        what: The same for people; empty after the end.
        since: By the store's clock.
    """

    rank: int
    thread: str
    place: str
    what: str
    since: datetime


class Posts:
    """What the replicas say of where they stand.

    Args:
        folder: The attempt's.
        rank: Who this is.
    """

    def __init__(self, folder: Folder, rank: int) -> None:
        self._folder = folder
        self._rank = rank
        self._has_ended = False

    def take(self, place: str, what: str) -> None:
        """Say that this thread waits."""
        self._put(_thread(), place, what)

    def leave(self) -> None:
        """Say that it does not any more."""
        self._folder.delete(self._name(_thread()))

    def end(self) -> None:
        """Say that this replica's flow function has ended, and comes nowhere any more."""
        self._put(_ENDED, "", "")
        self._has_ended = True

    def start_over(self) -> None:
        """Take that back: the function is called again."""
        if self._has_ended:
            self._folder.delete(self._name(_ENDED))
            self._has_ended = False

    def read(self) -> list[Post]:
        """Where all replicas stand that have said so."""
        return [_post(name, entry) for name, entry in self._folder.entries(f"{FOLDER}/").items()]

    def _put(self, thread: str, place: str, what: str) -> None:
        said = json.dumps({"place": place, "what": what})
        self._folder.put(self._name(thread), said.encode(), {_NOTE: said})

    def _name(self, thread: str) -> str:
        return f"{FOLDER}/{self._rank}/{thread}"


def ended(posts: Iterable[Post]) -> set[int]:
    """The replicas whose flow function has ended."""
    return {post.rank for post in posts if post.thread == _ENDED}


def standstill(
    read: Callable[[], list[Post]], missing: Callable[[str], set[int]], world_size: int
) -> str:
    """How it is that no replica can ever go on; empty where one may.

    That is certain only while the main thread of every replica waits, each for others: another
    thread may be on its way to any place, but the flow's own order of places is the main thread's.
    """
    posts = _main(read())
    if len(posts) < world_size or len({post.place for post in posts.values()}) == 1:
        return ""
    if not all(missing(place) for place in {post.place for post in posts.values()}):
        return ""
    # Who still stands where it stood before has stood there all the time.
    return describe(posts.values()) if _main(read()) == posts else ""


def describe(posts: Iterable[Post]) -> str:
    """Say in one line who waits where."""
    at: dict[str, list[int]] = {}
    for post in sorted(posts, key=lambda post: post.rank):
        if post.what and post.rank not in at.setdefault(post.what, []):
            at[post.what].append(post.rank)
    return ", ".join(f"{names(ranks)} at {what}" for what, ranks in at.items())


def names(ranks: Iterable[int]) -> str:
    """Ranks for people, not more than a few of them."""
    known = sorted(ranks)
    shown = ", ".join(map(str, known[:_NAMED]))
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"{'replica' if len(known) == 1 else 'replicas'} {shown}{more}"


def _main(posts: Iterable[Post]) -> Mapping[int, Post]:
    return {post.rank: post for post in posts if post.thread == _MAIN}


def _thread() -> str:
    thread = threading.current_thread()
    return _MAIN if thread is threading.main_thread() else str(thread.ident)


def _post(name: str, entry: Entry) -> Post:
    rank, _, thread = name.partition("/")
    said = json.loads(entry.notes.get(_NOTE) or "{}")
    return Post(
        rank=int(rank),
        thread=thread,
        place=said.get("place", ""),
        what=said.get("what", ""),
        since=entry.updated,
    )
