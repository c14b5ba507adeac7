"""Entries of Cloud Logging as lines of a flow run's log.

Vertex AI calls everything on standard error an ERROR, and Python's logging writes there: what a
program wrote has the level of its own prefix, else INFO.  Only the service's own messages keep
their severity.  Form of entries: public dumps of `ml_job` entries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from prefect_vertex.planning.spelling import storable

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

EntryKey = tuple[str, str, datetime, int, str]

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
PREFIX_LENGTH = 200
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
# Prefect's own console form (3.9.1, logging.yml); what run loggers say is also sent to the API.
_CONSOLE = re.compile(
    rf"\d\d:\d\d:\d\d\.\d{{3}} \| (?P<level>{_NAMES})\s* \| "
    r"(?:(?P<run>(?:Flow|Task) run (?:'.*?'|\".*?\"))|[\w.$:\-]{1,200}) - (?P<message>.*)",
    re.DOTALL,
)
_TRACEBACK = "Traceback (most recent call last):"
_CHAIN = (
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
        timestamp: Nanoseconds are cut to microseconds, the same each time.
        nanoseconds: What was cut off, 0 to 999.
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
    nanoseconds: int = 0

    @property
    def order(self) -> tuple[datetime, int, str]:
        """As Cloud Logging orders entries."""
        return (self.timestamp, self.nanoseconds, self.insert_id)

    @property
    def key(self) -> EntryKey:
        """What no other entry has."""
        return (self.job_id, self.task_name, *self.order)


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
    text = entry.text
    if (record := console_record(entry)) is not None:
        # Its time and level are the line's own in Prefect.
        level, text = _LEVELS[record["level"]], record["message"]
    elif entry.is_plain:
        level = level_of(text)
    else:
        level = _level_of_severity(entry.severity)
    return Line(
        logger=LOGGER_PREFIX + entry.task_name,
        timestamp=entry.timestamp,
        level=level,
        text=storable(text.rstrip()),
    )


def level_of(text: str) -> int:
    """The level that a line's own prefix names, in the usual forms; else INFO."""
    beginning = bare(text[:PREFIX_LENGTH])
    for prefix in _PREFIXES:
        if (match := prefix.match(beginning)) is not None:
            return _LEVELS[match["level"]]
    match = _GLOG.match(beginning)
    return _GLOG_LEVELS[match["letter"]] if match is not None else INFO


def is_traceback_start(text: str) -> bool:
    """Whether a line begins one."""
    return text.startswith(_TRACEBACK)


def is_traceback_end(text: str) -> bool:
    """Whether a line is the last of one: the exception."""
    return _EXCEPTION.match(text[:PREFIX_LENGTH]) is not None


def is_chain(text: str) -> bool:
    """Whether a line says that another traceback follows, which belongs to the one before."""
    return text.startswith(_CHAIN)


def bare(text: str) -> str:
    """Without the codes that colour a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def is_from_container(logger: str) -> bool:
    """Whether a log line in Prefect was sent by the run's own process."""
    return logger != WORKER_LOGGER and not logger.startswith(LOGGER_PREFIX)


def console_record(entry: LogEntry) -> re.Match[str] | None:
    """The parts of what Prefect's console formatter wrote; None: another did."""
    return _CONSOLE.match(bare(entry.text)) if entry.is_plain else None


def _level_of_severity(severity: int) -> int:
    return next((level for least, level in _SEVERITIES if severity >= least), INFO)
