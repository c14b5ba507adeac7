"""Entries as records of a log: what a program wrote at once is one, without its console's prefix.

A container's output comes line by line, so that a traceback of twenty lines is twenty entries.
What a person reads is one record, as a logger would have sent it.

Only a newline ends a line: a progress bar is one, with all its carriage returns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from prefect_vertex.lifecycle.lines import (
    CONTINUATION,
    ERROR,
    LOGGER_PREFIX,
    SERVICE_TASK,
    WARNING,
    EntryKey,
    Line,
    LogEntry,
    SaidLine,
    bare,
    console_record,
    is_chain,
    is_traceback_end,
    is_traceback_start,
    line_of,
)

KNOWN_WITHIN = timedelta(seconds=10)
"""So long after a record's first line its last one may have been written."""

SEE_LOGS = re.compile(r"To find out more about why your job exited please check the logs:")
"""Begins the last line of Vertex AI's error; the run's log has had the address since the create."""

MAX_JOINED = 300
"""Lines of one record: a recursion's traceback has a thousand."""

KnownLine = tuple[str, datetime, str]


@dataclass(slots=True)
class Record:
    """One record, as its entries come.

    Attributes:
        is_in_traceback: Its traceback has begun, and its last line has not come.
    """

    entries: list[LogEntry] = field(default_factory=list)
    is_in_traceback: bool = False

    def takes(self, entry: LogEntry) -> bool:
        """Whether an entry of the same replica belongs to it; then it is added."""
        last = self.entries[-1]
        near = entry.timestamp - last.timestamp <= CONTINUATION
        if not (entry.is_plain and last.is_plain and near and len(self.entries) < MAX_JOINED):
            return False
        text = bare(entry.text)
        if is_traceback_start(text):
            # It belongs to a logger's record before it, or to a traceback that it goes on with.
            begins = len(self.entries) == 1 and _may_explain(last)
            if not begins and not (len(self.entries) > 1 and is_chain(bare(last.text))):
                return False
            self.is_in_traceback = True
        elif self.is_in_traceback:
            if is_traceback_end(text):
                self.is_in_traceback = False
            elif not text[:1].isspace():
                return False
        elif not (is_chain(text) and len(self.entries) > 1):
            return False
        self.entries.append(entry)
        return True

    @property
    def line(self) -> Line:
        """What it is in the log."""
        first, *rest = [line_of(entry) for entry in self.entries]
        if not rest:
            return first
        text = "\n".join([first.text, *(each.text for each in rest)])
        # A logger has said how bad it is; a traceback on its own is an error.
        is_own = console_record(self.entries[0]) is None
        level = max(first.level, ERROR) if is_own else first.level
        return Line(logger=first.logger, timestamp=first.timestamp, level=level, text=text)


def _may_explain(entry: LogEntry) -> bool:
    """Whether it is a logger's record that may have a traceback after it."""
    return console_record(entry) is not None and line_of(entry).level >= WARNING


def lines_of(entries: Iterable[LogEntry], *, named: bool = False) -> list[Line]:
    """The lines that entries become, in the order of their first ones.

    Args:
        entries: In order.
        named: Whether each says which replica it is of; the service's own never do.
    """
    return [_named(record) if named else record.line for record in group(entries)]


def group(entries: Iterable[LogEntry]) -> list[Record]:
    """The records that entries are, in the order of their first ones."""
    records: list[Record] = []
    open_ones: dict[str, Record] = {}
    for entry in entries:
        record = open_ones.get(entry.task_name)
        if record is not None and record.takes(entry):
            continue
        begins = entry.is_plain and is_traceback_start(bare(entry.text))
        record = Record([entry], is_in_traceback=begins)
        open_ones[entry.task_name] = record
        records.append(record)
    return records


def _named(record: Record) -> Line:
    line, task_name = record.line, record.entries[0].task_name
    if task_name == SERVICE_TASK:
        return line
    text = f"[{task_name}] {line.text}"
    return Line(logger=line.logger, timestamp=line.timestamp, level=line.level, text=text)


def unknown(
    entries: Sequence[LogEntry], known: Iterable[KnownLine], *, cut_mark: str
) -> list[LogEntry]:
    """The entries that a log does not hold yet, alone or as a part of a record.

    Args:
        entries: In order.
        known: Logger, time and text of what the log holds; each line of it stands for one entry.
        cut_mark: Ends a text that was too long.
    """
    left: dict[tuple[str, str], list[tuple[datetime, bool]]] = defaultdict(list)
    heads: dict[tuple[str, datetime], list[str]] = defaultdict(list)
    for logger, at, text in known:
        own = text.removeprefix(f"[{logger.removeprefix(LOGGER_PREFIX)}] ")
        if own.endswith(cut_mark):
            heads[logger, at].append(own.removesuffix(cut_mark))
        for number, part in enumerate(own.split("\n")):
            left[logger, part.strip()].append((at, number == 0))
    cut_off = _cut_off(entries, heads)
    found = []
    for entry in entries:
        line = line_of(entry)
        # Of the service's own text the end may have been left out, see `told_once`.
        places = left[line.logger, line.text.strip().partition("\n")[0].strip()]
        place = next((each for each in places if _is_at(each, line.timestamp)), None)
        if place is not None:
            places.remove(place)
        elif entry.key not in cut_off:
            found.append(entry)
    return found


def _cut_off(
    entries: Iterable[LogEntry], heads: Mapping[tuple[str, datetime], Sequence[str]]
) -> set[EntryKey]:
    """The entries of records that a log holds the beginning of: the rest was left out there."""
    keys: set[EntryKey] = set()
    for record in group(entries) if heads else ():
        line = record.line
        if any(line.text.startswith(head) for head in heads.get((line.logger, line.timestamp), ())):
            keys |= {entry.key for entry in record.entries}
    return keys


def told_once(entries: Sequence[LogEntry], said: Iterable[SaidLine]) -> list[LogEntry]:
    """The entries, the service's own without what is told as a replica's line already.

    Vertex AI's error ends with the last lines of standard error, and with the address of the log.

    Args:
        entries: What is for a run's log.
        said: What its own process has sent there.
    """
    told = {text.strip() for _, text in said}
    for entry in entries:
        if entry.task_name != SERVICE_TASK:
            told |= {line.strip() for line in bare(entry.text).split("\n")}
            told |= {line.strip() for line in line_of(entry).text.split("\n")}
    # What a replica printed as an empty line is told by nothing.
    told.discard("")
    return [_cut(entry, told) if entry.task_name == SERVICE_TASK else entry for entry in entries]


def _cut(entry: LogEntry, told: Collection[str]) -> LogEntry:
    first, *rest = entry.text.split("\n")
    kept = [line for line in rest if bare(line).strip() not in told]
    kept = [line for line in kept if SEE_LOGS.match(line) is None]
    text = "\n".join([first, *kept]).rstrip()
    return entry if len(kept) == len(rest) else replace(entry, text=text)


def _is_at(place: tuple[datetime, bool], moment: datetime) -> bool:
    """Whether a line of the log may be an entry of that time."""
    at, is_first = place
    return moment == at if is_first else at <= moment <= at + KNOWN_WITHIN
