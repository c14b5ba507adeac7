"""Entries of Cloud Logging as lines of a flow run's log.

Vertex AI calls everything on standard error an ERROR, and Python's logging writes there: what a
program wrote has the level of its own prefix, else INFO.  Only the service's own messages keep
their severity.  Form of entries: public dumps of `ml_job` entries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

DEBUG, INFO, WARNING, ERROR, CRITICAL = 10, 20, 30, 40, 50
"""Levels of Python's logging, which Prefect's are."""

SERVICE_TASK = "service"
"""`task_name` of what Vertex AI itself says."""

LEADER_TASK = "workerpool0-0"
"""`task_name` of the replica whose process is the flow run's."""

LOGGER_PREFIX = "prefect.vertex."
"""A line's logger in Prefect is this and the replica's name, such as workerpool0-0."""

WORKER_LOGGER = "prefect.flow_runs.worker"
"""Under this name workers write to a run's log."""

CONTINUATION = timedelta(seconds=1)
"""So soon after a record's first line the others of the same record follow."""

SAID_WITHIN = timedelta(seconds=10)
"""So far apart are at most the times of a line in Prefect and of the same line in Cloud Logging."""

SaidLine = tuple[datetime, str]
"""A line that a process sent to Prefect, and when."""

EntryKey = tuple[str, str, str]

_LEVELS = {
    "TRACE": DEBUG,
    "DEBUG": DEBUG,
    "INFO": INFO,
    "NOTICE": INFO,
    "WARN": WARNING,
    "WARNING": WARNING,
    "ERROR": ERROR,
    "CRITICAL": CRITICAL,
    "FATAL": CRITICAL,
}
_PREFIX_LENGTH = 200
"""So much of a line is searched for its level."""
_GLOG_LEVELS = {"I": INFO, "W": WARNING, "E": ERROR, "F": CRITICAL}
_NAMES = "|".join(_LEVELS)
# No part of these can match what the part after it begins with: lines are anybody's, and a pattern
# that tries many ways to divide one would hold up the event loop.
_TIME = r"\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[\]:,;]*"
_PREFIXES = (
    # ERROR:root:text, WARNING: text, [INFO] text
    re.compile(rf"(?P<level>{_NAMES})\s*[:|]"),
    re.compile(rf"\[(?P<level>{_NAMES})\s*\]"),
    # 12:00:00.123 | ERROR   | text; 2026-01-01 12:00:00,123 - name - ERROR - text
    re.compile(rf"{_TIME}[\s|\-\[(]+(?:[\w.$:]+[\s|\-\[(]+)?(?P<level>{_NAMES})\b"),
)
_GLOG = re.compile(r"(?P<letter>[IWEF])\d{4} \d\d:\d\d:\d\d")
# Prefect's own console form (3.9.1, logging.yml) of what its run loggers also send to the API.
_RUN_LOGGER = re.compile(
    rf"\d\d:\d\d:\d\d\.\d{{3}} \| (?:{_NAMES})\s* \| (?:Flow|Task) run (?:'.*?'|\".*?\")"
    r" - (?P<message>.*)",
    re.DOTALL,
)
_TRACEBACK_LINES = (
    "Traceback (most recent call last):",
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# A traceback's last line: a name with a text, or a name that is an exception's by itself.
_EXCEPTION = re.compile(r"[^\W\d][\w.]*(?::|(?<=Error|.Exit)$|(?<=Exception|Interrupt)$)")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,30}m")
# google.logging.type.LogSeverity: from this number on.
_SEVERITIES = ((600, CRITICAL), (500, ERROR), (400, WARNING), (200, INFO), (100, DEBUG))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One entry, as Cloud Logging gives it.

    Attributes:
        insert_id: Tells entries of one log and timestamp apart.
        severity: The number of Google's LogSeverity.
        text: The message; of a structured line without one, the whole as JSON.
        is_plain: A line as a program wrote it, whose severity only names its stream.
    """

    job_id: str
    task_name: str
    timestamp: datetime
    insert_id: str
    severity: int = 200
    text: str = ""
    is_plain: bool = True

    @property
    def order(self) -> tuple[datetime, str]:
        """As Cloud Logging orders entries."""
        return (self.timestamp, self.insert_id)

    @property
    def key(self) -> EntryKey:
        """What no other entry has."""
        return (self.job_id, self.task_name, self.insert_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a run's log in Prefect."""

    logger: str
    timestamp: datetime
    level: int
    text: str

    @property
    def key(self) -> tuple[str, datetime, str]:
        """By which it is recognised in Prefect, whoever wrote it there."""
        return (self.logger, self.timestamp, self.text)


def task_name_of(rank: int) -> str:
    """The replica of a rank: pool 0 has rank 0, pool 1 those after it."""
    return LEADER_TASK if rank == 0 else f"workerpool1-{rank - 1}"


def line_of(entry: LogEntry) -> Line:
    """The line that an entry becomes."""
    level = level_of(entry.text) if entry.is_plain else _level_of_severity(entry.severity)
    return Line(
        logger=LOGGER_PREFIX + entry.task_name,
        timestamp=entry.timestamp,
        level=level,
        # A database may refuse the character that no console shows.
        text=entry.text.rstrip().replace("\0", ""),
    )


def level_of(text: str) -> int:
    """The level that a line's own prefix names, in the usual forms; else INFO."""
    beginning = _bare(text[:_PREFIX_LENGTH])
    for prefix in _PREFIXES:
        if (match := prefix.match(beginning)) is not None:
            return _LEVELS[match["level"]]
    match = _GLOG.match(beginning)
    return _GLOG_LEVELS[match["letter"]] if match is not None else INFO


def _bare(text: str) -> str:
    """Without the codes that colour a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def is_from_container(logger: str) -> bool:
    """Whether a log line in Prefect was sent by the run's own process."""
    return logger != WORKER_LOGGER and not logger.startswith(LOGGER_PREFIX)


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


def _sent_by_word(entries: Iterable[LogEntry], said: Iterable[SaidLine]) -> set[EntryKey]:
    """Each line that was sent stands for one entry of about its time, and for no other like it."""
    left: dict[str, list[datetime]] = defaultdict(list)
    for at, text in said:
        left[_bare(text).strip()].append(at)
    sent: set[EntryKey] = set()
    messages = [(_message(entry), entry) for entry in entries]
    # What has the form of a run logger's record is rather the line that was sent than a print.
    for message, entry in sorted(messages, key=lambda each: each[0] is None):
        times = left.get((_bare(entry.text) if message is None else message).strip(), [])
        nearest = min(times, key=lambda at: abs(entry.timestamp - at), default=None)
        if nearest is not None and abs(entry.timestamp - nearest) <= SAID_WITHIN:
            times.remove(nearest)
            sent.add(entry.key)
    return sent


def _sent_by_form(entries: Iterable[LogEntry]) -> set[EntryKey]:
    """The records of run loggers, each with the traceback that follows it at once."""
    sent: set[EntryKey] = set()
    records: dict[str, _Record] = {}
    for entry in entries:
        record = records.get(entry.task_name)
        if _message(entry) is not None:
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
        text = _bare(entry.text[:_PREFIX_LENGTH])
        if not entry.is_plain or entry.timestamp - self.begun_at > CONTINUATION:
            return False
        if text.startswith(_TRACEBACK_LINES):
            self.is_in_traceback = True
            return True
        if text[:1].isspace():
            return True
        is_end = self.is_in_traceback and _EXCEPTION.match(text) is not None
        self.is_in_traceback = False
        return is_end


def _message(entry: LogEntry) -> str | None:
    """What a run logger said, if an entry has the form of its record."""
    match = _RUN_LOGGER.match(_bare(entry.text)) if entry.is_plain else None
    return match["message"] if match is not None else None


def _level_of_severity(severity: int) -> int:
    return next((level for least, level in _SEVERITIES if severity >= least), INFO)
