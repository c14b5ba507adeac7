"""Which entries the replicas' processes sent to Prefect themselves, so that none stands twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from prefect_vertex.lifecycle.lines import (
    CONTINUATION,
    PREFIX_LENGTH,
    SAID_WITHIN,
    EntryKey,
    LogEntry,
    SaidLine,
    bare,
    console_record,
    is_chain,
    is_traceback_end,
    is_traceback_start,
    line_of,
)
from prefect_vertex.lifecycle.records import group


def unsent(
    entries: Iterable[LogEntry], said: Mapping[str, Iterable[SaidLine]] | None = None
) -> list[LogEntry]:
    """The entries in order, without those that the replicas' processes sent to Prefect themselves.

    Args:
        entries: Of one job.
        said: By replica, for those that died: the lines that its process has sent, to whichever
            flow run is its own, and when.  Of all others whatever has the form of Prefect's run
            loggers is taken to be sent.
    """
    said = said or {}
    ordered = sorted(entries, key=lambda entry: entry.order)
    ordered = [entry for entry in ordered if entry.text.strip()]
    sent = _sent_by_form([each for each in ordered if each.task_name not in said])
    for task_name, lines in said.items():
        sent |= _sent_by_word([each for each in ordered if each.task_name == task_name], lines)
    return [entry for entry in ordered if entry.key not in sent]


def _sent_by_word(entries: Sequence[LogEntry], said: Iterable[SaidLine]) -> set[EntryKey]:
    """Each line that was sent stands for one entry of about its time, and for no other like it.

    A record of several lines was sent as a whole, or is another's, such as a second account of the
    same exception.
    """
    left: dict[str, list[datetime]] = defaultdict(list)
    for at, text in said:
        left[bare(text).strip()].append(at)
    sent: set[EntryKey] = set()
    # What has the form of a run logger's record is rather the line that was sent than a print.
    records = sorted(group(entries), key=lambda record: not _is_of_run_logger(record.entries[0]))
    for record in records:
        taken: list[tuple[str, datetime]] = []
        for entry in record.entries:
            text = bare(line_of(entry).text).strip()
            times = left.get(text, [])
            nearest = min(times, key=lambda at: abs(entry.timestamp - at), default=None)
            if nearest is None or abs(entry.timestamp - nearest) > SAID_WITHIN:
                break
            times.remove(nearest)
            taken.append((text, nearest))
        if len(taken) == len(record.entries):
            sent |= {entry.key for entry in record.entries}
            continue
        for text, at in taken:
            left[text].append(at)
    return sent


def _sent_by_form(entries: Iterable[LogEntry]) -> set[EntryKey]:
    """The records of run loggers, each with the traceback that follows it at once."""
    sent: set[EntryKey] = set()
    records: dict[str, _Record] = {}
    for entry in entries:
        record = records.get(entry.task_name)
        if _is_of_run_logger(entry):
            records[entry.task_name] = _Record(entry.timestamp)
            sent.add(entry.key)
        elif record is not None and record.goes_on_with(entry):
            sent.add(entry.key)
        else:
            records.pop(entry.task_name, None)
    return sent


@dataclass(slots=True)
class _Record:
    """A run logger's record, as its lines come."""

    begun_at: datetime
    is_in_traceback: bool = False

    def goes_on_with(self, entry: LogEntry) -> bool:
        """Whether a line belongs to it.

        Only a traceback, and what is indented: nothing else tells it from another's line, such as
        the shell's `Killed`, and a line too many is better than one that is nowhere.
        """
        text = bare(entry.text[:PREFIX_LENGTH])
        if not entry.is_plain or entry.timestamp - self.begun_at > CONTINUATION:
            return False
        if is_traceback_start(text) or is_chain(text):
            self.is_in_traceback = True
            return True
        if text[:1].isspace():
            return True
        is_end = self.is_in_traceback and is_traceback_end(text)
        self.is_in_traceback = False
        return is_end


def _is_of_run_logger(entry: LogEntry) -> bool:
    """Whether an entry has the form of a record that is sent to the API too."""
    match = console_record(entry)
    return match is not None and match["run"] is not None
